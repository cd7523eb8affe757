"""`gpbae fit --evaluate` and `gpbae evaluate`: known cells hidden, filled in and scored, beside simple rivals.

    evaluation/wish.json    what was asked for, for `gpbae resume`
    evaluation/NAME/        the fit to what is left, as it goes; removed once it is scored
    evaluation/NAME.json    its scores
    evaluation.json, .csv   all scores together

NAME depends on all that the scores depend on: data, model and hidden cells.
"""

import contextlib
import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gpbae.cli import runs, terminal
from gpbae.cli.reading import Table, names
from gpbae.errors import InputError

FOLDER, WISH = "evaluation", "wish.json"
FILES = (FOLDER, "evaluation.json", "evaluation.csv")
"""In the folder of a run."""


class Hidden(NamedTuple):
    """Which known cells are hidden: `cells`, `blocks`, `rows`, `column:NAME:START`, and how many; `given` are the names
    of arguments that the user has set, which hold also for the cells that are left."""

    ways: list[str]
    share: float
    block_length: int
    seed: int
    given: list[str]


def ways(text: str) -> list[str]:
    """What to hide, in words; each is scored by itself."""
    found = names(text)
    for one in found:
        if one not in ("cells", "blocks", "rows") and (not one.startswith("column:") or one.count(":") < 2):
            raise typer.BadParameter(
                f"expected cells, blocks, rows or column:NAME:START; got {one!r}.", param_hint="--evaluate"
            )
    return found


class Asked(NamedTuple):
    """What is evaluated: a model, a table as it takes it, and how its columns are read."""

    estimator: Any
    x: Any
    y: Any
    groups: Any
    columns: Any


@contextlib.contextmanager
def wished(hidden: Hidden, out: Path) -> Iterator[None]:
    """Keep what is asked for while a fit goes on that may be stopped; a fit that is refused has asked for nothing."""
    from gpbae.saving import storage

    if not hidden.ways:
        yield
        return
    begun = _begun(hidden, out)
    storage.make_folder(out / FOLDER)
    storage.write(out / FOLDER / WISH, (json.dumps(hidden._asdict()) + "\n").encode())
    try:
        yield
    except InputError:
        if not begun:
            (out / FOLDER / WISH).unlink()
            with contextlib.suppress(OSError):  # it has scores of earlier fits
                (out / FOLDER).rmdir()
        raise


def _begun(hidden: Hidden, out: Path) -> bool:
    """Whether the same was asked for before; refuse to forget anything else that was, if it can go on."""
    from gpbae.saving import runfolder

    earlier = open_wish(out) if runfolder.has_table(out) else None
    if earlier not in (None, hidden):
        begun = f"An evaluation ({', '.join(earlier.ways)} hidden)"
        if _is_running(out):
            raise InputError(f"{begun} is running; wait until it is done, or stop it.")
        raise InputError(
            f"{begun} was begun and not finished; go on first: gpbae resume {shlex.quote(str(out))}, or delete "
            f"{out / FOLDER / WISH}."
        )
    return earlier is not None


def open_wish(out: Path) -> Hidden | None:
    """What was asked for and has no scores yet, or None."""
    from gpbae.saving import storage

    file = out / FOLDER / WISH
    if not file.exists():
        return None
    try:
        return Hidden(**json.loads(storage.read(file.parent, file.name)))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{file} is damaged; delete it, then fit again with --evaluate.") from error


def unfinished(run: Path) -> str:
    """What to do about an evaluation that has no scores yet, whether it runs or was stopped; nothing where none is
    known of."""
    hidden = None
    with contextlib.suppress(InputError):
        hidden = open_wish(run)
    if hidden is None:
        return ""
    begun, folder = f"An evaluation ({', '.join(hidden.ways)} hidden)", shlex.quote(str(run))
    if _is_running(run):
        return (
            f"{begun} was running when this was written; once it is done, its scores come with: gpbae report {folder}"
        )
    return f"{begun} was interrupted; go on with: gpbae resume {folder}, then gpbae report {folder}"


def _is_running(run: Path) -> bool:
    """Whether a process evaluates a run, or fits it first."""
    from gpbae.saving import storage

    return storage.is_locked(run / FOLDER) or storage.is_locked(run)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process evaluates, and others can see that it does."""
    from gpbae.saving import storage

    storage.make_folder(folder)
    lock = storage.Lock(folder)
    try:
        yield
    finally:
        lock.release()


def check(table: Table | Asked, hidden: Hidden) -> None:
    """Refuse to hide what cannot be hidden, before the work."""
    from gpbae.tabular import OnDisk, tables

    if not hidden.ways:
        return
    if isinstance(table.y, OnDisk):
        raise InputError(
            f"An evaluation hides cells of a table in memory; the {len(table.y)} rows of this run stay on disk. Fit a "
            "file of some of them with --evaluate."
        )
    seen = tables.observations(table.y)
    x = None if table.x is None else tables.inputs(table.x, len(seen.values))
    codes = tables.group_codes(table.groups, len(seen.values)).codes
    for way in hidden.ways:
        _holdout(way, hidden, table.y, table.columns).choose(seen.mask, x, codes, seen.frame.names())


def course(hidden: Hidden | None, with_fit: bool = True) -> Any:
    """The course of a fit that evaluations follow, or of evaluations alone; None for a fit alone."""
    from gpbae.processes import progress

    return progress.Course.of(with_fit + len(hidden.ways)) if hidden is not None and hidden.ways else None


def evaluate(asked: Asked, hidden: Hidden, out: Path, quiet: bool, log: Callable[[dict], None], course: Any) -> None:
    """Show a table for each way of hiding; keep the numbers in evaluation.json and .csv; then say where rivals did
    as well."""
    from gpbae.scoring import scoreboard

    with _alone(out / FOLDER):
        rows = _kept(_scored(asked, hidden, out, quiet, log, course), out)
        with contextlib.suppress(InputError):
            if open_wish(out) == hidden:
                (out / FOLDER / WISH).unlink()
    for sentence in scoreboard.against_rivals(rows, type(asked.estimator).__name__):
        print(sentence.replace(" RUN ", f" {shlex.quote(str(out))} "))


def _scored(asked: Asked, hidden: Hidden, out: Path, quiet: bool, log: Callable, course: Any) -> list[dict[str, Any]]:
    """Scores of every way of hiding, shown as they come."""
    fit, first = _fit(asked, hidden.given), course.total - len(hidden.ways)
    stopped = f"Stopped while evaluating; to go on: the same command, or `gpbae resume {shlex.quote(str(out))}`."
    rows = []
    for i, way in enumerate(hidden.ways):
        with runs.stoppable(stopped):
            found = _known_or_scored(asked, way, hidden, out / FOLDER, quiet, log, course.later(first + i))
        rows += [row | {"hidden": way, "fit": fit} for row in found.rows()]
        _show(found, way, asked)
        _show_untried(asked, _holdout(way, hidden, asked.y, asked.columns))
    return rows


def _kept(rows: list[dict[str, Any]], out: Path) -> list[dict[str, Any]]:
    """All scores together, also those that the same fit got before for other ways of hiding, written down."""
    import pandas as pd

    from gpbae.processes import progress
    from gpbae.saving import storage
    from gpbae.scoring import evaluation

    fit, new = rows[0]["fit"], {row["hidden"] for row in rows}
    rows = [row for row in _earlier(out, fit) if row["hidden"] not in new] + rows
    frames = []
    for way in dict.fromkeys(row["hidden"] for row in rows):
        found = evaluation.Evaluation.of_rows("", [row for row in rows if row["hidden"] == way])
        frames.append(found.table.assign(hidden=way).reset_index())
    storage.write(out / "evaluation.json", (json.dumps(progress.plain(rows), indent=1) + "\n").encode())
    storage.write(out / "evaluation.csv", pd.concat(frames).to_csv(index=False).encode())
    return rows


def of_run(run: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of all tests on hidden cells, none if there was no test."""
    from gpbae.saving import storage

    file = run / "evaluation.json"
    if not file.exists():
        return ()
    content = storage.read(file.parent, file.name)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{file} is not JSON: damaged; remove it, or evaluate again.") from None


def _earlier(out: Path, fit: str) -> list[dict[str, Any]]:
    """The scores that are kept of a fit; what cannot be read is none."""
    from gpbae.saving import storage

    try:
        rows = json.loads(storage.read(out, "evaluation.json")) if (out / "evaluation.json").exists() else []
        return [row for row in rows if row.get("fit") == fit]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def _known_or_scored(
    asked: Asked, way: str, hidden: Hidden, folder: Path, quiet: bool, log: Callable, course: Any
) -> Any:
    """What one way of hiding gives, from its file if it has been found before."""
    from gpbae.cli import arguments
    from gpbae.processes import progress
    from gpbae.saving import storage
    from gpbae.scoring import evaluation

    storage.make_folder(folder)
    holdout = _holdout(way, hidden, asked.y, asked.columns)
    name = _name(asked, way, holdout, hidden.given)
    scores, run = folder / f"{name}.json", folder / name
    if scores.exists():
        return _known(scores, type(asked.estimator).__name__)
    title = course.title(type(asked.estimator).__name__, f"without the hidden {holdout.words}")
    with progress.display(title, not quiet, course) as show:
        listener = progress.both(show, lambda event: log({"stage": f"evaluate {way}", **event}))
        copy = type(asked.estimator)(**(asked.estimator.get_params() | {"progress": listener}))
        found = evaluation.evaluate(copy, asked.x, asked.y, asked.groups, holdout, say=listener, run_dir=run,
                                    suited=lambda left: arguments.once_more(copy, hidden.given, left))  # fmt: skip
    storage.write(scores, (json.dumps(progress.plain(found.rows())) + "\n").encode())
    shutil.rmtree(run, ignore_errors=True)
    return found


def _known(file: Path, model: str) -> Any:
    from gpbae.saving import storage
    from gpbae.scoring import evaluation

    try:
        return evaluation.Evaluation.of_rows(model, json.loads(storage.read(file.parent, file.name)))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise InputError(f"{file} is damaged; delete it, then run the same command again.") from error


def _name(asked: Asked, way: str, holdout: Any, given: list[str]) -> str:
    """Of a folder for this model, this table and these hidden cells."""
    return f"{way.split(':')[0]}-{_fit(asked, given, holdout)}"


def _fit(asked: Asked, given: list[str], holdout: Any = "") -> str:
    """What tells this model of this table, or of what a holdout leaves of it, from all others."""
    from gpbae import __version__
    from gpbae.saving import settings

    silent = type(asked.estimator)(**(asked.estimator.get_params() | {"progress": False}))
    config = settings.text(silent, asked.x, asked.y)
    data = settings.fingerprint(settings.table(asked.x, asked.y, asked.groups))
    return hashlib.sha256(f"{__version__}{holdout}{given}{data}".encode() + config).hexdigest()[:12]


def _holdout(way: str, hidden: Hidden, y: Any, columns: Any) -> Any:
    """A way of hiding as the library takes it."""
    from gpbae.cli import roles
    from gpbae.scoring import evaluation

    how, start = way, ""
    if way.startswith("column:"):
        _, name, start = way.split(":", 2)
        how = ("column", *roles.resolve(y, [name]), roles.position(columns, start))
    return evaluation.Holdout(how, hidden.share, hidden.block_length, hidden.seed, start)


def _show_untried(asked: Asked, holdout: Any) -> None:
    """Of images a pixel more or less means nothing."""
    from gpbae.cli import untried

    if asked.columns.image is not None:
        return
    for sentence in untried.in_words(untried.Known.of(asked.x, asked.y, asked.groups), holdout):
        print(sentence)


def _show(found: Any, way: str, asked: Asked) -> None:
    from gpbae.report import circumstances, trust
    from gpbae.scoring import scoreboard

    rows = found.rows()
    for board in scoreboard.boards(rows):
        what = f"{board.cells} hidden {'labels' if board.of_labels else 'cells'} ({way})"
        units = "" if board.of_labels else "; MAE, RMSE and CRPS in standard deviations; last, how many fell inside"
        lines = [(row["model"], *("" if v != v else v for v in line)) for row, line in board.lines]
        terminal.show(what + units, ("method", *board.header), lines)
    mine = [row for row in rows if row["model"] == found.model]
    kept = trust.kept_promises(mine, circumstances.of_wish(asked.estimator, asked.y))
    promises = [f"{check.name}: {check.found}. {check.advice}".strip() for check in kept]
    for sentence in (*scoreboard.impossible(rows), *scoreboard.sure_and_wrong(rows), *promises):
        print(sentence)
