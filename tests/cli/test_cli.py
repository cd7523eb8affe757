"""The command line: what it prints, what it writes, and how it fails."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main

from commands import run
from gpbae import BAE, __version__, cli
from gpbae.answering import advice
from gpbae.cli import answers, cautions, files, long, pieces, roles, runs, scores, typed
from gpbae.cli.app import app
from gpbae.cli.commas import Decimal
from gpbae.errors import GpbaeError, InputError
from gpbae.report import trust
from gpbae.saving import settings

GROUP = typer.main.get_command(app)
INNER = {name: list(getattr(command, "commands", [])) for name, command in GROUP.commands.items()}
COMMANDS = [[name, inner] if inner else [name] for name, found in INNER.items() for inner in found or [""]]
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


def test_help_loads_nothing_heavy():
    heavy = "gpbae.estimators equinox numpy pandas scipy matplotlib altair sklearn arviz_stats".split()
    script = f"import sys, gpbae.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_is_the_package_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gpbae {__version__}\n"


def test_no_words_at_all_show_the_help(capsys):
    assert run() == 2
    assert "Start with: gpbae demo" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_shows_an_example(command, capsys):
    assert run(*command, "--help") == 0
    assert f"Example: gpbae {' '.join(command)}" in " ".join(capsys.readouterr().out.split())


BAD_USAGE = [
    ["nonsense"],
    ["demo", "--seed", "x"],
    ["demo", "--nonsense"],
    ["data", "fetch"],
    ["impute", "nowhere", "nothing.csv"],
]


@pytest.mark.parametrize("arguments", BAD_USAGE, ids=range(len(BAD_USAGE)))
def test_bad_usage_is_exit_code_two(arguments, capsys):
    assert run(*arguments) == 2
    assert capsys.readouterr().err


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


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_without_a_place_in_the_code(monkeypatch, capsys):
    monkeypatch.setattr("gpbae.data.registry.fetch", lambda name: warnings.warn("Mind this.", stacklevel=1))
    run("data", "fetch", "eeg")
    assert "Note: Mind this.\n" in capsys.readouterr().err.splitlines(keepends=True)


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
    return types.SimpleNamespace(run=lambda quick, listener: found, page=lambda checks, quick: f"{len(checks)} {quick}")


@pytest.mark.parametrize(("passed", "code"), [((True, True), 0), ((True, False), 1)])
def test_verify_fails_when_a_check_fails(passed, code, tmp_path, monkeypatch, capsys):
    import gpbae

    module = _checks(*passed)
    monkeypatch.setitem(sys.modules, "gpbae.verify", module)
    monkeypatch.setattr(gpbae, "verify", module, raising=False)
    assert run("verify", "--quick", "--page", tmp_path / "page.md") == code
    assert (tmp_path / "page.md").read_text() == "2 True"
    said = capsys.readouterr()
    assert "check 1" in said.out and ("FAIL" in said.out) == bool(code)
    assert ("1 of 2 checks failed (check 1)" in said.err) == bool(code)


def test_bench_shows_and_writes_the_sections_that_were_asked_for(tmp_path, monkeypatch, capsys):
    import dataclasses

    from gpbae.speed import bench

    row = {"experiment": "jura, chains", "model": "SGP-BAE", "seed": 0, "metrics": {"over_one": 2.06}, "seconds": 3.0}
    for name, section in bench.SECTIONS.items():
        rows = [row] if name == "chains" else []
        monkeypatch.setitem(
            bench.SECTIONS, name, dataclasses.replace(section, measure=lambda quick, say, rows=rows: rows, drawing=None)
        )
    assert run("bench", "--out", tmp_path, "--only", "chains,growth", "--no-growth") == 0
    said = capsys.readouterr()
    assert "2.06" in said.out and "yes" in said.out and "Chains …" in said.err and "Growth" not in said.err
    assert (tmp_path / "report.html").is_file()
    assert run("bench", "--out", tmp_path, "--only", "chains,speed") == 2
    assert "got speed" in " ".join(capsys.readouterr().err.split())


def test_a_demo_that_is_stopped_says_so(tmp_path, monkeypatch, capsys):
    from gpbae.experiments import ball

    def stopped(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(ball, "run", stopped)
    assert run("demo", "--out", tmp_path) == 130
    assert "the same command begins anew" in capsys.readouterr().err


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
    lines = ["id,time,note,a,b"]
    for i in range(14):
        a, b = np.exp(np.sin(i % 7)) + 0.1 * rng.standard_normal(2)
        a, b = "" if i in (2, 8) else f"{a:.3f}0", "-200" if i == 3 else f"{b:.3f}"
        lines.append(f"00{i // 7},2004-03-{27 + i % 5:02d}T0{i % 7}:00+01:00,x,{a},{b}")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    (folder / "tiny.toml").write_text(TINY)
    return folder


@pytest.fixture(scope="module")
def fitted(table):
    """Dates as inputs, outputs by default, a number that means missing, a transform, a kernel in words, events as
    JSON, and a score on hidden cells."""
    code = run("fit", table / "data.csv", "--inputs", "time", "--groups", "id", "--missing", "b=-200", "--transform",
               "a=log", "--config", table / "tiny.toml", "--set", "kernel=Matern32() + RBF()", "--out", table / "run",
               "--evaluate", "--holdout", "0.2", "--log-json", table / "log.jsonl")  # fmt: skip
    assert code == 0
    return table / "run"


def test_fit_keeps_how_the_table_was_read(table, fitted):
    columns = roles.Columns.from_json((fitted / "columns.json").read_bytes())
    assert columns.outputs == ("a", "b") and columns.missing == (("b", -200.0),)
    assert columns.dates["time"].unit == "h" and columns.dates["time"].aware
    config = (fitted / "config.toml").read_text()
    assert "Matern32" in config and "log" in config


def test_the_config_of_a_run_can_be_used_again(table, fitted):
    from gpbae.cli import arguments

    given = arguments.read(fitted / "config.toml")
    again = arguments.estimator("SGPBAE", given)
    assert again.transform == {"a": "log"} and again.num_inducing == 4 and "Matern32" in repr(again.kernel)


def test_the_config_of_a_run_says_which_model(table, monkeypatch, capsys):
    """Its arguments would fit another one too, silently."""
    made = []
    monkeypatch.setattr(runs, "sample", lambda estimator, *given: made.append(estimator))
    (table / "bae.toml").write_bytes(settings.text(BAE(num_chains=3), None, pd.DataFrame({"a": [1.0], "b": [2.0]})))
    command = ["fit", table / "data.csv", "--outputs", "a,b", "--config", table / "bae.toml", "--quiet"]
    assert run(*command, "--out", table / "again") == 0
    assert type(made[0]) is BAE and made[0].num_chains == 3
    assert run(*command, "--inputs", "time", "--model", "gp-bae", "--out", table / "other") == 2
    assert "must be the model of" in " ".join(capsys.readouterr().err.split()) and not (table / "other").exists()


def test_columns_are_left_out_by_several_options(table, monkeypatch):
    wishes = []
    monkeypatch.setattr("gpbae.cli.reading.read", lambda data, wish: wishes.append(wish) or 1 / 0)
    run("fit", table / "data.csv", "--inputs", "t", "--exclude", "a,b", "--exclude", "c", "--out", table / "none")
    assert wishes[0].exclude == "a,b,c"


def test_what_is_typed_has_the_last_word(table):
    from gpbae.cli import fit, reading

    given = table / "given.toml"
    given.write_text("seed = 3\nlatent_dim = 2\nnum_chains = 3\n")
    read = reading.read(table / "data.csv", reading.Wish("time", "b"))
    model, said = fit._estimator(fit.Model.SGPBAE, read, given, {"seed": 0, "latent_dim": None}, ["num_chains=1"])
    assert (model.seed, model.latent_dim, model.num_chains) == (0, 2, 1)
    assert said == ["latent_dim", "num_chains", "seed"]


OUTPUTS = {
    "": ["a", "b"],
    "all": ["a", "b"],
    "all,note": ["note", "a", "b"],
    "b,a": ["a", "b"],
    "n*,all,b": ["note", "a", "b"],
}


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_all_numbers_may_be_named_beside_others_and_stand_as_in_the_table(outputs, table, capsys):
    from gpbae.cli import reading

    read = reading.read(table / "data.csv", reading.Wish("time", outputs, groups="id"))
    assert list(read.columns.outputs) == list(read.y.columns) == OUTPUTS[outputs]
    assert ("as in --outputs all,note." in capsys.readouterr().err) == (outputs in ("", "all"))


def test_every_model_can_be_named():
    import gpbae
    from gpbae.baselines import ESTIMATORS
    from gpbae.cli import fit

    ours = [name for name in gpbae.__all__ if name != "load"]
    assert {model.name for model in fit.Model} == {*ours, *(cls.__name__ for cls in ESTIMATORS)}


def test_a_rival_is_fitted_and_asked_and_its_report_refused_beforehand(tmp_path, capsys):
    table, out = tmp_path / "waves.csv", tmp_path / "run"
    rows = [f"{t},{np.sin(t):.3f},{'' if t == 5 else np.cos(t):.5}" for t in range(20)]
    table.write_text("\n".join(["t,a,b", *rows]) + "\n")
    settings = ["latent_dim=1", "num_steps=2", "num_inducing=3", "num_draws=4", "encoder=linear", "decoder=linear"]
    fit = ["fit", table, "--inputs", "t", "--model", "svgp-vae", "--out", out, "-q"]
    fit += [word for setting in settings for word in ("--set", setting)]
    assert run(*fit, "--report") == 2 and not out.exists()
    assert "svgp-vae is optimised" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert run(*fit) == 0
    assert run("impute", out, table, "-o", tmp_path / "filled.csv", "-q") == 0
    assert pd.read_csv(tmp_path / "filled.csv").notna().all().all()


@pytest.fixture
def small(tmp_path):
    """A table of counts, yes and no, a real number, labels, ones and zeros, all with gaps, fitted in a moment."""
    rng = np.random.default_rng(0)
    lines = ["t,catch,open,level,sea,wet"]
    for i in range(40):
        cells = [str(rng.poisson(3)), "Yes" if rng.random() < 0.5 else "No", f"{np.sin(i / 5):.3f}"]
        cells += [rng.choice(["calm", "rough", "wild"]), str(int(rng.random() < 0.5))]
        lines.append(",".join([str(i), *("n.d." if rng.random() < 0.1 else cell for cell in cells)]))
    (tmp_path / "small.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "tiny.toml").write_text(TINY)
    return ["fit", tmp_path / "small.csv", "--inputs", "t", "--outputs", "catch,open,level,sea,wet", "--missing",
            "n.d.", "--config", tmp_path / "tiny.toml", "--out", tmp_path / "run"]  # fmt: skip


def test_an_evaluation_that_was_stopped_goes_on(small, tmp_path, monkeypatch, capsys):
    """Ctrl-C while the evaluation samples, then while rivals are asked; neither fit is begun again."""
    from gpbae.sampling import run as sampling
    from gpbae.saving import storage
    from gpbae.scoring import rivals

    blocks, evaluated = [], tmp_path / "run" / "evaluation"
    whole = sampling.Sampler._block

    def counted(self, *given, **more):
        blocks.append(evaluated.exists() and any(evaluated.glob("cells-*/")))
        if len(blocks) == 9:  # six of the fit, then some of the evaluation
            os.kill(os.getpid(), signal.SIGINT)
        return whole(self, *given, **more)

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling.Sampler, "_block", counted)
    assert run(*small, "--evaluate", "--holdout", "0.2") == 130
    assert "gpbae resume" in capsys.readouterr().err and blocks == [False] * 6 + [True] * 3
    assert not (tmp_path / "run" / "evaluation.json").exists()
    monkeypatch.setattr(rivals, "fill", interrupted)
    assert run("resume", tmp_path / "run", "-q") == 130 and len(blocks) == 12
    monkeypatch.undo()
    monkeypatch.setattr(sampling.Sampler, "_block", None)
    assert run(*small, "--evaluate", "--holdout", "0.2", "-q") == 0  # the same command again
    first = (tmp_path / "run" / "evaluation.json").read_text()
    assert [file.suffix for file in evaluated.iterdir() if file.name != storage.LOCK] == [".json"]
    capsys.readouterr()
    assert run(*small, "--evaluate", "--holdout", "0.2", "-q") == 0  # all is known
    assert (tmp_path / "run" / "evaluation.json").read_text() == first
    said = capsys.readouterr().out
    assert "NLPD: minus the log" in said and "SMSE: squared error as a share" in said
    marked = tmp_path / "filled.csv"
    assert run("impute", tmp_path / "run", small[1], "-o", marked, "--mark", "--interval", "0.9") == 0
    _check_marked(pd.read_csv(small[1], dtype=str), pd.read_csv(marked, dtype=str))
    assert "Filled " in capsys.readouterr().err
    assert run("impute", tmp_path / "run", marked, "-o", tmp_path / "again.csv", "--mark") == 1
    assert "has a column 'catch_imputed' already" in capsys.readouterr().err
    assert run("impute", tmp_path / "run", small[1], "-o", tmp_path / "filled.parquet", "-q") == 0
    _check_words_kept(pd.read_csv(small[1], dtype=str), pd.read_parquet(tmp_path / "filled.parquet"))
    assert run("impute", tmp_path / "run", small[1], "-o", tmp_path / "filled.npy", "-q") == 1
    assert "can hold numbers only" in capsys.readouterr().err


def test_what_is_hidden_is_neither_known_of_nor_left_out_of_the_score(tmp_path, capsys):
    """The only 2 of a column of zeros and ones, and the only negative number of a skewed one, are hidden: what is left
    chooses likelihood and transform, and says of them that they cannot be."""
    from gpbae.scoring.evaluation import Holdout

    rng = np.random.default_rng(0)
    y = np.stack([rng.random(60) < 0.5, np.exp(1.5 * rng.standard_normal(60)), rng.standard_normal(60)], axis=1)
    hidden = Holdout("cells", 0.1).choose(np.ones(y.shape, bool), None, np.zeros(60, int), "abc")
    for column, stray in enumerate((2.0, -1.0)):
        y[np.flatnonzero(hidden[:, column])[0], column] = stray
    frame = pd.DataFrame(y, columns=["wet", "rain", "c"]).assign(t=np.arange(60.0))
    frame.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "tiny.toml").write_text(TINY)
    assert run("fit", tmp_path / "data.csv", "--inputs", "t", "--config", tmp_path / "tiny.toml", "--out",
               tmp_path / "run", "--evaluate-only") == 0  # fmt: skip
    assert "values in wet (1), rain (1) cannot occur" in " ".join(capsys.readouterr().out.split())
    scores = pd.read_csv(tmp_path / "run" / "evaluation.csv").set_index(["method", "column"])["nlpd"]["SGPBAE"]
    assert np.isinf(scores[["wet", "rain", "all"]]).all() and np.isfinite(scores["c"])


def _check_marked(before, after):
    """Filled cells are marked and look like the others: whole numbers, yes and no, labels; what has no interval has a
    probability, and a gap gets what is likeliest."""
    names = ["catch", "open", "level", "sea", "wet"]
    gaps = before[names] == "n.d."
    assert gaps.any().all()
    np.testing.assert_array_equal(after[[f"{name}_imputed" for name in names]] == "True", gaps)
    assert after[["catch", "catch_lower", "catch_upper"]].map(str.isdigit).all(axis=None)
    assert (after["level"] != "n.d.").all()
    assert set(after["open"]) == {"Yes", "No"} and set(after["sea"]) == {"calm", "rough", "wild"}
    assert not {"open_lower", "open_upper", "sea_lower", "sea_upper"} & set(after.columns)
    yes, label = (after[f"{name}_probability"].astype(float) for name in ("open", "sea"))
    assert yes.between(0, 1).all() and ((yes > 0.5) == (after["open"] == "Yes"))[gaps["open"]].all()
    assert label.between(0, 1).all() and (label > 1 / 3)[gaps["sea"]].all()
    assert after["wet_probability"].astype(float).between(0, 1).all()
    assert after[["wet", "wet_lower", "wet_upper"]].isin(["0", "1"]).all(axis=None)


def _check_words_kept(before, after):
    """In a file with types, numbers are numbers, and words for yes and no and labels stay the column's."""
    assert after["level"].dtype.kind == "f" and after["catch"].dtype.kind == "i"
    for name, words in {"open": {"Yes", "No"}, "sea": {"calm", "rough", "wild"}}.items():
        known = before[name] != "n.d."
        assert set(after[name]) == words
        np.testing.assert_array_equal(after[name][known], before[name][known])


STORY = ["fit", "evaluate", "impute", "predict", "encode", "diagnose", "report", "resume"]


def test_examples_of_help_run_as_printed_one_after_the_other(tmp_path, monkeypatch, capsys):
    lines = ["time,station,temp_in,temp_out,note"]
    for i in range(16):
        lines.append(
            f"2004-03-{1 + i // 2:02d},{'AB'[i % 2]},{20 + np.sin(i):.2f},{'' if i == 5 else round(np.cos(i), 2)},x"
        )
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "new_inputs.csv").write_text("time,station\n2004-03-04,A\n2004-03-20,B\n")
    monkeypatch.setattr("gpbae.cli.arguments.suited", lambda name, y: tomllib.loads(TINY))
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    examples = {}
    for name in STORY:
        run(name, "--help")
        (examples[name],) = (line for line in capsys.readouterr().out.splitlines() if "Example: gpbae" in line)
    examples = {name: shlex.split(line.split("Example: gpbae")[1]) for name, line in examples.items()}
    for name in STORY:
        assert run(*examples[name]) == 0, name
        if name == "fit":
            assert "Next: gpbae report run, or gpbae impute run data.csv -o filled.csv." in capsys.readouterr().err
    assert run(*examples["fit"], "--report") == 0  # the page is there
    assert "Written: run/report.html.\nNext: gpbae impute run data.csv -o filled.csv." in capsys.readouterr().err


def test_evaluation_is_kept_beside_the_run(fitted):
    rows = json.loads((fitted / "evaluation.json").read_text())
    assert {"SGPBAE", "linear interpolation", "GP per column"} <= {row["model"] for row in rows}
    overall = [row for row in rows if row["column"] == "all"]
    assert all({"mae", "nlpd", "crps", "coverage90"} <= set(row["metrics"]) for row in overall)
    assert all(sum(row["pit"]) == row["metrics"]["cells"] for row in overall)
    assert set(pd.read_csv(fitted / "evaluation.csv")["hidden"]) == {"cells"}


def test_evaluating_a_run_gives_the_scores_of_evaluating_with_the_fit(small, tmp_path, monkeypatch, capsys):
    """With the run's own arguments and table, though its fit had no --evaluate; resume finishes what was stopped."""
    from gpbae.scoring import rivals

    def interrupted(*given):
        raise KeyboardInterrupt

    assert run(*small, "-q") == 0
    with monkeypatch.context() as patch:
        patch.setattr(rivals, "fill", interrupted)
        assert run("evaluate", tmp_path / "run", "--evaluate", "cells,rows", "--holdout", "0.2", "-q") == 130
    assert run("report", tmp_path / "run") == 0
    begun = (
        f"An evaluation (cells, rows hidden) was interrupted; go on with: gpbae resume {tmp_path / 'run'}, then gpbae "
    )
    assert begun in (tmp_path / "run" / "report.html").read_text()
    capsys.readouterr()
    assert run("resume", tmp_path / "run") == 0
    next_line = f"Next: gpbae report {tmp_path / 'run'}, or gpbae impute {tmp_path / 'run'} {small[1]} -o filled.csv."
    assert next_line in capsys.readouterr().err.splitlines()
    assert run("evaluate", tmp_path / "run", "--evaluate", "cells,rows", "--holdout", "0.2") == 0
    found, other = capsys.readouterr(), tmp_path / "other"
    assert run(*small[:-1], other, "--evaluate", "cells,rows", "--holdout", "0.2", "-q") == 0
    assert found.out.replace(str(tmp_path / "run"), str(other)) == capsys.readouterr().out
    names = [sorted(file.name for file in (folder / "evaluation").iterdir()) for folder in (tmp_path / "run", other)]
    assert names[0] == names[1] and "Next: gpbae report" in found.err
    given = tmp_path / "run" / "given.json"
    given.write_text(given.read_text().replace("[", "[ "))
    assert run("evaluate", tmp_path / "run") == 1
    assert "given.json must have at most" in capsys.readouterr().err  # the manifest knows it
    given.unlink()
    assert run("evaluate", tmp_path / "run") == 1
    assert "evaluate with a fit: gpbae fit … --evaluate --out NEW." in capsys.readouterr().err
    assert run(*small, "-q") == 0 and runs.given(tmp_path / "run").names == runs.given(other).names


def test_scores_of_other_ways_are_kept_unless_they_are_of_another_fit(tmp_path):
    def row(way, fit, mae):
        return {"experiment": way, "model": "m", "column": "all", "metrics": {"mae": mae, "nlpd": None}, "seconds": 1.0,
                "pit": [1], "hidden": way, "fit": fit}  # fmt: skip

    for rows in ([row("cells", "A", 1.0), row("rows", "A", 2.0)], [row("rows", "A", 3.0)]):
        scores._kept(rows, tmp_path)
    kept = pd.read_csv(tmp_path / "evaluation.csv")
    assert dict(zip(kept["hidden"], kept["mae"], strict=True)) == {"cells": 1.0, "rows": 3.0}
    assert [found["hidden"] for found in json.loads((tmp_path / "evaluation.json").read_text())] == ["cells", "rows"]
    scores._kept([row("blocks", "B", 4.0)], tmp_path)
    assert list(pd.read_csv(tmp_path / "evaluation.csv")["hidden"]) == ["blocks"]


@pytest.fixture
def wished(tmp_path, monkeypatch):
    """A folder in which an evaluation was begun."""
    from gpbae.saving import runfolder

    monkeypatch.setattr(runfolder, "has_table", lambda folder: True)
    hidden = scores.Hidden(["cells", "blocks"], 0.1, 24, 0, [])
    with scores.wished(hidden, tmp_path / "a run"):
        return tmp_path / "a run", hidden


def test_an_unfinished_evaluation_is_not_forgotten(wished):
    folder, hidden = wished
    other = hidden._replace(ways=["rows"])
    with (
        pytest.raises(InputError, match=r"cells, blocks hidden.*go on first: gpbae resume '"),
        scores.wished(other, folder),
    ):
        pass
    with pytest.raises(InputError, match="refused"), scores.wished(hidden, folder):
        raise InputError("refused")
    assert scores.open_wish(folder) == hidden and "was interrupted; go on with: gpbae resume '" in scores.unfinished(
        folder
    )


def test_an_evaluation_that_runs_is_not_called_interrupted(wished):
    folder, hidden = wished
    with scores._alone(folder / "evaluation"):
        assert "was running when this was written" in scores.unfinished(folder)
        assert "gpbae resume" not in scores.unfinished(folder)
        with pytest.raises(InputError, match="is running; wait"), scores.wished(hidden._replace(ways=["rows"]), folder):
            pass
        with pytest.raises(GpbaeError, match="in use by process"), scores._alone(folder / "evaluation"):
            pass
    assert "was interrupted" in scores.unfinished(folder)


def test_a_damaged_wish_is_no_remark(wished):
    (wished[0] / "evaluation" / "wish.json").write_text("{")
    assert scores.unfinished(wished[0]) == ""


def test_places_need_an_input():
    hidden = scores.Hidden(["column:a:2"], 0.1, 24, 0, [])
    y = pd.DataFrame({"a": [1.0, 2.0]})
    asked = scores.Asked(None, None, y, None, roles.Columns((), ("a",)))
    with pytest.raises(InputError, match="needs an input column; use cells or rows"):
        scores.check(asked, hidden)
    with pytest.raises(InputError, match="--from and --to are places"):
        roles.within(y, asked.columns, "1", None)


def test_what_was_given_is_kept_once(tmp_path):
    runs.keep_given(runs.Given(["seed"], "gpbae fit a.csv --seed 1 -o run"), tmp_path)
    runs.keep_given(runs.Given([], None), tmp_path)
    assert runs.given(tmp_path)[:2] == (["seed"], "gpbae fit a.csv --seed 1 -o run")
    assert runs.command(tmp_path) == ("gpbae fit a.csv --seed 1", f"{tmp_path}-2")
    tmp_path.with_name(f"{tmp_path.name}-2").mkdir()
    assert runs.command(tmp_path).folder == f"{tmp_path}-3"
    (tmp_path / "given.json").write_text('["seed"]\n')  # of an earlier release
    assert runs.given(tmp_path)[:2] == (["seed"], None) and runs.command(tmp_path) is None


def test_a_command_is_kept_without_what_is_of_one_run_only():
    given = [
        "my data.csv",
        "--inputs",
        "t",
        "--out=a b",
        "-q",
        "--set",
        "x=-o",
        "--log-json",
        "log",
        "-o",
        "c",
        "--report",
    ]
    assert typed.shared(typed.command(given)) == "gpbae fit 'my data.csv' --inputs t --set x=-o --report"
    words = "Draws are few: gpbae fit … --set thinning=4 --out NEW"
    told = advice.Typed("gpbae fit 'a b.csv' --set thinning=2 --transform a=log --set 'kernel=RBF() + RBF()'", "run-2")
    found = advice.spelled_out(words, told)
    kept = "gpbae fit 'a b.csv' --transform a=log --set 'kernel=RBF() + RBF()'"
    assert found == f"Draws are few: {kept} --set thinning=4 --out run-2"
    assert "a=log" not in advice.spelled_out("gpbae fit … --transform b=log --out NEW", told)
    assert advice.spelled_out(words, None) == words


def test_advice_counts_folders_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run-3").mkdir()
    asked = ["run", "run-2", "run-9", "a-1", "air-2004", "run/-2"]
    assert [runs._free(Path(name)) for name in asked] == ["run-2", "run-4", "run-10", "a-1-2", "air-2004-2", "run/-2-2"]


@pytest.fixture
def typed_elsewhere(tmp_path, monkeypatch):
    """A run whose fit was typed in one folder, and a way to stand in another."""
    for name in ("home/data", "home/runs/a run", "away"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home")
    words = ["--config=./c.toml", "--inputs", "t", "--out", "runs/a run", "--", "data/x.csv"]
    told = runs.Given([], typed.command(words), os.getcwd(), ("data/x.csv", "c.toml"))
    runs.keep_given(told, tmp_path / "home" / "runs" / "a run")

    def asked(folder, name):
        monkeypatch.chdir(tmp_path / folder)
        found = runs.command(Path(name))
        return found.command, found.folder, runs.table(Path(name))

    return tmp_path, asked


def test_a_kept_command_means_the_same_files_wherever_it_is_read(typed_elsewhere):
    """In the words that were typed where these mean the same; the -- behind which no option could be added is gone."""
    here, asked = typed_elsewhere
    command = "gpbae fit --config=./c.toml --inputs t data/x.csv"
    assert asked("home", "runs/a run") == (command, "runs/a run-2", "data/x.csv")
    whole = f"gpbae fit --config={here}/home/c.toml --inputs t {here}/home/data/x.csv"
    assert asked("home/runs/a run", ".") == (whole, f"{here}/home/runs/a run-2", f"{here}/home/data/x.csv")
    assert asked("away", "../home/runs/a run")[::2] == (whole, f"{here}/home/data/x.csv")
    below = ("gpbae fit --config=home/c.toml --inputs t home/data/x.csv", "home/runs/a run-2", "home/data/x.csv")
    assert asked(".", "home/runs/a run") == below
    told = advice.spelled_out("gpbae fit … --set thinning=4 --out NEW", runs.command(Path("home/runs/a run")))
    assert told == f"{below[0]} --set thinning=4 --out 'home/runs/a run-2'"


def test_a_table_whose_name_looks_like_an_option_stays_a_table():
    assert typed.shared("gpbae fit --inputs t -- -x.csv") == "gpbae fit --inputs t ./-x.csv"
    assert typed.here("gpbae fit ./-x.csv", os.getcwd(), ["-x.csv"]) == "gpbae fit ./-x.csv"


def test_every_event_is_a_line_of_json(table, fitted):
    events = [json.loads(line) for line in (table / "log.jsonl").read_text().splitlines()]
    assert {"compiling", "map", "warm-up", "sampling", "rivals"} <= {event["phase"] for event in events}
    assert {event.get("stage") for event in events} == {"evaluate cells", None}
    assert all("seconds" in event for event in events)


def test_impute_fills_gaps_and_touches_nothing_else(table, fitted):
    output = table / "filled.csv"
    assert run("impute", fitted, table / "data.csv", "-o", output, "--interval", "0.9") == 0
    before, after = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (table / "data.csv", output))
    assert ",".join(after.columns) == "id,time,note,a,a_lower,a_upper,b,b_lower,b_upper"
    gaps = before.isin(["", "-200"])
    assert (after[before.columns] == before)[~gaps].fillna(True).all(axis=None)
    assert np.isfinite(after[["a", "b"]].astype(float)).all(axis=None)
    assert (after["a_lower"].astype(float) < after["a_upper"].astype(float)).all()
    computed = [*after["a"][gaps["a"]], *after["b"][gaps["b"]], *after["a_lower"], *after["b_upper"]]
    assert max(len(cell.lstrip("-0.").split("e")[0].replace(".", "")) for cell in computed) <= files.DIGITS


def test_predict_needs_inputs_and_groups_only(table, fitted):
    times = ["2004-03-28T02:00+02:00", "2004-03-28T01:30+01:00"]
    (table / "new.csv").write_text(f"time,id\n{times[0]},000\n{times[1]},new\n")
    assert run("predict", fitted, table / "new.csv", "-o", table / "predicted.csv", "--interval", "0.8") == 0
    done = pd.read_csv(table / "predicted.csv", dtype={"id": str})
    assert list(done["id"]) == ["000", "new"] and list(done["time"]) == times
    assert ",".join(done.columns) == "time,id,a,a_lower,a_upper,b,b_lower,b_upper"


def test_a_table_is_answered_in_its_own_separator_and_decimal_sign(tmp_path, monkeypatch):
    """So that the program it came from can open what comes back."""
    data, run_dir = tmp_path / "data.csv", tmp_path / "run"
    cells = [f"{i};{f'{np.sin(i):.2f}' if i != 3 else ''};{np.cos(i):.3f}" for i in range(8)]
    data.write_text("\n".join(["t;a;b", *cells]).replace(".", ",") + "\n")
    (tmp_path / "tiny.toml").write_text(TINY)
    assert run("fit", data, "--inputs", "t", "--config", tmp_path / "tiny.toml", "--out", run_dir) == 0
    for command in ("impute", "predict"):
        output = tmp_path / f"{command}.csv"
        assert run(command, run_dir, data, "-o", output, "--interval", "0.9") == 0
        assert "." not in output.read_text() and output.read_text().startswith("t;a;a_lower;a_upper;b;")
        done = pd.read_csv(output, sep=";", decimal=",")
        assert (done.dtypes[1:] == "float64").all() and done.notna().all(axis=None)
    before, after = (pd.read_csv(path, sep=";", dtype=str) for path in (data, tmp_path / "impute.csv"))
    assert (before == after[["t", "a", "b"]])[before.notna()].fillna(True).all(axis=None)
    other, output = tmp_path / "other.csv", tmp_path / "other_filled.csv"
    other.write_text("t,a,b\n1,0.5,\n2,,1.5\n")
    for most in (pieces.ROWS_IN_MEMORY, 1):  # at once, then in pieces
        monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", most)
        assert run("impute", run_dir, other, "-o", output, "--force") == 0
        assert '"' not in output.read_text() and pd.read_csv(output).dtypes["b"] == "float64"


SIGNS = [
    # fitted, separator, cells of the asked table, written
    ("comma", ",", ["1.5", ""], "point"),
    ("comma", ";", ["1.5", "2"], "point"),
    ("comma", ";", ["1", "2"], "comma"),
    ("comma", ",", ["1", "2"], "point"),
    ("comma", ",", ["1,234", ""], "comma"),
    ("point", ";", ["1,234", ""], "point"),
    (None, ";", ["0,5", ""], "comma"),
    (None, ";", ["1", ""], "point"),
]


@pytest.mark.parametrize(("fitted_sign", "mark", "cells", "written"), SIGNS)
def test_numbers_are_written_with_the_sign_of_the_table_asked_about(fitted_sign, mark, cells, written):
    columns = roles.Columns(("t",), ("a",), decimal=fitted_sign and Decimal(fitted_sign))
    table = pd.DataFrame({"t": ["1", "2"], "a": cells, "note": ["x, y", "0.5 or so"]}, dtype=str)
    assert roles.sign_to_write(table, columns, mark) == written
    both = table.assign(b=["0.5", "1"], c=["0,5", "1"])
    assert fitted_sign == "point" or roles.sign_to_write(both, columns, mark) == (fitted_sign or "point")


WRITTEN = [("\t", None, "1.5\t0.25"), (";", "comma", "1,5;0,25"), (",", "comma", '"1,5","0,25"')]


@pytest.mark.parametrize(("mark", "decimal", "row"), [*WRITTEN, (",", "point", "1.5,0.25")])
def test_text_is_written_as_its_source_is(mark, decimal, row, tmp_path):
    (tmp_path / "source.csv").write_text(f"a{mark}b\n")
    with pieces.Writer(tmp_path / "done.csv", tmp_path / "source.csv", (), decimal and Decimal(decimal)) as writer:
        writer.write(pd.DataFrame({"a": pd.Series([1.5, np.nan]), "b": pd.Series([0.25, "x.y"], dtype=object)}))
    assert (tmp_path / "done.csv").read_text() == f"a{mark}b\n{row}\n{mark}x.y\n"


def test_rows_outside_what_was_fitted_are_counted(table, fitted, capsys):
    far = table / "far.csv"
    far.write_text("time,id\n2004-03-28T02:00+01:00,000\n2014-03-28T02:00+01:00,000\n2004-03-28T02:00+01:00,new\n")
    assert run("predict", fitted, far, "-o", table / "far_predicted.csv") == 0
    words = (
        "2 of 3 rows lie outside what was fitted: 1 beyond the range of time in their group, 1 in groups never seen."
    )
    assert words in capsys.readouterr().err
    assert run("predict", fitted, table / "data.csv", "-o", table / "near.csv") == 0
    assert "outside" not in capsys.readouterr().err
    assert run("predict", fitted, far, "-o", table / "far_quietly.csv", "-q") == 0
    assert capsys.readouterr().err == ""


def test_answers_below_zero_are_told_with_the_option_that_prevents_them(table, fitted, capsys):
    """b has no negative value and no logarithm; a has one, so it is not named, and its own stays in the option."""
    far = table / "beyond.csv"
    far.write_text("time,id\n2014-03-28T02:00+01:00,000\n2014-03-28T02:00+01:00,new\n")
    assert run("predict", fitted, far, "-o", table / "below.csv", "--interval", "0.99") == 0
    below = pd.read_csv(table / "below.csv")
    count = int((below[["b", "b_lower"]] < 0).sum().sum())
    words = f"Note: {count} values or ends of intervals lie below 0, where no fitted value does: in b. If they cannot"
    said = capsys.readouterr().err
    assert count and words in said and f" --transform a=log,b=log --out {fitted}-2" in said
    (line,) = (line for line in said.splitlines() if words in line)
    assert "--transform a=log " not in line and "5 draws are too few for 99% intervals" in said
    assert (below["a_lower"] > 0).all()


def test_only_filled_cells_and_ends_of_intervals_count_as_answers():
    shown = pd.DataFrame({"a": [-1.0, -1.0, 2.0], "b": [1.0, 1.0, 1.0]})
    gaps = pd.DataFrame({"a": [True, False, True], "b": [True] * 3})
    lower = pd.DataFrame({"a": [-3.0, -2.0, 1.0], "b": [0.5] * 3})
    assert cautions.below_zero(["a", "b"], gaps, shown, lower) == {"a": 3, "b": 0}
    assert cautions.below_zero(["a", "b"], None, shown, None) == {"a": 2, "b": 0}
    words = cautions.below_zero_in_words({"x,1": 1, "b": 1}, {"x,1": "log", "b": "log"}, None)
    assert words is not None and words.endswith("gpbae fit … --transform b=log --out NEW")
    words = cautions.below_zero_in_words({"a": 3, "b": 0}, {"a": "log1p", "b": "log"}, "auto")
    assert words is not None and words.endswith("gpbae fit … --transform '*=auto,a=log1p' --out NEW")
    assert cautions.below_zero_in_words({"a": 0}, {"a": "log"}, "auto") is None


@pytest.mark.parametrize("light", trust.Light)
def test_a_red_light_is_told_with_every_answer(light, table, fitted, monkeypatch, capsys):
    monkeypatch.setattr(trust, "checks", lambda model, frame, tests=(): [trust.Check("R-hat", "2", light)])
    assert run("encode", fitted, table / "data.csv", "-o", table / f"{light}.csv") == 0
    said = f"The light of this run is red (R-hat): not to be relied on yet. Look at: gpbae diagnose {fitted}"
    assert (said in capsys.readouterr().err) == (light == trust.Light.RED)
    monkeypatch.setenv("COLUMNS", "160")
    assert run("diagnose", fitted) == 0
    assert f"Light: {light}. {light.meaning}" in capsys.readouterr().out


SHORT = [{"model": "SGPBAE", "experiment": "blocks", "metrics": {"coverage90": 0.5, "cells": 500}}]


@pytest.mark.parametrize("content", [json.dumps(SHORT), "{"])
def test_a_light_that_is_red_by_hidden_cells_is_told_with_every_answer_too(content, table, fitted, tmp_path, capsys):
    """Scores that cannot be read do not cost the answer."""
    red = shutil.copytree(fitted, tmp_path / "red")
    (red / "evaluation.json").write_text(content)
    capsys.readouterr()
    assert run("encode", red, table / "data.csv", "-o", tmp_path / "z.csv") == 0
    assert ("90 % intervals of hidden blocks" in capsys.readouterr().err) == (content != "{")


def test_a_folder_is_quoted_where_advice_names_it(fitted, monkeypatch):
    monkeypatch.setattr(trust, "checks", lambda model, frame, tests=(): [trust.Check("R-hat", "2", trust.Light.RED)])
    said = cautions.of_run(runs.load(fitted)[0], Path("a run"))
    assert said is not None and said.endswith("gpbae diagnose 'a run'")


def test_encode_writes_latents_row_by_row(table, fitted):
    assert run("encode", fitted, table / "data.csv", "-o", table / "latents.csv") == 0
    done = pd.read_csv(table / "latents.csv")
    assert len(done) == 14 and ",".join(done.columns) == "id,time,latent0,latent0_sd"  # as in the table


@pytest.fixture
def in_pieces(monkeypatch):
    """Fourteen rows are many, and four are a block."""
    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", 5)
    monkeypatch.setattr("gpbae.answering.blocks.MOST_ROWS", 4)


def test_long_tables_are_answered_in_pieces(table, fitted, in_pieces, monkeypatch):
    monkeypatch.setattr(files, "read", None)  # nobody may read the whole
    assert run("impute", fitted, table / "data.csv", "-o", table / "long.csv", "--interval", "0.9", "-q") == 0
    before, after = (pd.read_csv(table / name, dtype=str, keep_default_na=False) for name in ("data.csv", "long.csv"))
    gaps = before.isin(["", "-200"])
    assert (after[before.columns] == before)[~gaps].fillna(True).all(axis=None)
    assert np.isfinite(after[["a", "b"]].astype(float)).all(axis=None)
    assert run("predict", fitted, table / "data.csv", "-o", table / "long.parquet", "--from", "2004-03-28", "-q") == 0
    predicted = pd.read_parquet(table / "long.parquet")
    assert 0 < len(predicted) < 14 and list(predicted.columns) == ["id", "time", "a", "b"]
    assert not list(table.glob(".*.unfinished"))


def test_what_a_file_cannot_hold_is_not_left_half_written(table, fitted, in_pieces, capsys):
    assert run("encode", fitted, table / "data.csv", "-o", table / "long.npy", "-q") == 1
    assert "can hold numbers only" in capsys.readouterr().err
    assert not list(table.glob("*long.npy*"))


def test_rows_of_new_groups_are_answered_together(table, fitted, in_pieces, capsys):
    strangers, (model, columns) = table / "strangers.csv", runs.load(fitted)
    strangers.write_text((table / "data.csv").read_text().replace("\n001", "\nnew"))
    for data, expected in ((table / "data.csv", True), (strangers, False)):
        where = long.Where(fitted, data, table / "o.csv", None, None, False, True)
        assert long.is_for(model, "impute", where, columns) == expected
        assert long.is_for(model, "predict", where, columns)
    assert "The whole table is read" in capsys.readouterr().err


def test_arrays_grow_and_are_read_in_pieces(tmp_path):
    y = np.arange(14.0).reshape(7, 2)
    with pieces.Writer(tmp_path / "y.npy", tmp_path / "none.csv", ()) as writer:
        for start in (0, 3, 6):
            writer.write(pd.DataFrame(y[start : start + 3]))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), y)
    assert pieces.num_rows(tmp_path / "y.npy") == 7
    whole = pd.concat(list(pieces.read(tmp_path / "y.npy", 3)), ignore_index=True)
    assert whole.equals(files.read(tmp_path / "y.npy")) and list(whole.columns) == ["y[0]", "y[1]"]


def test_diagnose_and_report_say_what_was_found(fitted, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    assert run("diagnose", fitted) == 0
    said = capsys.readouterr().out
    assert said.startswith("Light: ") and said.rstrip().splitlines()[-1].startswith("Light: ")
    told = f"gpbae fit {fitted.parent / 'data.csv'} --inputs time --groups id --missing b=-200 "
    assert said.index(f"{told}--transform") < said.index("kinetic temperature")  # what to do before the numbers
    assert f"--evaluate cells --holdout 0.2 --set num_chains=4 --set num_samples=40 --out {fitted}-2" in said
    assert "gpbae fit …" not in said
    assert f"Fitted by: {told}" in said
    assert "output of a, row 0, group 000, time=2004-03-26 23:00 UTC" in said and "lengthscale (hours)" in said
    assert "kinetic temperature: 1 where the sampler moves as it should" in said and "R-hat: how much" in said
    assert run("report", fitted) == 0
    text = (fitted / "report.html").read_text()
    assert "SGPBAE, fitted to data.csv" in text and "Is it to be trusted?" in text
    assert f"{told}--transform" in text and "gpbae fit …" not in text


# Wrong calls.  {here} is a folder with the files below; nothing is fitted.

NOISE = np.random.default_rng(0).bytes(5000)
FILES = {
    "good.csv": "t,a,b,id\n1,2,3,x\n2,,4,x\n3,5,6,y\n",
    "empty.csv": "",
    "header.csv": "t,a\n",
    "twice.csv": "t,a,a\n1,2,3\n",
    "ragged.csv": "t,a\n1,2,3\n",
    "longer.csv": 't,a,b\n1,"2\n",3\n2,5,6\n3,5,6,7\n4,1,2\n',
    "quote.csv": 't,a\n1,2\n2,"3\n3,4\n',
    "word.csv": "t,a,b\n1,2,3\n2,oops,4\n3,5,6\n4,7,8\n",
    "blank.csv": "t,a\n1,\n2,NA\n",
    "dates.csv": "t,a\n01/02/2004,1\n03/04/2004,2\n",
    "gap.csv": "t,a\n1,1\n,2\n3,3\n",
    "broken.parquet": "not parquet",
    "broken.npz": "not npz",
    "table.xlsx": "",
    "bad.toml": "num_inducing = ",
    "key.toml": "num_inducig = 3\n",
    "value.toml": "num_inducing = 'many'\n",
    "done.csv": "taken",
    "one.csv": "t,a,b\n1,2,3\n",
    "named.csv": "the id,a\nx,1\ny,2\n",
    "iso.csv": "t,a\n2004-01-01,1\n2004-01-02,2\n",
    "days.csv": "t,a\n20040101,1\n20040102,2\n",
    "commas.csv": "t;a\n1;999\n2;1,234\n3;2,500\n",
    "infinite.csv": "t,a,b\n1,1,1\n2,Inf,2\n3,3,-inf\n4,4,inf\n",
    "infinite_later.csv": "time,id,a,b\n2004-03-28T02:00+01:00,000,1,inf\n",
    "noise.csv": NOISE,
    "noise.parquet": NOISE,
    "noise.npy": NOISE,
    "unmarked.csv": "t,a\n1,2\n".encode("utf-16-le"),
    "cut.csv": "t,a\n1,2\n".encode("utf-16")[:-1],
    "control.csv": "t,°C\n1,2\x07\n".encode("cp1252"),
    "local.csv": "time,id,a,b\n2004-03-28T02:00,000,1,1\n",
    "when.csv": "time\n2004-03-28T02:00+01:00\n",
    "known.csv": "time,id\n2004-03-28T02:00+01:00,000\n",
    "text.csv": "time,id,a,b\n2004-03-28T02:00+01:00,000,oops,1\n",
}
FIT = ["fit", "{here}/good.csv", "--inputs", "t", "--out", "{here}/run"]
WRONG = {
    "no such column": (["fit", "{here}/good.csv", "--inputs", "tt", "--out", "{here}/run"], 1, "Did you mean 't'?"),
    "no such output": ([*FIT, "--outputs", "c"], 1, "Expected a column 'c'; the table has t, a, b, id."),
    "no such group": ([*FIT, "--groups", "ID"], 1, "Expected a column 'ID'"),
    "pattern without match": ([*FIT, "--outputs", "z*"], 1, "matches 'z*'"),
    "named twice": ([*FIT, "--outputs", "a,a"], 1, "named once"),
    "known and modelled": ([*FIT, "--outputs", "a,t"], 1, "got t as both"),
    "nothing left": ([*FIT, "--exclude", "a,b"], 1,
                     "no column of numbers left to model but words in id; name one with --outputs"),
    "no inputs": (["fit", "{here}/good.csv", "--out", "{here}/run"], 2, "--inputs"),
    "unknown flag": ([*FIT, "--nonsense"], 2, "No such option: --nonsense; `gpbae fit --help` has them all"),
    "argument as a flag": ([*FIT, "--chains", "2"], 2, "No such option: --chains; set it with --set num_chains=2."),
    "the same with equals": ([*FIT, "--num-warmup=9"], 2, "--num-warmup; set it with --set num_warmup=9."),
    "argument to quote": ([*FIT, "--kernel", "RBF() + Linear()"], 2, "with --set 'kernel=RBF() + Linear()'."),
    "argument without value": ([*FIT, "--likelihoods"], 2, "with --set likelihood=VALUE."),
    "argument of others": ([*FIT, "--burn-in", "9"], 2, "--burn-in; set it with --set num_warmup=9."),
    "flag like another": ([*FIT, "--output", "a"], 2, "No such option: --output; did you mean --outputs?"),
    "no such file": (["fit", "{here}/none.csv", "--inputs", "t", "--out", "{here}/run"], 2, "none.csv"),
    "no out": (["fit", "{here}/good.csv", "--inputs", "t"], 2, "--out"),
    "unknown model": ([*FIT, "--model", "vaee"], 2, "igp, gpar; got 'vaee'. Did you mean vae?"),
    "a model without its hyphen": ([*FIT, "--model=SGPBAE"], 2, "got 'SGPBAE'. Did you mean sgp-bae?"),
    "a model like none": ([*FIT, "--model", "linear"], 2, "expected one of bae, gp-bae, sgp-bae, "),
    "empty file": (["fit", "{here}/empty.csv", "--inputs", "t", "--out", "{here}/run"], 1, "empty file"),
    "header only": (["fit", "{here}/header.csv", "--inputs", "t", "--out", "{here}/run"], 1, "at least one row"),
    "equal names": (["fit", "{here}/twice.csv", "--inputs", "t", "--out", "{here}/run"], 1, "distinct column names"),
    "long row": (["fit", "{here}/ragged.csv", "--inputs", "t", "--out", "{here}/run"], 1, "at most 2 cells in a row"),
    "a long row further down": (["fit", "{here}/longer.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                                "as many as its header has names; got 4 on line 5. Mend that line;"),
    "a long row on disk": (["fit", "{here}/longer.csv", "--inputs", "t", "--on-disk", "--out", "{here}/run"], 1,
                           "got 4 on line 5. Mend that line;"),
    "a quotation mark alone": (["fit", "{here}/quote.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                               "must be a table with quotation marks in pairs; got: EOF inside string"),
    "text among numbers": (
        ["fit", "{here}/word.csv", "--inputs", "t", "--outputs", "a", "--out", "{here}/run"], 1,
        "Column 'a' must hold numbers; got 'oops' on line 3. If it means missing, fit with --missing oops",
    ),
    "text among all numbers": (
        ["fit", "{here}/word.csv", "--inputs", "t", "--out", "{here}/run"], 1, "leave the column out with --exclude a",
    ),
    "text among numbers of a stretch": (
        ["fit", "{here}/word.csv", "--inputs", "t", "--from", "2", "--out", "{here}/run"], 1, "got 'oops' on line 3",
    ),
    "all missing": (
        ["fit", "{here}/blank.csv", "--inputs", "t", "--outputs", "a", "--out", "{here}/run"], 1,
        "Expected at least one observed cell to learn from; got nothing but gaps in a (2 rows). Look whether --missing",
    ),
    "all missing by default": (
        ["fit", "{here}/blank.csv", "--inputs", "t", "--out", "{here}/run"], 1, "nothing but gaps in a (2 rows)",
    ),
    "all said to be missing": ([*FIT, "--outputs", "b", "--missing", "3", "--missing", "4", "--missing", "6"], 1,
                               "nothing but gaps in b (3 rows)"),
    "text as input": (["fit", "{here}/good.csv", "--inputs", "id", "--out", "{here}/run"], 1, "--groups id"),
    "text as input whose name is quoted": (["fit", "{here}/named.csv", "--inputs", "the id", "--out", "{here}/run"], 1,
                                           "--groups 'the id';"),
    "no such column in folders that are not there": (
        ["fit", "{here}/good.csv", "--inputs", "tt", "--out", "{here}/run/y/z"], 1, "Did you mean 't'?"),
    "no such column of a table on disk": (
        ["fit", "{here}/good.csv", "--inputs", "tt", "--on-disk", "--out", "{here}/run/y/z"], 1, "Did you mean 't'?"),
    "an infinity on disk": (["fit", "{here}/infinite.csv", "--inputs", "t", "--on-disk", "--out", "{here}/run"], 1,
                            "must hold finite numbers; got 'Inf' on line 3"),
    "refused by the model in folders that are not there": (
        ["fit", "{here}/good.csv", "--inputs", "t", "--transform", "z=log", "--out", "{here}/run/y/z"], 1, "y has not"),
    "gap in an input": (["fit", "{here}/gap.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                        "Input 't' must be a number in every row; got '' on line 3."),
    "dates both ways": (["fit", "{here}/dates.csv", "--inputs", "t", "--out", "{here}/run"], 1, "--date-format"),
    "commas both ways": (["fit", "{here}/commas.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                         "got '1,234' on line 3, which is 1.234 or 1234. Fit with --decimal comma or --decimal point"),
    "unknown decimal sign": ([*FIT, "--decimal", "dot"], 2, "'dot'"),
    "a format of no input": ([*FIT, "--date-format", "%Y%m%d"], 1, "got 1 in 't'. Mend it, or leave it out."),
    "an offset where there is none": (
        ["fit", "{here}/iso.csv", "--inputs", "t", "--from", "2004-01-01T00:00Z", "--out", "{here}/run"], 1,
        "Expected a time without an offset, as in the fitted table; got '2004-01-01T00:00Z'",
    ),
    "digits that may be days": (
        ["fit", "{here}/days.csv", "--inputs", "t", "--set", "num_inducing=0", "--out", "{here}/run"], 1,
        "Note: t is read as plain numbers; if 20040101 is a day, pass --date-format %Y%m%d.",
    ),
    "broken parquet": (["fit", "{here}/broken.parquet", "--inputs", "t", "--out", "{here}/run"], 1, "Could not read"),
    "broken npz": (["fit", "{here}/broken.npz", "--inputs", "t", "--out", "{here}/run"], 1, "Could not read"),
    "no table": (["fit", "{here}/table.xlsx", "--inputs", "t", "--out", "{here}/run"], 1, "Expected a .csv"),
    "out is a file": (["fit", "{here}/good.csv", "--inputs", "t", "--out", "{here}/done.csv"], 2, "done.csv"),
    "bad TOML": ([*FIT, "--config", "{here}/bad.toml"], 1, "to be TOML"),
    "bad TOML key": ([*FIT, "--config", "{here}/key.toml"], 1, "Did you mean num_inducing?"),
    "bad TOML value": ([*FIT, "--config", "{here}/value.toml"], 1, "num_inducing must be a whole number"),
    "bad --set": ([*FIT, "--set", "num_chains"], 1, "NAME=value"),
    "unknown --set": ([*FIT, "--set", "chains=2"], 1, "no argument 'chains'"),
    "unknown kernel": ([*FIT, "--set", "kernel=RBS()"], 1, "Did you mean RBF?"),
    "code as kernel": ([*FIT, "--set", "kernel=__import__('os').system('x')"], 1, "There is no"),
    "bad --missing": ([*FIT, "--missing", "a="], 1, "--missing takes a number or a word"),
    "--missing of no column": ([*FIT, "--missing", "z=-1"], 1, "Expected a column 'z'"),
    "bad transform": ([*FIT, "--transform", "cube"], 1, "transform must be one of"),
    "transform of no column": ([*FIT, "--transform", "z=log"], 1, "which y has not"),
    "bad --from": ([*FIT, "--from", "monday"], 1, "Expected a number"),
    "nothing in range": ([*FIT, "--from", "100"], 1, "No row of 't'"),
    "misspelt --evaluate": ([*FIT, "--evaluate", "block"], 2, "expected cells, blocks, rows"),
    "bad --evaluate": ([*FIT, "--evaluate", "column:a"], 2, "column:NAME:START"),
    "bad holdout": ([*FIT, "--evaluate", "--holdout", "2"], 2, "--holdout"),
    "no run": (["impute", "{here}", "{here}/good.csv", "-o", "{here}/o.csv"], 1, "does not hold a run of"),
    "no run to report": (["report", "{here}"], 1, "does not hold a run of"),
    "no run to diagnose": (["diagnose", "{here}"], 1, "does not hold a run of"),
    "no run to resume": (["resume", "{here}"], 1, "does not hold a run"),
    "run is a file": (["impute", "{here}/good.csv", "{here}/good.csv", "-o", "{here}/o.csv"], 2, "good.csv"),
    "output exists": (["predict", "{here}", "{here}/good.csv", "-o", "{here}/done.csv"], 1, "pass --force"),
    "odd output": (["encode", "{here}", "{here}/good.csv", "-o", "{here}/o.xlsx"], 1, "ends in .csv, .parquet, .npz"),
    "no output": (["encode", "{here}", "{here}/good.csv"], 2, "--output"),
    "odd interval": (["impute", "{here}", "{here}/good.csv", "-o", "{here}/o.csv", "--interval", "90"], 2,
                     "Did you mean 0.9"),
    "an interval in per cent": (["impute", "{here}", "{here}/good.csv", "-o", "{here}/o.csv", "--interval", "90%"], 2,
                                "from 0.01 to 0.999, such as 0.9; got '90%'. Did you mean 0.9?"),
    "an interval in words": (["predict", "{here}", "{here}/good.csv", "-o", "{here}/o.csv", "--interval", "abc"], 2,
                             "expected a probability from 0.01 to 0.999, such as 0.9; got 'abc'."),
    "no run to evaluate": (["evaluate", "{here}"], 1, "does not hold a run of"),
    "misspelt way to evaluate": (["evaluate", "{run}", "--evaluate", "block"], 2, "expected cells, blocks, rows"),
    "bad holdout to evaluate": (["evaluate", "{run}", "--holdout", "2"], 2, "--holdout"),
    "empty blocks to evaluate": (["evaluate", "{run}", "--block-length", "0"], 2, "--block-length"),
    "log of evaluate nowhere": (["evaluate", "{run}", "--log-json", "{here}/none/log"], 1, "Could not open"),
    "hidden column to evaluate that is none": (["evaluate", "{run}", "--evaluate", "column:z:2004-03-28"], 1,
                                               "Expected a column 'z'"),
    "log nowhere": ([*FIT, "--log-json", "{here}/none/log"], 1, "Could not open"),
    "one row": (["fit", "{here}/one.csv", "--inputs", "t", "--out", "{here}/run"], 1, "at least 2 rows"),
    "bad --to": ([*FIT, "--to", "monday"], 1, "Expected a number"),
    "one row in range": ([*FIT, "--to", "2"], 1, "at least 2 rows"),
    "places without inputs": (["fit", "{here}/good.csv", "--model", "bae", "--from", "1", "--out", "{here}/run"], 1,
                              "name one with --inputs"),
    "other dates than said": (["fit", "{here}/iso.csv", "--inputs", "t", "--date-format", "%d/%m/%Y", "--out",
                               "{here}/run"], 1, "must hold a date in every row; got '2004-01-01' on line 2"),
    "group modelled": ([*FIT, "--groups", "id", "--outputs", "id,a"], 1, "got id as both"),
    "excluded but not there": ([*FIT, "--exclude", "zz"], 1, "Expected a column 'zz'"),
    "no latents": ([*FIT, "--latent-dim", "0"], 2, "'--latent-dim': expected a whole number of at least 1; got 0."),
    "negative seed": ([*FIT, "--seed", "-1"], 2, "--seed"),
    "empty blocks": ([*FIT, "--evaluate", "blocks", "--block-length", "0"], 2, "--block-length"),
    "hidden column that is none": ([*FIT, "--evaluate", "column:z:2"], 1, "Expected a column 'z'"),
    "hidden from no place": ([*FIT, "--evaluate", "column:a:monday"], 1, "Expected a number"),
    "hidden beyond the end": ([*FIT, "--evaluate", "column:a:100"], 1, "choose an earlier start"),
    "no chains": ([*FIT, "--set", "num_chains=0"], 1, "num_chains must be a whole number of at least 1"),
    "fewer draws than none": ([*FIT, "--set", "num_samples=-3"], 1, "num_samples must be a whole number of at least"),
    "no chains for a table on disk": ([*FIT, "--on-disk", "--set", "num_chains=0"], 1, "num_chains must be a whole"),
    "no layers": ([*FIT, "--model", "dsgp-bae", "--set", "num_layers=0", "--evaluate", "--holdout", "0.5"], 1,
                  "num_layers must be a whole"),
    "no steps": ([*FIT, "--model", "vae", "--set", "num_steps=-1"], 1, "num_steps must be a whole number"),
    "an infinity": (["fit", "{here}/infinite.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                    "'a' must hold finite numbers; got 'Inf' on line 3. If it means missing, fit with --missing inf"),
    "an infinity below zero": (
        ["fit", "{here}/infinite.csv", "--inputs", "t", "--outputs", "b", "--out", "{here}/run"], 1,
        "got '-inf' on line 4, one of 2 such cells. If it means missing, fit with --missing -inf",
    ),
    "an infinity as input": (["fit", "{here}/infinite.csv", "--inputs", "b", "--out", "{here}/run"], 1,
                             "Input 'b' must be a finite number in every row; got '-inf' on line 4. Mend the cell"),
    "an infinity to fill": (["impute", "{run}", "{here}/infinite_later.csv", "-o", "{here}/o.csv"], 1,
                            "got 'inf' on line 2. If it means missing, leave it empty, or fit again with --missing"),
    "no text": (["fit", "{here}/noise.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                "must be text in UTF-8, in UTF-16 with a byte-order mark, or in Windows-1252; got bytes that are none"),
    "no text on disk": (["fit", "{here}/noise.csv", "--inputs", "t", "--on-disk", "--out", "{here}/run"], 1,
                        "must be text in UTF-8"),
    "no text to fill": (["impute", "{run}", "{here}/noise.csv", "-o", "{here}/o.csv"], 1, "must be text in UTF-8"),
    "UTF-16 without a mark": (["fit", "{here}/unmarked.csv", "--inputs", "t", "--out", "{here}/run"], 1,
                              "none of these"),
    "half a letter of UTF-16": (["fit", "{here}/cut.csv", "--inputs", "t", "--out", "{here}/run"], 1, "none of these"),
    "a control character": (["fit", "{here}/control.csv", "--inputs", "t", "--out", "{here}/run"], 1, "none of these"),
    "other bytes called a table": (["fit", "{here}/noise.parquet", "--inputs", "t", "--out", "{here}/run"], 1,
                                   "Could not read"),
    "other bytes called an array": (["fit", "{here}/noise.npy", "--inputs", "t", "--out", "{here}/run"], 1,
                                    "Could not read"),
    "unknown likelihood": ([*FIT, "--set", "likelihood=gausian"], 1, "got 'gausian'"),
    "likelihood of no column": ([*FIT, "--set", "likelihood={z = 'poisson'}"], 1, "names the column 'z'; y has a, b"),
    "likelihood that cannot be": ([*FIT, "--set", "likelihood=bernoulli"], 1, "got 2 in column a"),
    "log of resume nowhere": (["resume", "{here}", "--log-json", "{here}/none/log"], 1, "Could not open"),
    "odd interval to predict": (["predict", "{here}", "{here}/good.csv", "-o", "{here}/o.csv", "--interval", "0"], 2,
                                "--interval"),
    "no share of rows": ([*FIT, "--row-shards", "0"], 2, "--row-shards"),
    "shares of rows by one process": ([*FIT, "--row-shards", "2"], 2, "needs --distributed"),
    "shares of rows by one process that resumes": (["resume", "{here}", "--row-shards", "2"], 2, "needs --distributed"),
    "no share of rows to resume": (["resume", "{here}", "--row-shards", "0"], 2, "--row-shards"),
    "nothing to merge": (["merge", "--out", "{here}/merged"], 2, "gpbae merge -h"),
    "one run to merge": (["merge", "{here}", "--out", "{here}/merged"], 1, "at least two"),
    "no runs to merge": (["merge", "{here}", "{here}", "--out", "{here}/merged"], 1, "does not hold a run"),
    "unknown experiment": (["reproduce", "mnist", "--out", "{here}/r"], 2, "rotated-mnist"),
    "unknown rival": (["reproduce", "jura", "--models", "vaee", "--out", "{here}/r"], 2, "got 'vaee'"),
    "unknown budget": (["reproduce", "jura", "--budget", "long", "--out", "{here}/r"], 2, "quick or full"),
    "no seeds": (["reproduce", "jura", "--seeds", "0", "--out", "{here}/r"], 2, "--seeds"),
    "no such fold": (["reproduce", "jura", "--fold", "7", "--out", "{here}/r"], 2, "--fold"),
    "verify into a folder": (["verify", "--page", "{here}"], 2, "directory"),
    "verify into no folder": (["verify", "--page", "{here}/absent/page.md"], 1, "name another one"),
    "bench into a file": (["bench", "--out", "{here}/done.csv"], 2, "done.csv"),
    "bench of nothing known": (["bench", "--only", "chains,nothing"], 2, "got nothing"),
    "bench of nothing at all": (["bench", "--only", "growth", "--no-growth"], 2, "leave one out"),
    "demo into a file": (["demo", "--out", "{here}/done.csv"], 2, "done.csv"),
    "unknown dataset": (["data", "fetch", "nonsense"], 1, "got 'nonsense'"),
    # Of a run: {run} was fitted to time and id, a and b.
    "no input to predict at": (["predict", "{run}", "{here}/good.csv", "-o", "{here}/o.csv"], 1, "a column 'time'"),
    "no group to predict in": (["predict", "{run}", "{here}/when.csv", "-o", "{here}/o.csv"], 1, "a column 'id'"),
    "no output to fill": (["impute", "{run}", "{here}/known.csv", "-o", "{here}/o.csv"], 1, "a column 'a'"),
    "text to encode": (["encode", "{run}", "{here}/text.csv", "-o", "{here}/o.csv"], 1,
                       "got 'oops' on line 2. If it means missing, leave it empty, or fit again with --missing oops;"),
    "local times to fill": (["impute", "{run}", "{here}/local.csv", "-o", "{here}/o.csv"], 1,
                            "'time' must give its times with an offset, such as +01:00 or Z, as the fitted table did"),
    "filled from no zone": (["impute", "{run}", "{here}/known.csv", "-o", "{here}/o.csv", "--from", "2004-03-28 12:00"],
                            1, "Expected a time with an offset"),
    "filled from no date": (["impute", "{run}", "{here}/known.csv", "-o", "{here}/o.csv", "--from", "monday"], 1,
                            "got 'monday'"),
    "filled to no date": (["impute", "{run}", "{here}/known.csv", "-o", "{here}/o.csv", "--to", "x"], 1, "got 'x'"),
    "nothing to predict": (["predict", "{run}", "{here}/known.csv", "-o", "{here}/o.csv", "--from", "2030-01-01"], 1,
                           "No row of 'time'"),
    "predicted to the start": (["predict", "{run}", "{here}/known.csv", "-o", "{here}/o.csv", "--to", "1990-01-01"], 1,
                               "No row of 'time'"),
    "nothing to encode": (["encode", "{run}", "{here}/text.csv", "-o", "{here}/o.csv", "--from", "2030-01-01"], 1,
                          "No row of 'time'"),
    "encoded to the start": (["encode", "{run}", "{here}/text.csv", "-o", "{here}/o.csv", "--to", "1990-01-01"], 1,
                             "No row of 'time'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_call_is_answered_in_one_sentence(what, here, request, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    arguments, code, words = WRONG[what]
    fitted = request.getfixturevalue("fitted") if "{run}" in arguments else ""
    shutil.rmtree(here / "run", ignore_errors=True)  # of a call before, that was not refused as it should be
    capsys.readouterr()
    given = [argument.replace("{here}", str(here)).replace("{run}", str(fitted)) for argument in arguments]
    assert run(*given) == code
    said = capsys.readouterr()
    assert words in " ".join(said.err.split()) and "Traceback" not in said.err
    if code == 1:
        errors = [line for line in said.err.splitlines() if line.startswith("Error: ")]
        assert said.out == "" and len(errors) == 1 and "Unexpected" not in errors[0]
    assert not (here / "run").exists()


def test_a_folder_that_is_no_run_says_what_it_is(tmp_path, capsys):
    def said(folder):
        assert run("diagnose", folder) == 1
        return capsys.readouterr().err

    assert f"fit first: gpbae fit data.csv --inputs time --out {tmp_path}." in said(tmp_path)
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "columns.json").write_bytes(roles.Columns(("t",), ("a",)).to_json())
    assert f"there are runs inside it. Name one of them, such as {begun}." in said(tmp_path)
    assert "was stopped before it began to sample; call `gpbae fit` as before." in said(begun)
    (begun / "columns.json").write_text("{")
    assert "its columns.json cannot be read. Fit again" in said(begun)
    (begun / "columns.json").unlink()
    (begun / "manifest.json").write_text("{}")
    assert "it was fitted or saved in Python. Open it there, with gpbae.load." in said(begun)


def test_every_option_has_a_wrong_call():
    """But those of `--version` and the like, which take no value."""
    calls = [*BAD_USAGE, *(arguments for arguments, _, _ in WRONG.values())]
    for words in COMMANDS:
        command = GROUP
        for word in words:
            command = command.commands[word]
        mine = [call for call in calls if call[: len(words)] == words]
        for option in command.params:
            if option.param_type_name == "option" and not option.is_flag:
                assert any(set(option.opts) & set(call) for call in mine), f"{words} {option.opts[0]}"


def test_a_folder_with_files_of_others_is_refused_before_the_table_is_read(tmp_path, capsys):
    (tmp_path / "bad.csv").write_text("")
    out = tmp_path / "papers"
    out.mkdir()
    call = ["fit", tmp_path / "bad.csv", "--inputs", "t", "--out", out]
    for name in (".lock", "columns.json", "given.json", "evaluation.json", "log.jsonl"):  # ours, before a run begins
        (out / name).write_text("")
    (out / "evaluation").mkdir()
    assert run(*call, "--log-json", out / "log.jsonl") == 1 and "empty file" in capsys.readouterr().err
    assert run(*call) == 1 and "which holds log.jsonl. Name a new folder" in capsys.readouterr().err
    (out / "thesis.tex").write_text("")
    for options in ([], ["--evaluate-only"], ["--on-disk"]):
        assert run(*call, *options) == 1
        assert "got " + str(out) + ", which holds log.jsonl and 1 more." in capsys.readouterr().err
    (out / "manifest.json").write_text("{}")
    assert run(*call) == 1 and "empty file" in capsys.readouterr().err  # a run, or what looks like one, as ever


@pytest.mark.parametrize(("number", "last"), [(9, "c8 1."), (10, "c7 3, ….")])
def test_an_ellipsis_hides_more_than_one_column(number, last):
    assert answers._in_words({f"c{i}": number - i for i in range(number)}).endswith(last)


def test_outputs_are_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert run("demo", "--out", tmp_path / "taken" / "inside") == 1
    assert "name another one" in capsys.readouterr().err


def test_arrays_become_columns(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3.0), y=np.ones((3, 2, 2)))
    read = files.read(tmp_path / "a.npz")
    assert roles.resolve(read, ["y"]) == ["y[0]", "y[1]", "y[2]", "y[3]"]
    np.savez(tmp_path / "b.npz", x=np.arange(3.0), y=np.ones((4, 2)))
    with pytest.raises(InputError, match="one row per observation"):
        files.read(tmp_path / "b.npz")


def test_computed_numbers_are_written_in_few_digits_whatever_their_size():
    values = [0.1 + 0.2, 1e-20 / 3, -123456.789, 1e20 / 3, 0.0, np.nan, np.inf, 5.0]
    text = files.readable(pd.DataFrame({"a": values, "b": 2})).to_csv(index=False).split()
    assert text[1:] == ["0.3,2", "3.333333e-21,2", "-123456.8,2", "3.333333e+19,2", "0.0,2", ",2", "inf,2", "5.0,2"]


@pytest.mark.parametrize(("name", "content"), [("a.txt", "x"), ("a.csv", ""), ("a.csv", "x,y\n"), ("a.npz", "x")])
def test_unreadable_tables_are_refused_in_one_sentence(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError):
        files.read(tmp_path / name)


def test_parquet_goes_in_and_out(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"x": [1, 2], "y": [np.nan, 3.0]})
    table.to_parquet(tmp_path / "s.parquet")
    with pieces.Writer(tmp_path / "t.parquet", tmp_path / "s.parquet", ("y",)) as writer:
        writer.write(table[:1])
        writer.write(table[1:])
    read = files.read(tmp_path / "t.parquet")
    assert read.equals(table) and [len(piece) for piece in pieces.read(tmp_path / "t.parquet", 1)] == [1, 1]
    filled = roles.fill(read, pd.DataFrame({"y": [7.0, 3.0]}), roles.Columns((), ("y",)))
    assert list(filled["y"]) == [7.0, 3.0] and list(filled["x"]) == [1, 2]
