"""`gpbae fit --evaluate`: known cells hidden, filled in and scored, beside simple rivals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gpbae.cli import terminal
from gpbae.cli.reading import Table, names

SHOWN = ("mae", "rmse", "smse", "nlpd", "crps", "coverage50", "coverage80", "coverage90", "coverage95")


class Hidden(NamedTuple):
    """Which known cells are hidden: `cells`, `blocks`, `rows`, `column:NAME:START`, and how many."""

    ways: list[str]
    share: float
    block_length: int
    seed: int


def ways(text: str) -> list[str]:
    """What to hide, in words; each is scored by itself."""
    found = names(text)
    for one in found:
        if one not in ("cells", "blocks", "rows") and (not one.startswith("column:") or one.count(":") < 2):
            raise typer.BadParameter(
                f"expected cells, blocks, rows or column:NAME:START; got {one!r}.", param_hint="--evaluate"
            )
    return found


def evaluate(estimator: Any, table: Table, hidden: Hidden, out: Path, quiet: bool, log: Callable[[dict], None]) -> None:
    """Show a table for each way of hiding; keep the numbers in evaluation.json and .csv."""
    import pandas as pd

    from gpbae import progress, storage

    rows, frames = [], []
    for way in hidden.ways:
        found = _scored(estimator, table, way, hidden, quiet, log)
        rows += found.rows()
        frames.append(found.table.assign(hidden=way).reset_index())
        _show(found, way)
    content = json.dumps(progress.plain(rows), indent=1) + "\n"
    storage.write(out / "evaluation.json", content.encode())
    storage.write(out / "evaluation.csv", pd.concat(frames).to_csv(index=False).encode())


def _scored(estimator: Any, table: Table, way: str, hidden: Hidden, quiet: bool, log: Callable[[dict], None]) -> Any:
    from gpbae import evaluation, progress

    y = table.y
    holdout = evaluation.Holdout(_how(way, y, table.columns), hidden.share, hidden.block_length, hidden.seed)
    with progress.display(f"Evaluation ({way})", not quiet) as show:
        listener = progress.both(show, lambda event: log({"stage": f"evaluate {way}", **event}))
        copy = type(estimator)(**(estimator.get_params() | {"progress": listener}))
        return evaluation.evaluate(copy, table.x, y, table.groups, holdout, say=listener)


def _how(way: str, y: Any, columns: Any) -> Any:
    """A way of hiding as the library takes it."""
    from gpbae.cli import roles

    if not way.startswith("column:"):
        return way
    _, name, start = way.split(":", 2)
    (name,) = roles.resolve(y, [name])
    return "column", name, roles.position(columns, start)


def _show(found: Any, way: str) -> None:
    overall = found.overall()
    rows = [(method, *(float(line[name]) for name in SHOWN)) for method, line in overall.iterrows()]
    cells = int(overall["cells"].iloc[0])
    title = f"{cells} hidden cells ({way}); MAE, RMSE and CRPS in standard deviations; last, how many fell inside"
    header = (name.replace("coverage", "in ") + " %" if "cov" in name else name.upper() for name in SHOWN)
    terminal.show(title, ("method", *header), rows)
