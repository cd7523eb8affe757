"""`gpbae impute`, `predict` and `encode`: what a run says of a table, as a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gpbae.cli import options, reading, runs

app = typer.Typer()


class Where(NamedTuple):
    """A run, a table, the stretch of its rows that is meant, and the file for the answer."""

    run: Path
    data: Path
    output: Path
    first: str | None
    last: str | None
    force: bool
    quiet: bool


@app.command(epilog="Example: gpbae impute run data.csv -o filled.csv --interval 0.9")
def impute(
    run: options.Run, data: options.Data, output: options.Output, interval: options.Interval = None,
    first: options.From = None, last: options.To = None, force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Fill the gaps of a table with the posterior mean; cells that are there stay as they are."""
    from gpbae.cli import roles

    def filled(model, table):
        answer = model.impute(table.x, table.y, table.groups)
        done = roles.fill(table.rows, answer.filled, table.columns)
        return _with_interval(done, answer, table.columns.outputs, interval)

    _answer(Where(run, data, output, first, last, force, quiet), "refining", filled)


@app.command(epilog="Example: gpbae predict run new_inputs.csv -o predicted.csv --interval 0.9")
def predict(
    run: options.Run, data: options.Data, output: options.Output, interval: options.Interval = None,
    first: options.From = None, last: options.To = None, force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Predict the outputs at new inputs; the table needs the input columns (and the groups') only.

    Columns hold the mean of real numbers, the median of counts, the likeliest label.
    """
    import numpy as np

    def predicted(model, table):
        answer = model.predict(np.zeros((len(table.rows), 1)) if table.x is None else table.x, table.groups)
        done = table.rows.filter(table.columns.carried())
        for name in table.columns.outputs:
            done[name] = answer.point[name].to_numpy()
        return _with_interval(done, answer, table.columns.outputs, interval)

    _answer(Where(run, data, output, first, last, force, quiet), "predicting", predicted)


@app.command(epilog="Example: gpbae encode run data.csv -o latents.csv")
def encode(
    run: options.Run, data: options.Data, output: options.Output, first: options.From = None, last: options.To = None,
    force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Write the latents of every row: posterior mean and standard deviation."""

    def encoded(model, table):
        answer = model.encode(table.x, table.y, table.groups)
        done = table.rows.filter(table.columns.carried())
        for name in answer.mean.columns:
            done[name], done[f"{name}_sd"] = answer.mean[name].to_numpy(), answer.sd[name].to_numpy()
        return done

    _answer(Where(run, data, output, first, last, force, quiet), "refining", encoded)


def _answer(where: Where, phase: str, ask: Callable[[Any, reading.Table], Any]) -> None:
    """Ask the model of a run about a table, tell the news, write the answer; outputs are refused before the work."""
    from gpbae import progress
    from gpbae.cli import files

    files.check_output(where.output, where.force)
    model, columns = runs.load(where.run)
    table = reading.read_again(where.data, columns, where.first, where.last)
    with progress.display("gpbae", not where.quiet) as show, progress.phase(phase, show):
        done = ask(model, table)
    files.write(done, where.output)
    print(where.output)


def _with_interval(table: Any, answer: Any, names: tuple[str, ...], level: float | None) -> Any:
    """Two more columns for every output but labels, which have no order."""
    if level is None:
        return table
    import pandas as pd

    low, high = answer.interval(level)
    ordered = [name for name in names if low[name].notna().any()]
    ends = {f"{n}_{end}": side[n].to_numpy() for n in ordered for end, side in (("lower", low), ("upper", high))}
    return pd.concat([table, pd.DataFrame(ends, index=table.index)], axis=1)
