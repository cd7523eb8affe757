"""`gpbae impute`, `predict` and `encode`: what a run says of a table, as a table."""

from collections.abc import Callable
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
    from gpbae.cli import roles

    def filled(table, answer):
        values = answer.filled.set_axis(table.rows.index, axis=0)
        is_text = output.suffix.lower() == ".csv"
        done = roles.fill(table.rows, values, table.columns) if is_text else table.rows.assign(**values)
        return _with_interval(done, answer, table.columns.outputs, interval)

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
        point = {name: answer.point[name].to_numpy() for name in table.columns.outputs}
        done = table.rows.filter(table.columns.carried()).assign(**point)
        return _with_interval(done, answer, table.columns.outputs, interval)

    _answer(Where(run, data, output, first, last, force, quiet), "predict", predicted)


@app.command(epilog="Example: gpbae encode run data.csv -o latents.csv")
def encode(
    run: options.Run, data: options.Data, output: options.Output, first: options.From = None, last: options.To = None,
    force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Write the latents of every row: posterior mean and standard deviation."""

    def encoded(table, answer):
        done = table.rows.filter(table.columns.carried())
        for name in answer.mean.columns:
            done[name], done[f"{name}_sd"] = answer.mean[name].to_numpy(), answer.sd[name].to_numpy()
        return done

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


def _with_interval(table: Any, answer: Any, names: tuple[str, ...], level: float | None) -> Any:
    """Two more columns for every output but labels, which have no order."""
    if level is None:
        return table
    import pandas as pd

    low, high = answer.interval(level)
    ordered = [name for name in names if low[name].notna().any()]
    ends = {f"{n}_{end}": side[n].to_numpy() for n in ordered for end, side in (("lower", low), ("upper", high))}
    return pd.concat([table, pd.DataFrame(ends, index=table.index)], axis=1)
