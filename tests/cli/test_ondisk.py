"""Tables that stay on disk while `gpbae fit` works: the copy is the table, a kill leaves none, all goes on without the
source."""

import json
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpbae
from commands import run
from gpbae.cli import copying, files, fit, ondisk, pieces, reading, roles
from gpbae.errors import InputError
from gpbae.sampling import run as sampling
from gpbae.saving import storage, tablefolder
from gpbae.tabular import tables

N, AT_A_TIME = 2400, 700
TINY = """
latent_dim = 1
decoder = "linear"
encoder = "linear"
num_inducing = 4
num_chains = 1
num_warmup = 4
num_samples = 3
thinning = 2
sampler_steps = 3
encoder_steps = 2
num_map_steps = 5
batch_size = 64
latents = "persistent"
progress = false
"""


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch):
    """So that a few thousand rows are several pieces, and nobody may read the whole."""
    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", AT_A_TIME)


def make_frame():
    """Dates, two series, a real column with gaps, counts, yes and no, labels of which one comes late, words."""
    rng, i = np.random.default_rng(0), np.arange(N)
    time = pd.Timestamp("2020-01-01") + pd.to_timedelta(i // 2, unit="h")
    level = np.where(rng.random(N) < 0.1, np.nan, np.sin(i / 50).round(3))
    sky = np.where(i == N - 9, "fog", rng.choice(["clear", "cloud"], N))
    return pd.DataFrame({"time": time, "site": np.where(i % 2, "B", "A"), "level": level, "rain": rng.poisson(2, N),
                         "wet": rng.random(N) < 0.5, "sky": sky, "note": "x y"})  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("disk")
    make_frame().to_csv(here / "data.csv", index=False)
    make_frame().to_parquet(here / "data.parquet")
    np.save(here / "data.npy", np.random.default_rng(1).standard_normal((N, 3)).astype(np.float32))
    (here / "tiny.toml").write_text(TINY)
    return here


WISH = reading.Wish("time", "all,sky", groups="site")
COMMAND = ["--inputs", "time", "--outputs", "all,sky", "--groups", "site", "--on-disk"]


def copied(path, wish, out, begun=False) -> Any:
    """A table in the folder of a run, and what is said of its columns."""
    out.mkdir(exist_ok=True)
    source = copying.Source(path, wish)
    copying.copy(source, copying.head(source), out, lambda event: None, begun)
    notes = tablefolder.manifest(out)["notes"]
    return tablefolder.reopen(out), roles.Columns.from_json(json.dumps(notes["columns"]).encode())


# The copy.

COPIES = {
    "text": ("data.csv", WISH),
    "typed": ("data.parquet", WISH),
    "numbers": ("data.npy", reading.Wish("y[0]", "y[1],y[2]")),
    "no inputs": ("data.npy", reading.Wish("", "all")),
    "a stretch that begins after the first piece": ("data.csv", WISH._replace(first="2020-02-01", last="2020-02-10")),
    "a code for missing": ("data.csv", WISH._replace(missing=("rain=2", "wet=True"))),
}


@pytest.mark.parametrize("name", COPIES)
def test_the_copy_is_the_table_that_would_be_read_whole(name, folder, tmp_path):
    path, wish = folder / COPIES[name][0], COPIES[name][1]
    (x, y, groups), columns = copied(path, wish, tmp_path / "run")
    whole = reading.read(path, wish)
    rows = np.arange(len(whole.rows))
    assert len(y) == len(rows) and columns.outputs == whole.columns.outputs
    seen = tables.observations(whole.y)
    on_disk = tables.observations(y.sample(rows))
    for column, kind in enumerate(columns.kinds[output] for output in columns.outputs):
        if kind == "category":
            continue  # codes follow the order of labels, which is not the same
        np.testing.assert_array_equal(on_disk.values[:, column], seen.values[:, column])
    for label in (n for n in columns.outputs if columns.kinds[n] == "category"):
        assert list(y.sample(rows)[label].astype(str)) == list(whole.y[label])
    if whole.x is not None:
        pd.testing.assert_frame_equal(x.sample(rows), whole.x, check_column_type=False)
    if whole.groups is not None:
        np.testing.assert_array_equal(groups.labels[groups.codes], whole.groups)
    assert y.source.dtype == (np.float32 if path.suffix == ".npy" else np.float64)


def test_pieces_of_a_parquet_file_are_forgotten_when_they_were_read(tmp_path):
    import pyarrow
    from pyarrow import parquet

    rows, groups = 20_000, 50
    with parquet.ParquetWriter(tmp_path / "long.parquet", pyarrow.schema([("a", pyarrow.float64())])) as file:
        for i in range(groups):
            file.write_table(pyarrow.table({"a": np.random.default_rng(i).standard_normal(rows)}))
    before = pyarrow.total_allocated_bytes()
    held = [pyarrow.total_allocated_bytes() for _ in pieces.read(tmp_path / "long.parquet", rows)]
    assert len(held) == groups and max(held) - before < 8 * rows * groups / 4


def test_columns_are_the_same_whatever_the_file(folder, tmp_path):
    found = [copied(folder / f"data.{kind}", WISH, tmp_path / kind)[1] for kind in ("csv", "parquet")]
    assert found[0] == found[1] == reading.read(folder / "data.csv", WISH).columns


def surprise(folder, tmp_path, name, cells, at=N - 5):
    """The text of the table with these cells of a column from row `at` on."""
    frame = pd.read_csv(folder / "data.csv", dtype=str, keep_default_na=False)
    frame[name] = frame[name].astype(object) if name in frame else ""
    frame.loc[at : at + len(cells) - 1, name] = cells
    frame.to_csv(tmp_path / "late.csv", index=False)
    return tmp_path / "late.csv"


def test_what_comes_late_is_known_of_the_columns(folder, tmp_path):
    """Decimals among whole numbers, commas where there were none, words for yes and no."""
    path = surprise(folder, tmp_path, "rain", ["2.5"])
    (_, y, _), columns = copied(path, WISH, tmp_path / "a")
    assert columns.kinds["rain"] == "number" and 2.5 in y.sample(np.arange(N))["rain"].to_numpy()
    assert y.frame.codings[columns.outputs.index("sky")].labels[-1] == "fog"
    path = surprise(folder, tmp_path, "level", ["0,5"])
    (_, y, _), columns = copied(path, WISH, tmp_path / "b")
    assert columns.decimal == "comma" and y.sample(np.arange(N))["level"][N - 5] == 0.5


REFUSED = {
    "a word": ("level", ["oops"], f"must hold numbers; got 'oops' on line {N - 3}"),
    "neither yes nor no": ("wet", ["maybe"], f"must hold yes or no; got 'maybe' on line {N - 3}"),
    "an infinity": ("level", ["inf"], f"must hold finite numbers; got 'inf' on line {N - 3}"),
    "two kinds of commas": ("level", ["0,5", *[""] * 3, "1,234.5"], f"got '1,234.5' on line {N + 1}"),
    "no date": ("time", ["soon"], f"must hold a date in every row; got 'soon' on line {N - 3}"),
    "a column of which nothing was known": ("new", ["7"], f"got nothing there and 7 on line {N - 3}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_cell_is_refused_with_its_line_in_whatever_piece_it_is(name, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files, "read", None)  # nobody may read the whole
    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", (N - 3) // 3)  # the last three rows are a piece
    column, cells, words = REFUSED[name]
    path = surprise(folder, tmp_path, column, cells)
    assert run("fit", path, *COMMAND, "--config", folder / "tiny.toml", "--out", tmp_path / "run") == 1
    said = capsys.readouterr().err
    assert words in said.splitlines()[-1] and said.splitlines()[-1].startswith("Error: ")
    assert not (tmp_path / "run").exists()


def test_a_copy_that_is_not_as_it_was_written_is_refused(folder, tmp_path):
    out = tmp_path / "run"
    copied(folder / "data.csv", WISH, out)
    content = bytearray((out / "table" / "y.npy").read_bytes())
    content[-1] ^= 1
    (out / "table" / "y.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"y.npy is not as it was written"):
        tablefolder.reopen(out)


def test_a_run_that_was_begun_keeps_its_table(folder, tmp_path):
    """The same cells in another file are the same table; others are refused, and nothing changes."""
    out = tmp_path / "run"
    copied(folder / "data.csv", WISH, out)
    copied(folder / "data.parquet", WISH, out, begun=True)
    before = (out / "table" / storage.MANIFEST).read_bytes()
    with pytest.raises(InputError, match="begun with other data"):
        copied(surprise(folder, tmp_path, "level", ["0.123"]), WISH, out, begun=True)
    assert (out / "table" / storage.MANIFEST).read_bytes() == before
    tablefolder.reopen(out)


# What is not possible.

IMPOSSIBLE = {
    "exact GP": (["--model", "gp-bae"], "sees some rows at a time, bae, sgp-bae, dsgp-bae; got gp-bae"),
    "baseline": (["--model", "vae"], "got vae"),
    "evaluation": (["--evaluate"], "--evaluate cannot hide cells"),
    "several processes": (["--distributed"], "--distributed is for tables in memory"),
    "seeds of rows": (["--set", "latent_coordinates=seeds"], "latent_coordinates='seeds'"),
    "unknown argument": (["--set", "num_chain=1"], "Did you mean num_chains?"),
    "logarithm of nothing": (["--transform", "level=log"], "transform 'log' needs values above 0; got -"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_needs_all_rows_is_refused_in_a_sentence_before_the_chains(name, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sampling, "Sampler", None)
    given, words = IMPOSSIBLE[name]
    assert run("fit", folder / "data.csv", *COMMAND, *given, "--out", tmp_path / "run") == 1
    said = capsys.readouterr().err
    assert words in said and said.count("Error:") == 1


def test_archives_and_full_disks_are_refused(folder, tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "data.npz", y=np.zeros((9, 2)))
    assert run("fit", tmp_path / "data.npz", "--model", "bae", "--on-disk", "--out", tmp_path / "run") == 1
    assert "takes a .csv, .parquet or .npy table" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1000))
    command = ["fit", folder / "data.csv", *COMMAND, "--config", folder / "tiny.toml", "--out", tmp_path / "run"]
    assert run(*command) == 1
    assert "got 0.0 GB. Make room" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_tables_stay_on_disk_by_their_cells_or_as_asked(kind, folder, monkeypatch):
    path = folder / f"data.{kind}"
    num_cells = pieces.num_rows(path) * pieces.num_columns(path)
    assert num_cells == N * (3 if kind == "npy" else 7)
    for most, expected in ((num_cells, False), (num_cells - 1, True)):
        monkeypatch.setattr(ondisk, "LARGEST_IN_MEMORY", most)
        assert ondisk.is_wanted(path, None) is expected
        assert ondisk.is_wanted(path, True) and not ondisk.is_wanted(path, False)


# A fit, from the first kill to the last answer.

KILLED = """
import os, signal, sys
from gpbae import cli
from gpbae.cli import copying, pieces

pieces.ROWS_IN_MEMORY, whole = {rows}, copying._write

def killed(target, *rows):
    if target.files["y.npy"].rows:
        target.files["y.npy"].file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    whole(target, *rows)

copying._write = killed
cli.main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def story(folder):
    """Killed while it copies, begun again by the same command, stopped while it samples, its source lost, resumed."""
    out, source, told = folder / "run", folder / "lost.csv", {}
    shutil.copy(folder / "data.csv", source)
    command = ["fit", source, *COMMAND, "--config", folder / "tiny.toml", "--out", out]
    script = KILLED.format(rows=AT_A_TIME)
    here = os.environ | {"PYTHONPATH": str(Path(gpbae.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script, *map(str, command)], capture_output=True, env=here)
    told["killed"] = (done.returncode, tablefolder.is_there(out), (out / tablefolder.UNFINISHED / "y.npy").exists())
    whole = sampling.Sampler._block
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "ROWS_IN_MEMORY", AT_A_TIME)
        patch.setattr(files, "read", None)

        def stopped(self, *given, **more):
            os.kill(os.getpid(), signal.SIGINT)
            return whole(self, *given, **more)

        patch.setattr(sampling.Sampler, "_block", stopped)
        told["stopped"] = run(*command)
        patch.setattr(sampling.Sampler, "_block", whole)
        source.unlink()
        told["resumed"] = run("resume", out, "-q")
    return out, told


def test_a_kill_leaves_nothing_that_looks_whole_and_the_fit_goes_on_without_its_source(story):
    out, told = story
    assert told["killed"] == (-signal.SIGKILL, False, True)
    assert told["stopped"] == 130 and told["resumed"] == 0
    assert json.loads((out / storage.MANIFEST).read_text())["finished"]
    assert not (out / tablefolder.UNFINISHED).exists() and tablefolder.is_there(out)
    columns = roles.Columns.from_json((out / "columns.json").read_bytes())
    assert columns.inputs == ("time",) and columns.outputs == ("level", "rain", "wet", "sky")


def test_the_same_command_copies_and_samples_nothing_anew(story, folder, monkeypatch, capsys):
    out, _ = story
    shutil.copy(folder / "data.csv", folder / "lost.csv")
    changed = tablefolder.manifest(out)["notes"]["source"]["changed"]
    os.utime(folder / "lost.csv", ns=(changed, changed))
    monkeypatch.setattr(copying, "copy", None)
    monkeypatch.setattr(sampling.Sampler, "_block", None)
    command = ["fit", folder / "lost.csv", *COMMAND, "--config", folder / "tiny.toml", "--out", out]
    assert run(*command) == 0
    said = capsys.readouterr().err
    assert f"The table stays on disk: {N} rows in {out / 'table'}" in said and "keeps its latents" in said
    assert "below about 1.5 GB" in said
    (folder / "lost.csv").unlink()


def test_a_run_from_disk_fills_gaps_and_keeps_cells(story, folder, tmp_path):
    out, _ = story
    rows = make_frame().iloc[::40]
    rows = rows.astype({"rain": "Int64", "wet": "boolean"})
    rows.iloc[3, 3] = rows.iloc[4, 4] = pd.NA
    rows.iloc[5, 5] = None
    rows.to_csv(tmp_path / "some.csv", index=False)
    assert run("impute", out, tmp_path / "some.csv", "-o", tmp_path / "filled.csv", "-q") == 0
    before, after = (pd.read_csv(tmp_path / n, dtype=str, keep_default_na=False) for n in ("some.csv", "filled.csv"))
    assert (before == after)[before != ""].fillna(True).all(axis=None) and (after != "").all(axis=None)
    assert after["wet"].isin(["True", "False"]).all() and after["sky"].isin(["clear", "cloud", "fog"]).all()


def test_what_is_said_of_a_run_from_disk_is_said_of_its_sample(story, capsys):
    out, _ = story
    assert run("diagnose", out) == 0
    assert f"Found at rows of the {N} that the model keeps, of {N} on disk." in capsys.readouterr().out
    assert run("report", out) == 0
    assert f"fitted to {N} rows of a table that stays on disk. This page" in (out / "report.html").read_text()
    assert run("evaluate", out) == 1
    assert f"the {N} rows of this run stay on disk" in capsys.readouterr().err


def test_every_model_is_fitted_from_disk_or_refused(folder):
    for model in fit.Model:
        if model.name in ondisk.MODELS:
            assert ondisk.MODELS[model.name] == model.value
        else:
            with pytest.raises(InputError, match=f"got {model.value}"):
                ondisk.check(folder / "data.csv", model, False, False)
