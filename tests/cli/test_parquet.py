"""Parquet files: an index of pandas is a column, and decimal numbers are numbers."""

import decimal

import numpy as np
import pandas as pd
import pytest

from commands import run
from gpbae.cli import files, pieces
from gpbae.tabular import ondisk

N, AT_A_TIME = 30, 11
TINY = """
latent_dim = 1
decoder = "linear"
encoder = "linear"
num_inducing = 4
num_chains = 1
num_warmup = 4
num_samples = 5
sampler_steps = 3
encoder_steps = 2
num_map_steps = 5
progress = false
"""
TIMES = pd.date_range("2020-01-01", periods=N, freq="h", tz="UTC")
INDICES = {
    "dates": (TIMES.rename("time"), {"time": TIMES}),
    "numbers": (pd.Index(np.arange(N) ** 2, name="time"), {"time": np.arange(N) ** 2}),
    "a range": (pd.RangeIndex(5, 5 + 2 * N, 2, name="time"), {"time": 5 + 2 * np.arange(N)}),
    "two levels": (pd.MultiIndex.from_arrays([["x"] * N, TIMES], names=["id", "time"]), {"id": ["x"] * N,
                                                                                        "time": TIMES}),
    "a name that is taken": (pd.Index(np.arange(N), name="a"), {}),
    "rows": (pd.RangeIndex(N), {}),
    "rows that are left": (pd.Index(np.arange(N) ** 2), {}),
    "dates without a name": (TIMES, {"index": TIMES}),
}  # fmt: skip


def make_table():
    """Numbers, and decimal numbers with a gap that is not in the first piece."""
    prices = [decimal.Decimal(f"{i % 7}.{i % 10}0") for i in range(N)]
    prices[AT_A_TIME + 3] = None
    return pd.DataFrame({"a": np.sin(np.arange(N) / 5).round(3), "price": prices})


@pytest.mark.parametrize("what", INDICES)
def test_an_index_of_pandas_is_a_column_unless_it_counts_rows(what, tmp_path):
    index, columns = INDICES[what]
    make_table().set_index(index).to_parquet(tmp_path / "t.parquet")
    whole = files.read(tmp_path / "t.parquet")
    assert list(whole.columns) == [*columns, "a", "price"] and list(whole.index) == list(range(N))
    for name, cells in columns.items():
        assert list(whole[name]) == list(cells)
    assert list(whole["a"]) == list(make_table()["a"])
    pd.testing.assert_frame_equal(pd.concat(list(pieces.read(tmp_path / "t.parquet", AT_A_TIME))), whole,
                                  check_dtype=False)  # fmt: skip


def test_the_ends_of_a_range_are_not_believed_of_rows_that_were_taken_out(tmp_path):
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pandas(pd.DataFrame({"a": np.arange(N)}, pd.RangeIndex(N, name="time")))
    parquet.write_table(table.slice(3, 5), tmp_path / "t.parquet")
    assert list(files.read(tmp_path / "t.parquet").columns) == ["a"]


def test_an_index_is_copied_to_an_array_by_its_name(tmp_path):
    make_table()[["a"]].set_index(INDICES["numbers"][0]).to_parquet(tmp_path / "t.parquet")
    copied = ondisk.from_parquet(tmp_path / "t.parquet", ["time", "a"], tmp_path / "t.npy")
    np.testing.assert_array_equal(copied.rows(np.arange(N))[:, 0], np.arange(N) ** 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with dates as index, and a run that was fitted to it."""
    here = tmp_path_factory.mktemp("parquet")
    (here / "tiny.toml").write_text(TINY)
    make_table().set_index(INDICES["dates"][0]).to_parquet(here / "t.parquet")
    assert run("fit", here / "t.parquet", "--inputs", "time", "--config", here / "tiny.toml", "--out", here / "run",
               "-q") == 0  # fmt: skip
    return here


@pytest.mark.parametrize("most", [pieces.ROWS_IN_MEMORY, 1], ids=["whole", "pieces"])
def test_answers_keep_the_index_and_the_type_of_numbers(most, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", most)
    monkeypatch.setattr("gpbae.answering.blocks.MOST_ROWS", AT_A_TIME)
    for kind in ("parquet", "csv", "npz"):
        output = tmp_path / f"filled.{kind}"
        assert run("impute", folder / "run", folder / "t.parquet", "-o", output, "-q") == 0
        filled = files.read(output)
        assert list(filled.columns) == ["time", "a", "price"]
        assert list(pd.to_datetime(filled["time"], utc=True)) == list(TIMES)
        prices, gaps = make_table()["price"].to_numpy(float), make_table()["price"].isna()
        np.testing.assert_array_equal(filled["price"].to_numpy(float)[~gaps], prices[~gaps])
        assert np.isfinite(filled["price"].to_numpy(float)).all()
    assert files.read(tmp_path / "filled.parquet")["price"].dtype == np.float64
