"""The command line: what it prints, what it writes, and how it fails."""

import json
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest

from gpbae import __version__, cli, files
from gpbae.errors import GpbaeError, InputError

COMMANDS = [["demo"], ["verify"], ["bench"], ["fit"], ["resume"], ["impute"], ["predict"], ["encode"], ["diagnose"],
            ["report"], ["reproduce"], ["data", "list"], ["data", "fetch"]]  # fmt: skip
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


def run(*arguments):
    """Exit code of `gpbae ARGUMENTS`, in this process."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    return ended.value.code or 0


def test_help_loads_nothing_heavy():
    heavy = ("gpbae.estimators", "equinox", "pandas", "scipy", "matplotlib", "altair", "sklearn", "arviz_stats")
    script = f"import sys, gpbae.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_is_the_package_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gpbae {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_shows_an_example(command, capsys):
    assert run(*command, "--help") == 0
    assert f"Example: gpbae {' '.join(command)}" in " ".join(capsys.readouterr().out.split())


BAD_USAGE = [
    ["nonsense"],
    ["demo", "--seed", "x"],
    ["demo", "--nonsense"],
    ["data", "fetch"],
    ["fit", __file__, "--inputs", "t"],
    ["impute", "nowhere", "nothing.csv"],
]


@pytest.mark.parametrize("arguments", BAD_USAGE, ids=range(len(BAD_USAGE)))
def test_bad_usage_is_exit_code_two(arguments, capsys):
    assert run(*arguments) == 2
    assert capsys.readouterr().err


def test_sparse_model_without_inputs_is_bad_usage(tmp_path, capsys):
    assert run("fit", __file__, "--outputs", "a", "--out", tmp_path) == 2
    assert "--inputs" in capsys.readouterr().err


@pytest.mark.parametrize("error", [GpbaeError("Expected this,\n got that; do so."), RuntimeError("inner\nworkings")])
def test_errors_are_one_line_unless_debug(error, monkeypatch, capsys):
    def fail(name):
        raise error

    monkeypatch.setattr("gpbae.data.registry.fetch", fail)
    assert run("data", "fetch", "eeg") == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("Error: ") and said.err.count("\n") == 1
    with pytest.raises(type(error)):
        cli.main(["data", "fetch", "eeg", "--debug"])


def test_unknown_dataset_is_named(capsys):
    assert run("data", "fetch", "nonsense") == 1
    assert "moving-ball" in capsys.readouterr().err


def test_generated_data_needs_no_fetching(capsys):
    assert run("data", "fetch", "moving-ball") == 0
    assert "moving_ball()" in capsys.readouterr().err


def test_data_list_names_every_dataset(data_dir, monkeypatch, capsys):
    from gpbae.data import DATASETS

    monkeypatch.setenv("COLUMNS", "200")
    assert run("data", "list") == 0
    said = capsys.readouterr().out
    assert all(name in said for name in DATASETS)


def _checks(*passed):
    check = types.SimpleNamespace
    found = [check(name=f"check {i}", figure=0.5, bar="≤ 1", passed=ok, seconds=0.1) for i, ok in enumerate(passed)]
    return types.SimpleNamespace(run=lambda quick, listener: found)


@pytest.mark.parametrize(("passed", "code"), [((True, True), 0), ((True, False), 1)])
def test_verify_fails_when_a_check_fails(passed, code, monkeypatch, capsys):
    import gpbae

    module = _checks(*passed)
    monkeypatch.setitem(sys.modules, "gpbae.verify", module)
    monkeypatch.setattr(gpbae, "verify", module, raising=False)
    assert run("verify", "--quick") == code
    said = capsys.readouterr()
    assert "check 1" in said.out and ("FAIL" in said.out) == bool(code)
    assert ("1 of 2 checks failed (check 1)" in said.err) == bool(code)


def test_bench_shows_its_rows(tmp_path, monkeypatch, capsys):
    import gpbae

    rows = [
        {"experiment": "step", "model": "SGP-BAE", "seed": 0, "metrics": {"ms": 1.25, "ratio": 2.0}, "seconds": 3.0}
    ]
    module = types.SimpleNamespace(run=lambda out: rows)
    monkeypatch.setitem(sys.modules, "gpbae.bench", module)
    monkeypatch.setattr(gpbae, "bench", module, raising=False)
    assert run("bench", "--out", tmp_path) == 0
    assert "1.25" in capsys.readouterr().out


def test_demo_writes_table_pictures_and_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    assert run("demo", "--quick", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "SGP-BAE" in said and "RMSE per coordinate" in said
    for name in ("trajectories.png", "lengthscale.png", "index.html", "results.json"):
        assert (tmp_path / name).stat().st_size > 0 and name in said
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {row["model"] for row in rows} == {"SGP-BAE", "BAE"}
    assert all(np.isfinite(list(row["metrics"].values())).all() for row in rows)


# A user's table.


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two short series with gaps, cells written in ways a reader could spoil, and a fitted run."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    t = np.tile(np.arange(6.0), 2)
    lines = ["id,time,note,a,b"]
    for i, time in enumerate(t):
        a, b = np.sin(time) + 0.1 * rng.standard_normal(2)
        lines.append(f"00{i // 6},{time:g},x,{'' if i in (2, 7) else f'{a:.3f}0'},{'NA' if i == 3 else f'{b:.3f}'}")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    (folder / "tiny.toml").write_text(TINY)
    return folder


@pytest.fixture(scope="module")
def fitted(table):
    code = run("fit", table / "data.csv", "--inputs", "time", "--outputs", "a,b", "--groups", "id", "--config",
               table / "tiny.toml", "--out", table / "run")  # fmt: skip
    assert code == 0
    return table / "run"


def test_impute_fills_gaps_and_touches_nothing_else(table, fitted):
    output = table / "filled.csv"
    assert run("impute", fitted, table / "data.csv", "-o", output, "--interval", "0.9") == 0
    before, after = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (table / "data.csv", output))
    assert list(after.columns) == [*before.columns, "a_lower", "a_upper", "b_lower", "b_upper"]
    gaps = before.isin(["", "NA"])
    assert (after[before.columns] == before)[~gaps].fillna(True).all(axis=None)
    assert np.isfinite(after[["a", "b"]].astype(float)).all(axis=None)
    assert (after["a_lower"].astype(float) < after["a_upper"].astype(float)).all()


def test_predict_needs_inputs_and_groups_only(table, fitted):
    (table / "new.csv").write_text("time,id\n2.5,000\n1.5,new\n")
    assert run("predict", fitted, table / "new.csv", "-o", table / "predicted.csv", "--interval", "0.8") == 0
    done = pd.read_csv(table / "predicted.csv", dtype={"id": str})
    assert list(done["id"]) == ["000", "new"] and list(done["time"]) == [2.5, 1.5]
    assert {"a", "b", "a_lower", "b_upper"} <= set(done.columns)


def test_encode_writes_latents_row_by_row(table, fitted):
    assert run("encode", fitted, table / "data.csv", "-o", table / "latents.csv") == 0
    done = pd.read_csv(table / "latents.csv")
    assert len(done) == 12 and {"time", "id", "latent0", "latent0_sd"} <= set(done.columns)


def test_diagnose_and_report_say_what_was_found(fitted, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    assert run("diagnose", fitted) == 0
    assert "kinetic temperature" in capsys.readouterr().out
    assert run("report", fitted) == 0
    text = (fitted / "report.html").read_text()
    assert "SGPBAE: a fitted model" in text and "Is it to be trusted?" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--inputs", "hour", "--outputs", "a"], "Expected a column 'hour'"),
        (["--inputs", "time", "--outputs", "a,note"], "Column 'note' must hold numbers; got 'x' in row 1"),
        (["--inputs", "time", "--outputs", "a,a"], "named once"),
        (["--inputs", "time", "--outputs", "a,time"], "got time as both"),
    ],
)
def test_fit_names_the_column_that_is_wrong(arguments, words, table, tmp_path, capsys):
    assert run("fit", table / "data.csv", *arguments, "--out", tmp_path) == 1
    assert words in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(table, tmp_path, capsys):
    assert run("impute", tmp_path, table / "data.csv", "-o", tmp_path / "o.csv") == 1
    assert "not a folder written by `gpbae fit`" in capsys.readouterr().err


def test_outputs_are_refused_before_the_work(table, tmp_path, capsys):
    assert run("predict", tmp_path, table / "data.csv", "-o", tmp_path / "out.xlsx") == 1
    assert "ends in .csv or .parquet" in capsys.readouterr().err
    (tmp_path / "taken").write_text("")
    assert run("demo", "--out", tmp_path / "taken" / "inside") == 1
    assert "name another one" in capsys.readouterr().err


def test_arrays_become_columns(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3.0), y=np.ones((3, 2, 2)))
    read = files.read(tmp_path / "a.npz")
    assert files.resolve(read, ["y"]) == ["y[0]", "y[1]", "y[2]", "y[3]"]
    np.savez(tmp_path / "b.npz", x=np.arange(3.0), y=np.ones((4, 2)))
    with pytest.raises(InputError, match="one row per observation"):
        files.read(tmp_path / "b.npz")


@pytest.mark.parametrize(("name", "content"), [("a.txt", "x"), ("a.csv", ""), ("a.csv", "x,y\n"), ("a.npz", "x")])
def test_unreadable_tables_are_refused_in_one_sentence(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError):
        files.read(tmp_path / name)


def test_parquet_goes_in_and_out(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"x": [1, 2], "y": [np.nan, 3.0]})
    files.write(table, tmp_path / "t.parquet")
    read = files.read(tmp_path / "t.parquet")
    filled = files.fill(read, pd.DataFrame({"y": [7.0, 3.0]}))
    assert list(filled["y"]) == [7.0, 3.0] and list(filled["x"]) == [1, 2]
