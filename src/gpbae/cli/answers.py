"""`gpbae impute`, `predict` and `encode`: what a run says of a table, as a table."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from gpbae.cli import long, options, reading, runs, terminal
from gpbae.cli.long import Where
from gpbae.errors import InputError

MOST_NAMES = 8

app = typer.Typer()


@app.command(epilog="Example: gpbae impute run data.csv -o filled.csv --interval 0.9 --mark")
def impute(
    run: options.Run, data: options.Data, output: options.Output, interval: options.Interval = None,
    mark: options.Mark = False, first: options.From = None, last: options.To = None, force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Fill the gaps of a table; cells that are there stay as they are.

    A gap gets the posterior mean of a real number (the median where logarithms were modelled), the median of a count,
    the likelier of yes and no, the likeliest label. Intervals and probabilities are those of a new measurement in
    every cell, also where there is one.
    """
    from gpbae.cli import files, filling, roles

    found: Counter[str] = Counter()
    called: roles.Called = {}

    def filled(table, answer):
        gaps = roles.gaps(table.rows, table.columns)
        found.update(gaps.sum().to_dict())
        values = _whole(answer.filled, table, answer).set_axis(table.rows.index, axis=0)
        if files.is_text(output):
            done = roles.fill(table.rows, files.readable(values), table.columns, called)
        elif files.holds_words(output):
            done = filling.typed(table, values, _kinds(table, answer), files.has_types(data), called)
        else:
            done = table.rows.assign(**values)
        beside = _sureness(table, answer, answer.filled, interval)
        if mark:
            beside = {n: [*beside.get(n, ()), gaps[[n]].add_suffix("_imputed")] for n in table.columns.outputs}
        return _beside(done, output, beside)

    adds = (*(() if interval is None else ("_lower", "_upper", long.PROBABILITY)), *(("_imputed",) if mark else ()))
    _answer(Where(run, data, output, first, last, force, quiet, adds), "impute", filled, interval)
    if not quiet:
        terminal.say(_in_words(found))


@app.command(epilog="Example: gpbae predict run new_inputs.csv -o predicted.csv --interval 0.9")
def predict(
    run: options.Run, data: options.Data, output: options.Output, interval: options.Interval = None,
    first: options.From = None, last: options.To = None, force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Predict the outputs at new inputs; the table needs the input columns (and the groups') only.

    Columns hold the mean of real numbers (the median where logarithms were modelled) and the median of counts, the
    likelier of yes and no, the likeliest label. Rows beyond the fitted ones, and groups never seen, are counted on
    stderr.
    """
    from gpbae.cli import roles

    def predicted(table, answer):
        point = roles.in_words(answer.point[list(table.columns.outputs)], table.columns)
        done = _joined(table.known, output, _whole(point, table, answer))
        return _beside(done, output, _sureness(table, answer, answer.point, interval))

    _answer(Where(run, data, output, first, last, force, quiet), "predict", predicted, interval)


@app.command(epilog="Example: gpbae encode run data.csv -o latents.csv")
def encode(
    run: options.Run, data: options.Data, output: options.Output, first: options.From = None, last: options.To = None,
    force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Write the latents of every row: posterior mean and standard deviation."""

    def encoded(table, answer):
        done, sd = _joined(table.known, output, answer.mean), answer.sd
        return _beside(done, output, {name: [sd[[name]].add_suffix("_sd")] for name in sd.columns})

    _answer(Where(run, data, output, first, last, force, quiet), "encode", encoded)


def _answer(
    where: Where, question: str, made: Callable[[reading.Table, Any], Any], interval: float | None = None
) -> None:
    """Ask the model of a run about a table, tell the news, write the answer; outputs are refused before the work."""
    from gpbae.answering import advice, blocks
    from gpbae.cli import cautions, encodings, files

    files.check_output(where.output, where.force)
    files.check_input(where.data)
    if (words := encodings.notice(where.data)) is not None and not where.quiet:
        terminal.say(f"Note: {words}")
    model, columns = runs.load(where.run)
    strays: Counter[str] = Counter()
    below: Counter[str] = Counter()
    num_draws: list[int] = []
    never_negative = cautions.never_negative(model) if question != "encode" else {}

    def counted(table, answer):
        if question == "predict":
            strays.update(cautions.strays(model, table))
        done = made(table, answer)
        if interval is not None and runs.is_sampled(model):
            num_draws.append(answer.num_draws)
        if never_negative:
            shown, gaps = (answer.point, None) if question == "predict" else (answer.filled, table.y.isna())
            lower = None if interval is None else answer.interval(interval)[0]
            below.update(cautions.below_zero(never_negative, gaps, shown, lower))
        return done

    with _once_fitted():
        if long.is_for(model, question, where, columns):
            more = cautions.draws_to_ask_for(model, interval, blocks.NUM_DRAWS)
            long.answer(model, question, where, columns, counted, more)
        else:
            _answer_at_once(model, question, where, columns, counted, interval)
    if not where.quiet:
        below_zero = cautions.below_zero_in_words(below, never_negative, getattr(model, "transform", None))
        few = cautions.few_draws(model, interval, min(num_draws)) if interval is not None and num_draws else None
        for words in (cautions.in_words(strays, columns), below_zero, few, cautions.of_run(model, where.run)):
            if words is not None:
                terminal.say(f"Note: {advice.spelled_out(words, runs.command(where.run))}")
    print(where.output)


@contextlib.contextmanager
def _once_fitted() -> Iterator[None]:
    """These commands have no options for what means missing, so that other advice is given."""
    from gpbae.cli import parsing

    try:
        yield
    except parsing.OddCell as odd:
        raise InputError(odd.once_fitted) from None


def _answer_at_once(model, question: str, where: Where, columns, made, interval: float | None) -> None:
    from gpbae.cli import cautions, files, pieces, roles
    from gpbae.processes import progress

    table = reading.read_again(where.data, columns, where.first, where.last)
    where.check(table)
    more: dict[str, int] = {}
    if interval is not None and runs.is_sampled(model):
        number = cautions.draws_to_ask_for(model, interval, model._usual_draws(question, len(table.rows)))
        more = {} if number is None else {"num_draws": number}
    phase = {"predict": "predicting", "encode": "placing"}.get(question, "refining")
    with progress.display("gpbae", not where.quiet) as show, progress.phase(phase, show):
        asked = (table.places, table.groups) if question == "predict" else (table.x, table.y, table.groups)
        done = made(table, getattr(model, question)(*asked, **more))
    sign = roles.sign_to_write(table.rows, columns, files.separator(where.data))
    with pieces.Writer(where.output, where.data, columns.outputs, sign, columns.image) as writer:
        writer.write(done)


def _whole(cells: Any, table: reading.Table, answer: Any) -> Any:
    """Counts, zeros and ones without a decimal point, also where gaps had made them floats."""
    kinds = _kinds(table, answer)
    whole = [n for n in cells.columns if kinds[n] in ("count", "truth") and cells[n].dtype.kind == "f"]
    return cells.astype(dict.fromkeys(whole, "Int64"))


def _in_words(found: Mapping[str, int]) -> str:
    """How many gaps were filled, and where most of them were; a single column is not worth an ellipsis."""
    places = [f"{name} {count}" for name, count in Counter(found).most_common() if count]
    shown = places if len(places) <= MOST_NAMES + 1 else [*places[:MOST_NAMES], "…"]
    return f"Filled {sum(found.values())} cells: {', '.join(shown)}." if shown else "There was no gap to fill."


def _beside(rows: Any, output: Path, computed: Mapping[str, Sequence[Any]]) -> Any:
    """Computed columns to the right of the one that they are about."""
    import pandas as pd

    if not computed:
        return rows
    return pd.concat([_joined(rows[[name]], output, *computed.get(name, ())) for name in rows.columns], axis=1)


def _joined(rows: Any, output: Path, *computed: Any) -> Any:
    """Computed columns to the right of the rows', in as many digits as the file is for."""
    import pandas as pd

    from gpbae.cli import files

    parts = [part.set_axis(rows.index, axis=0) for part in computed]
    return pd.concat([rows, *(map(files.readable, parts) if files.is_text(output) else parts)], axis=1)


def _sureness(table: reading.Table, answer: Any, shown: Any, level: float | None) -> dict[str, list[Any]]:
    """How sure the answer is of every output: NAME_lower and NAME_upper of numbers, NAME_probability of labels and of
    yes and no, also where these are 0 and 1; nothing where no level is given."""
    from gpbae.cli import parsing

    if level is None:
        return {}
    low, high = (_whole(side, table, answer) for side in answer.interval(level))
    parts: dict[str, list[Any]] = {name: [] for name in table.columns.outputs}
    for name, kind in _kinds(table, answer).items():
        if kind != "class" and table.columns.kinds.get(name) not in (parsing.BOOLEAN, parsing.CATEGORY):
            parts[name] += [low[[name]].add_suffix("_lower"), high[[name]].add_suffix("_upper")]
        if kind in ("truth", "class"):
            parts[name].append(_probability(table, answer, shown[name]))
    return parts


def _probability(table: reading.Table, answer: Any, shown: Any) -> Any:
    """Of yes, whatever is shown; of labels, that of the label shown."""
    import numpy as np
    import pandas as pd

    from gpbae.cli import parsing

    name, each = shown.name, answer.probabilities(shown.name)
    is_truth = _kinds(table, answer)[name] == "truth" and table.columns.kinds.get(name) != parsing.CATEGORY
    place = np.ones(len(each), int) if is_truth else each.columns.get_indexer(shown)
    return pd.DataFrame({f"{name}{long.PROBABILITY}": each.to_numpy()[np.arange(len(each)), place]})


def _kinds(table: reading.Table, answer: Any) -> dict[str, str]:
    """What every output holds, by its name."""
    return dict(zip(table.columns.outputs, answer.kinds, strict=True))
