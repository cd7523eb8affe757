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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gpbae.cli import runs, terminal
from gpbae.cli.reading import Table, names
from gpbae.errors import InputError

FOLDER, WISH = "evaluation", "wish.json"
SHOWN = ("mae", "rmse", "smse", "nlpd", "crps", "coverage50", "coverage80", "coverage90", "coverage95")


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
        raise


def _begun(hidden: Hidden, out: Path) -> bool:
    """Whether the same was asked for before; refuse to forget anything else that was, if it can go on."""
    from gpbae.saving import runfolder

    earlier = open_wish(out) if runfolder.has_table(out) else None
    if earlier not in (None, hidden):
        raise InputError(
            f"An evaluation ({', '.join(earlier.ways)} hidden) was begun and not finished; go on first: gpbae resume "
            f"{shlex.quote(str(out))}, or delete {out / FOLDER / WISH}."
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
    """What to do about an evaluation that was begun and has no scores yet; nothing where none is known of."""
    hidden = None
    with contextlib.suppress(InputError):
        hidden = open_wish(run)
    if hidden is None:
        return ""
    begun = f"An evaluation ({', '.join(hidden.ways)} hidden) was begun and not finished"
    return f"{begun}; go on with: gpbae resume {shlex.quote(str(run))}"


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


def evaluate(asked: Asked, hidden: Hidden, out: Path, quiet: bool, log: Callable[[dict], None]) -> None:
    """Show a table for each way of hiding; keep the numbers in evaluation.json and .csv."""
    found_rows, fit = [], _fit(asked, hidden.given)
    stopped = f"Stopped while evaluating; to go on: the same command, or `gpbae resume {shlex.quote(str(out))}`."
    for way in hidden.ways:
        with runs.stoppable(stopped):
            found = _known_or_scored(asked, way, hidden, out / FOLDER, quiet, log)
        found_rows += [row | {"hidden": way, "fit": fit} for row in found.rows()]
        _show(found, way)
    _keep(found_rows, out)
    with contextlib.suppress(InputError):
        if open_wish(out) == hidden:
            (out / FOLDER / WISH).unlink()


def _keep(rows: list[dict[str, Any]], out: Path) -> None:
    """Write all scores together, also those that the same fit got before for other ways of hiding."""
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


def _earlier(out: Path, fit: str) -> list[dict[str, Any]]:
    """The scores that are kept of a fit; what cannot be read is none."""
    from gpbae.saving import storage

    try:
        rows = json.loads(storage.read(out, "evaluation.json")) if (out / "evaluation.json").exists() else []
        return [row for row in rows if row.get("fit") == fit]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def _known_or_scored(asked: Asked, way: str, hidden: Hidden, folder: Path, quiet: bool, log: Callable) -> Any:
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
    with progress.display(f"Evaluation ({way})", not quiet) as show:
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


def _show(found: Any, way: str) -> None:
    from gpbae.report import trust
    from gpbae.scoring import evaluation

    overall = found.overall()
    rows = [(method, *(float(line[name]) for name in SHOWN)) for method, line in overall.iterrows()]
    cells = int(overall["cells"].iloc[0])
    title = f"{cells} hidden cells ({way}); MAE, RMSE and CRPS in standard deviations; last, how many fell inside"
    header = (name.replace("coverage", "in ") + " %" if "cov" in name else name.upper() for name in SHOWN)
    terminal.show(title, ("method", *header), rows)
    for sentence in evaluation.remarks(found.rows()):
        print(sentence)
    mine = [row for row in found.rows() if row["column"] == evaluation.ALL and row["model"] == overall.index[0]]
    for check in trust.kept_promises(mine):
        print(f"{check.name}: {check.found}. {check.advice}".strip())
