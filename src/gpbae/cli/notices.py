"""What a user should know of a table before it is fitted: likelihoods, logarithms, numbers that look like gaps."""

import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpbae.cli import arguments

CODES = (-9, -99, -200, -999, -9999, -99999, 99, 999, 9999, 99999)
"""Numbers that instruments and people write for a missing value."""
FEWEST = 3
FAR, FAR_FOR_A_CODE = 5.0, 1.0


def before_fit(estimator: Any, y: Any) -> Iterator[str]:
    """One sentence each; none for a plain table."""
    if hasattr(estimator, "likelihood") and (words := arguments.likelihoods_in_words(estimator.likelihood, y)):
        yield words
    if getattr(estimator, "transform", None) == "auto" and (names := _logarithms(estimator, y)):
        yield f"Logarithms are modelled of {', '.join(names)}: positive and skewed. Change this with --transform."
    for name in y.columns:
        if (found := _code(y[name])) is not None:
            value, count = found
            yield (
                f"{name}: {value:g} occurs {count} times, far from all other values. If it means missing, pass "
                f"--missing {shlex.quote(f'{name}={value:g}')}."
            )


def _logarithms(estimator: Any, y: Any) -> list[str]:
    from gpbae.tabular import choice, tables, transforms

    seen = tables.observations(y)
    kinds = choice.choose(estimator.likelihood, seen)[0].kinds(seen.values.shape[1])
    real = np.array([kind == "real" for kind in kinds])
    found = transforms.fit("auto", np.where(real, seen.values, np.nan), seen.frame.names())
    return [str(name) for name, t in zip(y.columns, found, strict=False) if isinstance(t, transforms.Log)]


def _code(column: Any) -> tuple[float, int] | None:
    """The smallest or largest value of a column of numbers and how often it occurs, where it repeats and stands apart
    from the others by more than they spread."""
    if column.dtype.kind not in "iuf":
        return None
    values = column.to_numpy(float)
    values = values[np.isfinite(values)]
    for extreme in (values.min(), values.max()) if len(values) else ():
        count, rest = int(np.sum(values == extreme)), values[values != extreme]
        if count < FEWEST or len(rest) <= count or not np.ptp(rest) > 0:
            continue
        apart = np.min(np.abs(rest - extreme)) / np.subtract(*np.quantile(rest, [0.95, 0.05]))
        if apart > (FAR_FOR_A_CODE if extreme in CODES else FAR):
            return float(extreme), count
    return None
