"""`gpbae evaluate`, `diagnose` and `report`: how good a run is, whether to believe it, and what it found."""

import shlex
from pathlib import Path
from typing import Any

import typer

from gpbae.cli import options, runs, scores, terminal
from gpbae.errors import GpbaeError, InputError

app = typer.Typer()
HEADERS = {"r_hat": "R-hat", "ess": "ESS"}


@app.command(epilog="Example: gpbae evaluate run --evaluate cells,blocks")
def evaluate(
    run: options.Run,
    evaluate: options.Evaluate = "cells",
    holdout: options.Holdout = 0.1,
    block_length: options.BlockLength = 24,
    quiet: options.Quiet = False,
    log_json: options.LogJson = None,
) -> None:
    """How good is a run?  Hide known cells of its table, fit a copy to the rest, score it beside simple rivals.

    The scores are those of `gpbae fit --evaluate`: a table, then RUN/evaluation.json and .csv, which the report shows.
    """
    from gpbae.processes import progress
    from gpbae.saving import runfolder

    ways = scores.ways(evaluate or "cells")
    runs.take_place(distributed=False, row_shards=1)
    with progress.json_lines(log_json) as log:
        columns, given = runs.columns(run), runs.given(run)
        asked = scores.Asked(*runfolder.reopen(run), columns)
        hidden = scores.Hidden(ways, holdout, block_length, asked.estimator.seed, given.names)
        scores.check(asked, hidden)
        with scores.wished(hidden, run):
            scores.evaluate(asked, hidden, run, quiet, log, scores.course(hidden, with_fit=False))
    if not quiet and runs.is_sampled(asked.estimator) and runfolder.read_manifest(run)["finished"]:
        terminal.say(f"Next: gpbae report {shlex.quote(str(run))}.")
    print(run)


@app.command(epilog="Example: gpbae diagnose run")
def diagnose(run: options.Run) -> None:
    """Has the chain mixed, and was it a sampler at all?  A light and what to do, as in the report; then a table."""
    from gpbae.answering import advice
    from gpbae.report import trust

    model, columns = _load_sampled(run)
    frame = model.diagnostics(columns.dates)
    tests = scores.of_run(run)
    light = trust.worst(trust.checks(model, frame, tests))
    told = runs.command(run)
    print(f"Light: {light}. {light.meaning}")
    kept = (f"{p.name}: {p.found}. {p.advice}".strip() for p in trust.promises(model, tests))
    for words in (*kept, *frame.attrs["warnings with commands"]):
        print(advice.spelled_out(words, told))
    _show(f"{type(model).__name__}, draws", "quantity", frame[frame["mean"].notna()][["mean", "sd", "r_hat", "ess"]])
    blocks = frame[frame["kinetic_temperature"].notna()][["kinetic_temperature", "temperature_error"]]
    _show(f"{type(model).__name__}, sampler", "block", blocks.rename(index=lambda name: name.removeprefix("block: ")))
    if model.num_rows_on_disk_ is not None:
        print(f"Found at rows of the {len(model.table_.x)} that the model keeps, of {model.num_rows_on_disk_} on disk.")
    if told is not None:
        print(f"Fitted by: {told.command} --out {shlex.quote(str(run))}")
    if light != trust.Light.GREEN:
        print(f"Light: {light}; what to do stands above the tables.")


def _show(title: str, what: str, frame: Any) -> None:
    rows = [(name, *("" if value != value else float(value) for value in row)) for name, *row in frame.itertuples()]
    header = (HEADERS.get(name, name.replace("_", " ")) for name in frame.columns)
    terminal.show(title, (what, *header), rows)


@app.command(epilog="Example: gpbae report run")
def report(run: options.Run) -> None:
    """Write RUN/report.html: whether to believe it, gaps filled, latents, calibration, scores, traces, settings."""
    print(write_report(run))


def write_report(run: Path) -> Path:
    """The page of a run."""
    from gpbae.report import model_page

    model, columns = _load_sampled(run)
    page = run / "report.html"
    try:
        told = runs.command(run)
        text = model_page(model, columns, scores.of_run(run), scores.unfinished(run), told, shlex.quote(str(run)))
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise GpbaeError(f"Could not write {page}: {error}.") from error
    return page


def _load_sampled(run: Path) -> tuple[Any, Any]:
    model, columns = runs.load(run)
    if not runs.is_sampled(model):
        raise InputError(
            f"{type(model).__name__} was optimised, not sampled, so there are no chains to report on; impute, predict "
            "and `fit --evaluate` work."
        )
    return model, columns
