"""What to know of an answer before it is relied on: a run that is not to be trusted, rows far from the fitted ones,
numbers below zero where there were none."""

import contextlib
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbae.answering import wording
from gpbae.cli import reading, runs, scores
from gpbae.errors import InputError

BEYOND, NEW = "beyond", "new"
ROUNDING = 1e-9
"""In units of a group's range: rows at its ends are not beyond them."""


def of_run(model: Any, run: Path) -> str | None:
    """What is wrong with a run whose light is red, by its chains or its scores on hidden cells, and where to look; None
    for any other.  Scores that cannot be read do not cost the answer."""
    from gpbae.answering import diagnostics
    from gpbae.report import trust

    if not runs.is_sampled(model):
        return None
    frame = diagnostics.table(model.scalars_(), model.kinetic_temperatures_())
    tests: Sequence[Mapping[str, Any]] = ()
    with contextlib.suppress(InputError):
        tests = scores.of_run(run)
    red = [check.name for check in trust.checks(model, frame, tests) if check.light == trust.Light.RED]
    if not red:
        return None
    look = f"gpbae diagnose {shlex.quote(str(run))}"
    return f"The light of this run is red ({'; '.join(red)}): not to be relied on yet. Look at: {look}"


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


def never_negative(model: Any) -> dict[str, str]:
    """Columns of real numbers without a negative one in the fitted table whose answers may be negative all the same,
    and the transform that would keep them from it."""
    from gpbae.tabular import transforms

    if not runs.is_sampled(model):
        return {}
    mask, names = np.asarray(model.table_.mask), model.frame_.names()
    values = model.scaler_.inverse(np.asarray(model.table_.y, np.float64))
    kinds = model.model_.likelihood.kinds(values.shape[1])
    held = [isinstance(t, transforms.Log | transforms.Log1p) for t in model.scaler_.transforms] or [False] * len(names)
    found = {}
    for i, name in enumerate(names):
        seen = values[mask[:, i], i]
        if kinds[i] == "real" and not held[i] and len(seen) and seen.min() >= -ROUNDING * np.ptp(seen):
            found[str(name)] = transforms.never_below(np.where(seen < ROUNDING * np.ptp(seen), 0.0, seen))
    return found


def num_draws_for(interval: float) -> int:
    """Of n draws the outermost hold (n − 1)/(n + 1)."""
    return math.ceil((1 + interval) / (1 - interval) - ROUNDING)


def draws_to_ask_for(model: Any, interval: float | None, usual: int) -> int | None:
    """As many as an interval needs, where an answer would have fewer and the run has more; None for the usual."""
    if interval is None or usual >= min(num_draws_for(interval), model._now()["num_draws"]):
        return None
    return num_draws_for(interval)


def few_draws(model: Any, interval: float, number: int) -> str | None:
    """What to do where so many draws are too few for an interval; None where they are enough."""
    needed = num_draws_for(interval)
    if number >= needed:
        return None
    words = (
        f"{number} draws are too few for {100 * interval:g}% intervals: their ends are the outermost ones, which hold "
        "less, and a filled value may lie beyond them. "
    )
    if number < model._now()["num_draws"]:
        return (
            f"{words}The run has more, but not room for them in one answer: ask about fewer rows, by --from and --to."
        )
    more = f"--set num_samples={-(-needed // model.num_chains_)}"
    return f"{words}Fit with more, in a new folder: gpbae fit … {more} --out NEW"


def below_zero(names: Iterable[str], gaps: Any, shown: Any, lower: Any) -> Counter[str]:
    """How many answers are negative in these columns, only gaps having answers if any are given; and how many lower
    ends of intervals, which every cell has, where these were asked for."""
    found: Counter[str] = Counter()
    for name in names:
        is_answer = np.ones(len(shown), bool) if gaps is None else gaps[name].to_numpy()
        found[name] += int((shown[name].to_numpy(float)[is_answer] < 0).sum())
        found[name] += 0 if lower is None else int((lower[name].to_numpy(float) < 0).sum())
    return found


def below_zero_in_words(found: Mapping[str, int], instead: Mapping[str, str], transform: Any) -> str | None:
    """What to fit with, if answers below zero make no sense; None where there are none."""
    names = [name for name, count in found.items() if count]
    if not names:
        return None
    words = (
        f"{sum(found.values())} values or ends of intervals lie below 0, where no fitted value does: in "
        f"{wording.some(names)}. If they cannot, fit with a logarithm"
    )
    if len(names) > wording.MOST_NAMES:
        return f"{words} (--transform)."
    words += ", in a new folder: gpbae fit … --transform "
    pairs = (
        dict(transform) if isinstance(transform, Mapping) else {} if transform in (None, "none") else {"*": transform}
    )
    pairs |= {name: instead[name] for name in names if not set(name) & set(",=")}  # which the option cannot take
    return f"{words}{shlex.quote(','.join(f'{name}={word}' for name, word in pairs.items()))} --out NEW"
