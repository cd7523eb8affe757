"""What tables are written in: letters, types and arrays, in and out again."""

import functools
import sys

import numpy as np
import pandas as pd
import pytest

from commands import run
from gpbae.cli import archives, encodings, files, parsing, pieces, runs
from gpbae.errors import InputError
from gpbae.tabular import ondisk

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
N, AT_A_TIME = 40, 11
GAPS = slice(20, 34)
"""Not in the first piece, and all of the third."""


def make_table():
    """Numbers, whole numbers with negative ones, counts, yes and no, and labels, without a gap."""
    rng, i = np.random.default_rng(0), np.arange(N)
    return pd.DataFrame({"t": i, "level": np.sin(i / 5).round(3), "step": rng.integers(-40, 40, N),
                         "catch": rng.poisson(3, N), "open": rng.random(N) < 0.5,
                         "sea": rng.choice(["calm", "rough", "wild"], N)})  # fmt: skip


def with_gaps(table):
    """As text files and typed ones have them: a blank, or a null in a column that keeps its type."""
    table = table.astype({"step": "Int64", "catch": "Int64"})
    if table["open"].dtype == bool:
        table["open"] = table["open"].astype("boolean")
    for name in table.columns[1:]:
        table.loc[GAPS.start : GAPS.stop - 1, name] = np.nan if name == "level" else None
    return table


def in_words(table):
    return table.assign(open=table["open"].map({True: "yes", False: "no"}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table as text with words for yes and no and as Parquet with types, a run fitted to each, and tables to ask
    about, with gaps."""
    here = tmp_path_factory.mktemp("files")
    (here / "tiny.toml").write_text(TINY)
    in_words(make_table()).to_csv(here / "text.csv", index=False)
    make_table().to_parquet(here / "typed.parquet", index=False)
    for name, data in (("text", "text.csv"), ("typed", "typed.parquet")):
        assert run("fit", here / data, "--inputs", "t", "--outputs", "level,step,catch,open,sea", "--config",
                   here / "tiny.toml", "--out", here / name, "-q") == 0  # fmt: skip
    table, words = with_gaps(make_table()), with_gaps(in_words(make_table()))
    for name, content in {
        "types": table,
        "categories": words.astype({"open": "category", "sea": "category"}),
        "words": words,
        "zeros": table.assign(open=table["open"].astype("Int64")),
        "floats": table.assign(open=table["open"].astype(float), catch=table["catch"].astype(np.float32)),
        "texts": with_gaps(in_words(make_table())).assign(
            level=table["level"].astype(str).where(table["level"].notna())
        ),
    }.items():
        content.to_parquet(here / f"{name}.parquet", index=False)
    in_words(table).to_csv(here / "words.csv", index=False)
    table.to_csv(here / "truths.csv", index=False)
    return here


TYPES = {
    "types.parquet": {"step": "double", "catch": "int64", "open": "bool", "sea": "string"},
    "categories.parquet": {"open": "dictionary", "sea": "dictionary"},
    "words.parquet": {"open": "string", "sea": "string"},
    "zeros.parquet": {"open": "int64"},
    "floats.parquet": {"open": "double", "catch": "float"},
    "texts.parquet": {"level": "string"},
    "words.csv": {"level": "double", "catch": "int64"},
    "truths.csv": {"level": "double", "catch": "int64"},
}


@pytest.fixture(scope="module")
def load():
    return functools.cache(runs.load)


@pytest.mark.parametrize("most", [pieces.ROWS_IN_MEMORY, 1], ids=["whole", "pieces"])
@pytest.mark.parametrize("data", TYPES)
@pytest.mark.parametrize("fitted", ["text", "typed"])
def test_gaps_are_filled_in_the_types_of_the_table(fitted, data, most, folder, load, tmp_path, monkeypatch):
    """Whatever the run was fitted to: cells that are there stay, columns keep their types, no gap is left."""
    from pyarrow import parquet

    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", most)
    monkeypatch.setattr("gpbae.answering.blocks.MOST_ROWS", AT_A_TIME)
    monkeypatch.setattr(runs, "load", load)
    before = files.read(folder / data)
    for kind in ("parquet", "csv", "npz") if most > 1 else ("parquet",):
        output = tmp_path / f"filled.{kind}"
        assert run("impute", folder / fitted, folder / data, "-o", output, "--mark", "-q") == 0
        after = files.read(output)
        marked = after[[name for name in after if name.endswith("_imputed")]]
        assert marked.astype(str).eq("True").sum().tolist() == [GAPS.stop - GAPS.start] * 5
        for name in before:
            (old, gap), (new, left) = (parsing.read(column, parsing.Writing(truths=name == "open" or None))
                                       for column in (before[name], after[name]))  # fmt: skip
            assert not left.any() and gap.sum() == (0 if name == "t" else GAPS.stop - GAPS.start)
            np.testing.assert_array_equal(new[~gap], old[~gap])
        assert set(after["sea"].astype(str)) <= {"calm", "rough", "wild"}
        assert len(set(after["open"].astype(str))) == 2
    schema = parquet.read_schema(tmp_path / "filled.parquet")
    for name, kind in TYPES[data].items():
        assert str(schema.field(name).type).removeprefix("large_").startswith(kind), name


def test_what_is_neither_yes_nor_no_is_refused_among_numbers_too(folder, tmp_path, capsys):
    table = with_gaps(make_table())
    table.assign(open=table["open"].astype("Int64") * 2).to_parquet(tmp_path / "twos.parquet")
    assert run("impute", folder / "text", tmp_path / "twos.parquet", "-o", tmp_path / "o.csv", "-q") == 1
    assert "Column 'open' must hold yes or no; got '2" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "other"), [("yes", "no"), ("FALSE", "TRUE"), ("T", "F"), ("Yes", "No"), ("n", "y")])
def test_a_column_that_shows_one_of_two_words_is_filled_with_its_opposite(word, other):
    assert parsing.opposite(word) == other and parsing.opposite(other) == word


# Without pyarrow.


def test_parquet_is_refused_before_any_work_where_nothing_can_read_it(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for attribute in ("load", "take_place"):
        monkeypatch.setattr(f"gpbae.cli.runs.{attribute}", lambda *given, **more: {}["nothing may be done"])
    calls = [[name, folder / "text", folder / "text.csv", "-o", tmp_path / "new" / "o.parquet"]
             for name in ("impute", "predict", "encode")]  # fmt: skip
    calls += [
        [name, folder / "text", folder / "types.parquet", "-o", tmp_path / "o.csv"] for name in ("impute", "encode")
    ]
    calls += [["fit", folder / "types.parquet", "--inputs", "t", "--out", tmp_path / "run", *more]
              for more in ([], ["--on-disk"])]  # fmt: skip
    for call in calls:
        assert run(*call) == 1
        said = capsys.readouterr().err
        assert "parquet needs pyarrow: pip install pyarrow" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="needs pyarrow"):
        ondisk.from_parquet(folder / "types.parquet", ["level"], tmp_path / "y.npy")


# Letters.

ENCODINGS = {"utf-8": b"", "utf-8-sig": b"", "utf-16": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff",
             "utf-32": b"", "cp1252": b""}  # fmt: skip
LETTERS = "t;Außen °C;Ort\n" + "".join(f"{i};{np.sin(i):.2f};Köln\n" for i in range(N)).replace(".", ",")


@pytest.fixture(params=ENCODINGS)
def lettered(request, tmp_path):
    """A table in some encoding, with a gap; and how it is called there."""
    text = LETTERS.replace("\n5;-0,96;", "\n5;;")
    (tmp_path / "data.csv").write_bytes(ENCODINGS[request.param] + text.encode(request.param))
    return tmp_path / "data.csv", request.param


def test_tables_are_read_in_the_encoding_they_are_written_in(lettered):
    path, name = lettered
    whole = files.read(path)
    assert list(whole.columns) == ["t", "Außen °C", "Ort"] and set(whole["Ort"]) == {"Köln"} and len(whole) == N
    assert list(whole.index) == list(range(2, N + 2))
    assert pd.concat(list(pieces.read(path, 7))).equals(whole)
    assert pieces.num_rows(path) == N and pieces.num_columns(path) == 3 and files.separator(path) == ";"
    assert (encodings.notice(path) is None) == (name != "cp1252")


@pytest.mark.parametrize("on_disk", [[], ["--on-disk"]], ids=["in memory", "on disk"])
def test_answers_are_in_utf_8_marked_where_the_table_was_not(on_disk, lettered, tmp_path, monkeypatch, capsys):
    path, name = lettered
    if name not in ("utf-16", "cp1252"):
        return
    (tmp_path / "tiny.toml").write_text(TINY)
    said = []
    assert (
        run("fit", path, "--inputs", "t", "--config", tmp_path / "tiny.toml", "--out", tmp_path / "run", *on_disk) == 0
    )
    said.append(capsys.readouterr().err)
    for most in (pieces.ROWS_IN_MEMORY, 1):
        monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", most)
        assert run("impute", tmp_path / "run", path, "-o", tmp_path / "filled.csv", "--force") == 0
        said.append(capsys.readouterr().err)
        content = (tmp_path / "filled.csv").read_bytes()
        assert content.startswith(b"\xef\xbb\xbf") == (name != "utf-8") and content.count(b"\xef\xbb\xbf") <= 1
        lines = content.decode("utf-8-sig").splitlines()
        wanted = LETTERS.splitlines()
        assert lines[:6] == wanted[:6] and lines[7:] == wanted[7:] and lines[6].endswith(";Köln")
    told = [words.count("is not UTF-8 and is read as Windows-1252; if letters") for words in said]
    assert told == [int(name == "cp1252")] * 3


# Arrays.


def test_archives_hold_what_a_table_holds_and_no_object(tmp_path):
    when = pd.date_range("2020-01-01", periods=3)
    table = pd.DataFrame({
        "file": [1.5, np.nan, 2.0], "a/b": [True, False, True], "id": ["007", "008", "x"], "t": ["1", "2", "3"],
        "gap": ["0.5", "", "-2e3"], "when": when, "zone": when.tz_localize("UTC"), "none": [None, "é", None],
        "maybe": pd.array([True, None, False], "boolean"), "n": pd.array([1, None, 3], "Int64"),
        "small": np.arange(3, dtype=np.float32), "long": ["1" * 20] * 3, "kind": pd.Categorical(["u", "v", "u"]),
    })  # fmt: skip
    with pieces.Writer(tmp_path / "a.npz", tmp_path / "none.csv", ()) as writer:
        writer.write(table[:2])
        writer.write(table[2:])
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        kinds = {name: found[name].dtype.kind for name in found.files}
        np.testing.assert_array_equal(found["gap"], [0.5, np.nan, -2000.0])
        np.testing.assert_array_equal(found["maybe"], [1.0, np.nan, 0.0])
        assert found["small"].dtype == np.float32 and list(found["none"]) == ["", "é", ""]
    assert "".join(kinds.values()) == "fbUifMUUfffUU" and list(kinds) == list(table)
    read = files.read(tmp_path / "a.npz")
    assert list(read.columns) == list(table.columns) and list(read["id"]) == list(table["id"])
    assert list(read["when"]) == list(when)


def test_every_command_answers_in_an_archive_that_can_be_asked_about_again(folder, tmp_path):
    filled = tmp_path / "filled.npz"
    assert run("impute", folder / "text", folder / "words.csv", "-o", filled, "--interval", "0.9", "-q") == 0
    for name in ("predict", "encode", "impute"):
        assert run(name, folder / "text", folder / "words.csv", "-o", tmp_path / f"{name}.npz", "-q") == 0
        with np.load(tmp_path / f"{name}.npz", allow_pickle=False) as found:
            np.testing.assert_array_equal(found["t"], np.arange(N))
            assert all(len(found[column]) == N for column in found.files)
    assert run("impute", folder / "text", tmp_path / "impute.npz", "-o", tmp_path / "again.npz", "-q") == 0
    with np.load(tmp_path / "impute.npz") as once, np.load(tmp_path / "again.npz") as again:
        assert all(np.array_equal(once[column], again[column]) for column in once.files)


def test_a_column_in_parts_is_text_where_any_part_is():
    assert archives.joined([np.array([1.5]), np.array(["x"])]).dtype.kind == "U"
    assert archives.joined([np.array(["1"]), np.array(["2"])]).dtype == np.int64
