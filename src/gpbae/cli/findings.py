"""`gpbae diagnose` and `gpbae report`: whether to believe a run, and what it found."""

import json
from pathlib import Path
from typing import Any

import typer

from gpbae.cli import options, runs, terminal
from gpbae.errors import GpbaeError, InputError

app = typer.Typer()


@app.command(epilog="Example: gpbae diagnose run")
def diagnose(run: options.Run) -> None:
    """Has the chain mixed, and was it a sampler at all?  A table, then plain words and a light, as in the report."""
    from gpbae.report import trust

    model, columns = _load_sampled(run)
    frame = model.diagnostics(columns.dates)
    rows = [(name, *("" if value != value else float(value) for value in row)) for name, *row in frame.itertuples()]
    terminal.show(type(model).__name__, ("quantity", *(name.replace("_", " ") for name in frame.columns)), rows)
    for words in frame.attrs["warnings"]:
        print(words)
    light = trust.worst(trust.checks(model, frame))
    print(f"Light: {light}. {light.meaning}")


@app.command(epilog="Example: gpbae report run")
def report(run: options.Run) -> None:
    """Write RUN/report.html: whether to believe it, gaps filled, latents, calibration, scores, traces, settings."""
    print(write_report(run))


def write_report(run: Path) -> Path:
    """The page of a run."""
    from gpbae.report import model_page

    model, columns = _load_sampled(run)
    page, scores = run / "report.html", run / "evaluation.json"
    try:
        evaluation = _scores(scores) if scores.exists() else ()
        page.write_text(model_page(model, columns, evaluation), encoding="utf-8")
    except OSError as error:
        raise GpbaeError(f"Could not write {page}: {error}.") from error
    return page


def _scores(file: Path) -> Any:
    from gpbae.saving import storage

    content = storage.read(file.parent, file.name)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{file} is not JSON: damaged; remove it, or evaluate again.") from None


def _load_sampled(run: Path) -> tuple[Any, Any]:
    model, columns = runs.load(run)
    if not runs.is_sampled(model):
        raise InputError(
            f"{type(model).__name__} was optimised, not sampled, so there are no chains to report on; impute, predict "
            "and `fit --evaluate` work."
        )
    return model, columns
