"""Monotone maps of a column to where a symmetric noise fits it, undone on the way out.

A transform t is a value with `forward`, `inverse` and `log_slope`; densities go back by
log p(y) = log p(t(y)) + log t′(y), and where t does not take y there are none.
"""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from gpbae.errors import InputError

WORDS = ("none", "log", "log1p", "yeo-johnson", "auto")
Values = Float[np.ndarray, "*rows"]
SKEWED = 1.0
"""Skewness from which "auto" takes logarithms of a column that is never negative."""

FEWEST_BELOW = 0.05
"""Share of the values above zero that lie below the unit of `log1p`, however few the zeros."""
MANY_ZEROS, ROUNDING = 0.2, 1e-6
"""Share of zeros from which what is said of a column of log1p gives them too little chance to be passed over; what
counts as zero, in units of the column."""


class Identity(NamedTuple):
    """t(y) = y."""

    def takes(self, y: Values) -> np.ndarray:
        return np.ones(np.shape(y), bool)

    def forward(self, y: Values) -> Values:
        return y

    def inverse(self, t: Values) -> Values:
        return t

    def log_slope(self, y: Values) -> Values:
        return np.zeros_like(y)


class Log(NamedTuple):
    """t(y) = log y, for columns above zero; NaN stays NaN."""

    def takes(self, y: Values) -> np.ndarray:
        return ~(y <= 0)

    def forward(self, y: Values) -> Values:
        if (y <= 0).any():
            raise InputError(f"A column with transform 'log' must be above 0; got {y[y <= 0].flat[0]:g}. "
                             "Use 'yeo-johnson', or mark the cell as missing.")  # fmt: skip
        return np.log(y)

    def inverse(self, t: Values) -> Values:
        return np.exp(np.clip(t, -700.0, 700.0))

    def log_slope(self, y: Values) -> Values:
        return -np.log(y)


class Log1p(NamedTuple):
    """t(y) = log(1 + y/unit), for columns with zeros and nothing below, such as rain; NaN stays NaN.

    Whatever lies below 0 on the way back is 0, so that zeros have a mass; `log_slope` is that of the map before, and a
    density there counts nothing for that mass.
    """

    unit: float

    def takes(self, y: Values) -> np.ndarray:
        return ~(y < 0)

    def forward(self, y: Values) -> Values:
        if (y < 0).any():
            raise InputError(f"A column with transform 'log1p' must not be below 0; got {y[y < 0].flat[0]:g}. "
                             "Use 'yeo-johnson', or mark the cell as missing.")  # fmt: skip
        return np.log1p(y / self.unit)

    def inverse(self, t: Values) -> Values:
        return self.unit * np.expm1(np.clip(t, 0.0, 700.0))

    def log_slope(self, y: Values) -> Values:
        return -np.log(self.unit + y)


class YeoJohnson(NamedTuple):
    """The power transform of Yeo and Johnson (2000) of u = (y − centre)/unit.

    The power lies in [0, 2], where the map is onto the real line, so that every draw has an inverse.
    """

    power: float
    centre: float
    unit: float

    def takes(self, y: Values) -> np.ndarray:
        return np.ones(np.shape(y), bool)

    def forward(self, y: Values) -> Values:
        u = (y - self.centre) / self.unit
        above = _box_cox(np.where(u > 0, u, 0.0), self.power)
        below = -_box_cox(np.where(u > 0, 0.0, -u), 2.0 - self.power)
        return np.where(u > 0, above, below)

    def inverse(self, t: Values) -> Values:
        size = np.abs(t)
        if min(self.power, 2.0 - self.power) >= 1e-8:  # one power for each side: half the work of both sides for all
            power = np.where(t > 0, self.power, 2.0 - self.power)
            return self.centre + self.unit * np.copysign(np.expm1(np.log1p(power * size) / power), t)
        above, below = (_box_cox_inverse(size, p) for p in (self.power, 2.0 - self.power))
        return self.centre + self.unit * np.where(t > 0, above, -below)

    def log_slope(self, y: Values) -> Values:
        u = (y - self.centre) / self.unit
        return np.sign(u) * (self.power - 1.0) * np.log1p(np.abs(u)) - np.log(self.unit)


Transform = Identity | Log | Log1p | YeoJohnson


def _box_cox(u, power):
    """((1 + u)^p − 1)/p for u ≥ 0, log(1 + u) at p = 0."""
    return np.log1p(u) if power < 1e-8 else np.expm1(power * np.log1p(u)) / power


def _box_cox_inverse(t, power):
    return np.expm1(np.minimum(t, 700.0)) if power < 1e-8 else np.expm1(np.log1p(power * t) / power)


# From words to values.


def fit(wanted: Any, values: Float[np.ndarray, "N P"], names: Sequence[str]) -> tuple[Transform, ...]:
    """One transform per column; () where none does anything.

    `wanted` is a word for all columns, or words by the names of columns, which may hold * and ?; "auto" takes
    logarithms of columns that are never negative, are skewed and become less so.
    """
    words = [word(wanted, str(name)) for name in names]
    if isinstance(wanted, Mapping):
        for pattern in wanted:
            if not fnmatch.filter([str(name) for name in names], str(pattern)):
                raise InputError(f"transform names a column {pattern!r}, which y has not; it has {_some(names)}.")
    columns = zip(words, values.T, names, strict=True)
    found = tuple(_fit_one(word, column[~np.isnan(column)], str(name)) for word, column, name in columns)
    return () if all(isinstance(t, Identity) for t in found) else found


def word(wanted: Any, name: str) -> str:
    """What is wanted of one column."""
    if isinstance(wanted, Mapping):
        found = [value for pattern, value in wanted.items() if fnmatch.fnmatchcase(name, str(pattern))]
        wanted = wanted.get(name, found[-1] if found else "none")  # a name with brackets is not a pattern of itself
    wanted = "none" if wanted is None else wanted
    if wanted not in WORDS:
        raise InputError(f"transform must be one of {', '.join(WORDS)}, for all columns or by name; got {wanted!r}.")
    return wanted


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:20]))


def _fit_one(word: str, observed: Values, name: str) -> Transform:
    if word == "auto":
        word = _suited(observed)
    if word == "log":
        if (observed <= 0).any():
            instead = "log1p" if observed.min() == 0 else "yeo-johnson"
            raise InputError(f"transform 'log' needs values above 0; got {observed.min():g} in column {name!r}. "
                             f"Use '{instead}', or mark the cell as missing.")  # fmt: skip
        return Log()
    if word == "log1p":
        if (observed < 0).any():
            raise InputError(f"transform 'log1p' needs values from 0 on; got {observed.min():g} in column {name!r}. "
                             "Use 'yeo-johnson', or mark the cell as missing.")  # fmt: skip
        return _log1p(observed)
    if word == "none" or len(observed) < 3 or not np.ptp(observed) > 0:
        return Identity()
    return _yeo_johnson(observed)


def _suited(observed: Values) -> str:
    """The logarithm that a column without negative values can have, if it is skewed and becomes less so."""
    if len(observed) < 8 or not observed.min() >= 0 or not np.ptp(observed) > 0:
        return "none"
    found = Log() if observed.min() > 0 else _log1p(observed)
    plain = _skewness(observed)
    helps = plain > SKEWED and abs(_skewness(found.forward(observed))) < plain
    return never_below(observed) if helps else "none"


def _skewness(values: Values) -> float:
    """E d³ / (E d²)^{3/2}, NaN where d is rounding; SciPy's own is in a module that takes 0.4 s to import."""
    with np.errstate(over="ignore", invalid="ignore"):
        sd = values.std()
        is_rounding = sd <= np.finfo(float).eps * abs(values.mean())
        return float("nan") if is_rounding else float(np.mean(((values - values.mean()) / sd) ** 3))


def never_below(observed: Values) -> str:
    """The transform whose answers are never below zero, for a column without negative values."""
    return "log" if observed.min() > 0 else "log1p"


def many_zeros(found: Sequence[Transform], values: Float[np.ndarray, "N P"], names: Sequence[str]) -> dict[str, float]:
    """Columns of log1p of which a fifth or more is 0, and their share of zeros: no likelihood of ours has a mass there,
    so that what lies below zero is drawn as zero, which is too seldom."""
    shares = {str(name): _share_of_zeros(column, transform.unit)
              for transform, column, name in zip(found, values.T, names, strict=False)
              if isinstance(transform, Log1p)}  # fmt: skip
    return {name: share for name, share in shares.items() if share >= MANY_ZEROS}


def _share_of_zeros(column: Values, unit: float) -> float:
    """Among known cells; those of a fitted table are rounded."""
    known = column[~np.isnan(column)]
    return float(np.mean(known < ROUNDING * unit)) if len(known) else 0.0


def _log1p(observed: Values) -> Log1p:
    """In units of what a column holds where it is not zero: of little where zeros are few, so that a single one, which
    is a defect or a detection limit, leaves the others their logarithms; of the median where they are half, as of rain.
    """
    positive = observed[observed > 0]
    level = np.clip(np.mean(observed == 0), FEWEST_BELOW, 0.5)
    return Log1p(float(np.quantile(positive, level)) if len(positive) else 1.0)


def _yeo_johnson(observed: Values) -> YeoJohnson:
    """The power with the largest likelihood of a normal column."""
    from scipy import optimize

    centre, unit = float(np.median(observed)), float(np.std(observed))

    def loss(power: float) -> float:
        t = YeoJohnson(power, centre, unit)
        spread = max(float(np.var(t.forward(observed))), 1e-300)
        return 0.5 * len(observed) * np.log(spread) - float(np.sum(t.log_slope(observed)))

    return YeoJohnson(float(optimize.minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded").x), centre, unit)
