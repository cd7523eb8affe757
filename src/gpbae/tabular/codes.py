"""Numbers that instruments and people write for a missing value, left among the measurements."""

import warnings

import numpy as np

from gpbae.errors import GapWarning
from gpbae.tabular.tables import Observations

CODES = (-9, -99, -200, -999, -9999, -99999, 99, 999, 9999, 99999)
FEWEST = 3
FAR, FAR_FOR_A_CODE = 5.0, 1.0


def found(values: np.ndarray) -> tuple[float, int] | None:
    """The smallest or largest of the numbers of a column and how often it occurs, where it repeats, or is a number
    that people write for a gap, and stands apart from the others by more than they spread."""
    values = values[np.isfinite(values)]
    for extreme in (values.min(), values.max()) if len(values) else ():
        count, rest = int(np.sum(values == extreme)), values[values != extreme]
        if count < (1 if extreme in CODES else FEWEST) or len(rest) <= count or not np.ptp(rest) > 0:
            continue
        spread = np.subtract(*np.quantile(rest, [0.95, 0.05]))
        if np.min(np.abs(rest - extreme)) > (FAR_FOR_A_CODE if extreme in CODES and count >= FEWEST else FAR) * spread:
            return float(extreme), count
    return None


def in_words(name: str, value: float, count: int) -> str:
    often = "once" if count == 1 else f"{count} times"
    return f"{name}: {value:g} occurs {often}, far from all other values. If it means missing"


def warn(seen: Observations, stacklevel: int) -> None:
    """Say of each column of numbers, but of pixels, which of them looks like a gap."""
    frame = seen.frame
    for i, name in enumerate(frame.names() if len(frame.event_shape) == 1 else ()):
        is_number = frame.codings is None or "numbers" in frame.codings[i].holds
        if is_number and (one := found(seen.values[:, i])) is not None:
            title = name if frame.columns is not None else f"column {name}"
            warnings.warn(f"{in_words(title, *one)}, fit with NaN in its place.", GapWarning, stacklevel + 1)
