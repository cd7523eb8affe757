"""`gpbae impute`, `predict` and `encode`: what a run says of a table, as a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from gpbae.cli import long, options, reading, runs
from gpbae.cli.long import Where

app = typer.Typer()


@app.command(epilog="Example: gpbae impute run data.csv -o filled.csv --interval 0.9")
def impute(
    run: options.Run, data: options.Data, output: options.Output, interval: options.Interval = None,
    first: options.From = None, last: options.To = None, force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Fill the gaps of a table with the posterior mean; cells that are there stay as they are."""
    from gpbae.cli import files, roles

    def filled(table, answer):
        values = answer.filled.set_axis(table.rows.index, axis=0)
        if not files.is_text(output):
            done = table.rows.assign(**values)
        else:
            done = roles.fill(table.rows, files.readable(values), table.columns)
        return _beside(done, output, *_ends(table, answer, interval))

    _answer(Where(run, data, output, first, last, force, quiet), "impute", filled)


@app.command(epilog="Example: gpbae predict run new_inputs.csv -o predicted.csv --interval 0.9")
def predict(
    run: options.Run, data: options.Data, output: options.Output, interval: options.Interval = None,
    first: options.From = None, last: options.To = None, force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Predict the outputs at new inputs; the table needs the input columns (and the groups') only.

    Columns hold the mean of real numbers, the median of counts, the likeliest label.
    """

    def predicted(table, answer):
        done = table.rows.filter(table.columns.carried())
        point = answer.point[list(table.columns.outputs)]
        return _beside(done, output, point, *_ends(table, answer, interval))

    _answer(Where(run, data, output, first, last, force, quiet), "predict", predicted)


@app.command(epilog="Example: gpbae encode run data.csv -o latents.csv")
def encode(
    run: options.Run, data: options.Data, output: options.Output, first: options.From = None, last: options.To = None,
    force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Write the latents of every row: posterior mean and standard deviation."""

    def encoded(table, answer):
        done, mean, sd = table.rows.filter(table.columns.carried()), answer.mean, answer.sd
        each = [part for name in mean.columns for part in (mean[[name]], sd[[name]].add_suffix("_sd"))]
        return _beside(done, output, *each)

    _answer(Where(run, data, output, first, last, force, quiet), "encode", encoded)


def _answer(where: Where, question: str, made: Callable[[reading.Table, Any], Any]) -> None:
    """Ask the model of a run about a table, tell the news, write the answer; outputs are refused before the work."""
    from gpbae.cli import files

    files.check_output(where.output, where.force)
    model, columns = runs.load(where.run)
    if long.is_for(model, question, where, columns):
        long.answer(model, question, where, columns, made)
    else:
        _answer_at_once(model, question, where, columns, made)
    print(where.output)


def _answer_at_once(model, question: str, where: Where, columns, made) -> None:
    from gpbae import progress
    from gpbae.cli import pieces

    table = reading.read_again(where.data, columns, where.first, where.last)
    phase = "predicting" if question == "predict" else "refining"
    with progress.display("gpbae", not where.quiet) as show, progress.phase(phase, show):
        asked = (table.places, table.groups) if question == "predict" else (table.x, table.y, table.groups)
        done = made(table, getattr(model, question)(*asked))
    with pieces.Writer(where.output, where.data, columns.outputs) as writer:
        writer.write(done)


def _beside(rows: Any, output: Path, *computed: Any) -> Any:
    """Computed columns to the right of the rows'."""
    import pandas as pd

    from gpbae.cli import files

    parts = [part.set_axis(rows.index, axis=0) for part in computed]
    return pd.concat([rows, *(map(files.readable, parts) if files.is_text(output) else parts)], axis=1)


def _ends(table: reading.Table, answer: Any, level: float | None) -> list[Any]:
    """NAME_lower and NAME_upper of every output but labels, which have no order; nothing where no level is given."""
    if level is None:
        return []
    low, high = answer.interval(level)
    ordered = [name for name in table.columns.outputs if low[name].notna().any()]
    return [side[[n]].add_suffix(end) for n in ordered for side, end in ((low, "_lower"), (high, "_upper"))]
