"""What to know of an answer before it is relied on: a run that is not to be trusted, rows far from the fitted ones."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpbae.cli import reading, runs

BEYOND, NEW = "beyond", "new"
ROUNDING = 1e-9
"""In units of a group's range: rows at its ends are not beyond them."""


def of_run(model: Any, run: Path) -> str | None:
    """What is wrong with a run whose light is red, and where to look; None for any other."""
    from gpbae.answering import diagnostics
    from gpbae.report import trust

    if not runs.is_sampled(model):
        return None
    frame = diagnostics.table(model.scalars_(), model.kinetic_temperatures_())
    red = [check.name for check in trust.checks(model, frame) if check.light == trust.Light.RED]
    if not red:
        return None
    return f"The light of this run is red ({'; '.join(red)}): not to be relied on yet. Look at: gpbae diagnose {run}"


def strays(model: Any, table: reading.Table) -> Counter[str]:
    """How many rows there are, how many lie in groups never seen, and how many beyond the inputs of their group."""
    from gpbae.priors import NormalPrior
    from gpbae.tabular import tables

    found = Counter(rows=len(table.rows))
    if table.x is None or not runs.is_sampled(model) or isinstance(model.model_.prior, NormalPrior):
        return found
    x = table.x.to_numpy(float)
    group = tables.find_labels(table.groups, model.groups_) if model.grouped_ else np.zeros(len(x), int)
    low, high = _ranges(model)
    is_beyond = ((x < low[group]) | (x > high[group])).any(axis=1) & (group >= 0)
    found.update({BEYOND: int(is_beyond.sum()), NEW: int((group < 0).sum())})
    return found


def _ranges(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest inputs of every group, (G, D)."""
    x, group = np.asarray(model.table_.x) + model.x_location_, np.asarray(model.table_.group)
    shape = (len(model.groups_), x.shape[1])
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    np.minimum.at(low, group, x)
    np.maximum.at(high, group, x)
    slack = ROUNDING * np.maximum(high - low, np.abs(low))
    return low - slack, high + slack


def in_words(found: Mapping[str, int], columns: Any) -> str | None:
    """What strays mean for an answer; None where there are none."""
    where = f"the range of {' and '.join(columns.inputs)} in {'the table' if columns.groups is None else 'their group'}"
    parts = [f"{found[BEYOND]} beyond {where}"] if found[BEYOND] else []
    parts += [f"{found[NEW]} in groups never seen"] if found[NEW] else []
    if not parts:
        return None
    return (
        f"{found[BEYOND] + found[NEW]} of {found['rows']} rows lie outside what was fitted: {', '.join(parts)}. There "
        "answers go back to the prior, that is to a typical row, and intervals widen, the more the farther out."
    )
