"""Arrays and data frames at the door: checked once, in one place, and handed back in the type they came in."""

import re
from typing import Any, NamedTuple

import numpy as np

from gpbae.errors import InputError
from gpbae.tabular import columns as table_columns
from gpbae.tabular.transforms import Identity, Transform

SQUARABLE, SQUARABLE_IN_SINGLE = 1e150, 1e15
"""Numbers and differences beyond this, or below its inverse, have squares that are infinite or zero; beyond the second,
sums of squares in single precision may be."""

LARGEST_ARRANGEMENT = 500_000_000
"""Rows of all groups, each padded to the longest: two gigabytes of numbers."""


DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
"""How text begins that is a date."""

EVENT_SHAPE = "gpbae event shape"
"""Among the `attrs` of a data frame whose columns are the pixels of an image: its shape."""


class Frame(NamedTuple):
    """How an observation table looked: trailing shape, column names, index and the codings of a data frame's columns
    (None for arrays, and for data frames of plain numbers)."""

    event_shape: tuple[int, ...]
    columns: Any = None
    index: Any = None
    codings: tuple[table_columns.Coding, ...] | None = None

    def names(self) -> list[str]:
        """A name for each of the P cells of a row: the columns of a data frame, numbers otherwise."""
        if self.columns is not None:
            return [str(name) for name in self.columns]
        return [str(i) for i in range(int(np.prod(self.event_shape)))]

    def restore(self, values: np.ndarray, index: Any = None) -> Any:
        """Numbers about the cells, (rows, P), in the user's kind of table."""
        if self.columns is None:
            return values.reshape(values.shape[0], *self.event_shape)
        import pandas as pd

        return self._shaped(pd.DataFrame(values, columns=self.columns, index=index))

    def decode(self, values: np.ndarray, index: Any = None) -> Any:
        """Values that cells can take, (rows, P), in the user's own types: labels for codes, say."""
        if self.columns is None or self.codings is None:
            return self.restore(values, index)
        return self._shaped(table_columns.decode(values, self.codings, self.columns, index))

    def _shaped(self, frame: Any) -> Any:
        if len(self.event_shape) > 1:
            frame.attrs[EVENT_SHAPE] = self.event_shape
        return frame


class Observations(NamedTuple):
    """Cells (rows, P), what is observed, and the user's type."""

    values: np.ndarray
    mask: np.ndarray
    frame: Frame


class Scaler(NamedTuple):
    """A transform of each column (none at all if empty), then its location and scale; undone on the way out."""

    location: np.ndarray
    scale: np.ndarray
    transforms: tuple[Transform, ...] = ()

    @property
    def is_linear(self) -> bool:
        return all(isinstance(t, Identity) for t in self.transforms)

    def takes(self, values: np.ndarray) -> np.ndarray:
        """Which cells have a place in the transformed column: of a logarithm, those above zero."""
        return self._each("takes", values) if self.transforms else np.ones(values.shape, bool)

    def forward(self, values: np.ndarray) -> np.ndarray:
        return (self._each("forward", values) - self.location) / self.scale

    def inverse(self, values: np.ndarray) -> np.ndarray:
        return self._each("inverse", values * self.scale + self.location)

    def log_slope(self, values: np.ndarray) -> np.ndarray:
        """log of the derivative of `forward`, cell by cell."""
        slope = self._each("log_slope", values) if self.transforms else np.zeros_like(values)
        return slope - np.log(self.scale)

    def _each(self, step: str, values: np.ndarray) -> np.ndarray:
        """One step of every column's transform; columns are the last axis."""
        if not self.transforms:
            return values
        columns = [getattr(t, step)(values[..., i]) for i, t in enumerate(self.transforms)]
        return np.stack(columns, axis=-1)


def fit_scaler(values: np.ndarray, mask: np.ndarray, active: bool | np.ndarray,
               transforms: tuple[Transform, ...] = ()) -> Scaler:  # fmt: skip
    """Mean and standard deviation of the observed cells of active columns, transformed first; a constant or empty
    column is only shifted, unless a step of 1 is lost beside its value."""
    num_columns = values.shape[1]
    values = Scaler(np.zeros(num_columns), np.ones(num_columns), transforms)._each("forward", values)
    active = np.broadcast_to(active, (num_columns,))
    count = np.maximum(mask.sum(axis=0), 1)
    observed = np.where(mask, values, 0.0)
    _, exponent = np.frexp(np.abs(observed).max(axis=0))  # squares of 1e200 overflow; a power of two costs no digit
    units = np.ldexp(observed, -exponent)
    centre = units.sum(axis=0) / count
    deviation = np.where(mask, units - centre, 0.0)
    location = np.ldexp(centre, exponent)
    scale = np.ldexp(np.sqrt((deviation**2).sum(axis=0) / count), exponent)
    tiny = 1e-12 * np.maximum(np.abs(location), 1e-290)
    scale = np.where(scale > tiny, scale, np.maximum(1.0, tiny))
    return Scaler(np.where(active, location, 0.0), np.where(active, scale, 1.0), transforms)


def check_scaled(scaled: np.ndarray, mask: np.ndarray) -> None:
    """Cells in units of the fitted table, which networks see in single precision."""
    if (far := mask & ~(np.abs(scaled) < SQUARABLE_IN_SINGLE)).any():
        row, column = np.argwhere(far)[0]
        raise InputError(
            f"y must lie within {SQUARABLE_IN_SINGLE:g} units of the fitted table; got {scaled[row, column]:g} in row "
            f"{row}, column {column}. Check its units, or use standardise=True."
        )


def column_names(a: Any) -> list[str] | None:
    """Names of a data frame's columns, as text; None for anything else."""
    return [str(name) for name in a.columns] if hasattr(a, "columns") else None


def in_fitted_order(a: Any, names: list[str] | None, what: str) -> Any:
    """A data frame with its columns as in fit, whatever their order; arrays as they are."""
    given = column_names(a)
    if given is None or names is None or given == names:
        return a
    if missing := [name for name in names if name not in given]:
        raise InputError(
            f"{what} must have the columns of fit; missing {', '.join(missing)}. Got {', '.join(given)}: "
            "rename them, or pass an array to go by position."
        )
    return a.iloc[:, [given.index(name) for name in names]]


def row_index(a: Any) -> Any:
    """The index of a data frame, None for anything else."""
    return a.index if hasattr(a, "columns") else None


def observations(y: Any, event_shape: tuple[int, ...] | None = None, names: list[str] | None = None,
                 codings: tuple[table_columns.Coding, ...] | None = None) -> Observations:  # fmt: skip
    """Check y: numbers of shape (rows, ...), NaN for missing; a data frame may also hold labels, and yes or no."""
    y = in_fitted_order(y, names, "y")
    columns, index = getattr(y, "columns", None), row_index(y)
    values, codings = _cells(y, codings)
    if values.ndim == 1 and columns is None:
        values = values[:, None]
    if values.ndim < 2 or values.shape[0] == 0 or values[0].size == 0:
        raise InputError(f"y must have at least one row and one column; got shape {np.shape(y)}. Pass (rows, columns).")
    shape = values.shape[1:]
    if columns is not None and (told := event_shape or getattr(y, "attrs", {}).get(EVENT_SHAPE)) is not None:
        shape = tuple(told) if np.prod(told) == shape[0] else shape
    if event_shape is not None and shape != event_shape:
        raise InputError(f"y must have rows of shape {event_shape} as in fit; got {shape}.")
    frame = Frame(shape, columns, index, codings)
    values = values.reshape(values.shape[0], -1)
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise InputError(
            f"y must be finite or NaN; got an infinity in row {row}, column {frame.names()[column]}. Mark it as NaN."
        )
    if (np.abs(values) > SQUARABLE).any():
        row, column = np.argwhere(np.abs(values) > SQUARABLE)[0]
        raise InputError(
            f"y must lie within ±{SQUARABLE:g}; got {values[row, column]:g} in row {row}, column {column}. Rescale it."
        )
    seen = Observations(values, ~np.isnan(values), frame)
    if event_shape is None:
        _check_spread(seen)
    return seen


def _check_spread(seen: Observations) -> None:
    """Columns to learn from are constant or vary by something whose square is a number."""
    high = np.max(seen.values, axis=0, where=seen.mask, initial=-np.inf)
    low = np.min(seen.values, axis=0, where=seen.mask, initial=np.inf)
    if (bad := (high > low) & (high - low < 1 / SQUARABLE)).any():
        column = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"y must vary by at least {1 / SQUARABLE:g} or not at all; got a spread of {high[column] - low[column]:g} "
            f"in column {column}. Change its units."
        )


def _cells(y: Any, fitted: tuple[table_columns.Coding, ...] | None):
    """Numbers and how the columns looked; None where they were plain numbers."""
    is_plain = (
        not hasattr(y, "iloc")
        or not hasattr(y, "columns")
        or all(isinstance(d, np.dtype) and d.kind == "f" for d in y.dtypes)
    )
    if is_plain or len(set(y.columns)) != len(y.columns):
        return _numbers(y, "y"), fitted if fitted is not None and hasattr(y, "columns") else None
    return table_columns.encode(y, fitted)


def inputs(
    x: Any, num_rows: int | None = None, num_columns: int | None = None, names: list[str] | None = None
) -> np.ndarray:
    """Check x: finite numbers of shape (rows, D)."""
    x = in_fitted_order(x, names, "x")
    values = _numbers(x, "x")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] == 0 or values.shape[0] == 0:
        raise InputError(f"x must have shape (rows, inputs); got {np.shape(x)}.")
    if num_rows is not None and values.shape[0] != num_rows:
        raise InputError(f"x and y must have the same number of rows; got {values.shape[0]} and {num_rows}.")
    if num_columns is not None and values.shape[1] != num_columns:
        raise InputError(f"x must have {num_columns} columns as in fit; got {values.shape[1]}.")
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InputError(f"x must be finite; got {values[row, column]} in row {row}, column {column}. Drop that row.")
    size, spread = np.abs(values).max(axis=0), np.ptp(np.clip(values, -SQUARABLE, SQUARABLE), axis=0)
    if (bad := (size > SQUARABLE) | ((spread > 0) & (spread < 1 / SQUARABLE))).any():
        column = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"x must have distances whose squares are numbers; got {size[column]:g} at most and a spread of "
            f"{spread[column]:g} in column {column}. Change its units."
        )
    return values


def _numbers(a: Any, name: str) -> np.ndarray:
    """A float64 array of numbers, or one sentence."""
    if hasattr(a, "columns") and len(set(a.columns)) != len(a.columns):
        raise InputError(f"{name} must have distinct column names; got {list(a.columns)}. Rename the repeated ones.")
    if np.ma.isMaskedArray(a):
        a = np.ma.filled(np.ma.asarray(a).astype(np.float64), np.nan)
    try:
        array = np.asarray(a)
    except InputError:  # of what has a sentence of its own
        raise
    except ValueError:
        raise InputError(f"{name} must have rows of one length; got rows of several. Fill the gaps with NaN.") from None
    if array.dtype.kind == "c":
        raise InputError(f"{name} must be real; got complex numbers. Pass real and imaginary parts as columns.")
    if array.dtype.kind in "mM":
        raise InputError(
            f"{name} must hold numbers; got {array.dtype} data. Pass e.g. (t - t0) / np.timedelta64(1, 'D')."
        )
    try:
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_number(array, name) from None


def _no_number(array: np.ndarray, name: str) -> InputError:
    """Of dates as text, how to make numbers of them; gaps are for y alone."""
    odd = next((cell for cell in array.astype(object).flat if not table_columns.is_number(cell)), array.dtype)
    if DATE.match(str(odd)):
        return InputError(
            f"{name} must hold numbers; got the date {str(odd)!r}. Pass e.g. (t - t.min()) / np.timedelta64(1, 'D') "
            "of t = pandas.to_datetime(dates)."
        )
    gaps = "without gaps" if name == "x" else "NaN for missing"
    return InputError(f"{name} must hold numbers, {gaps}; got {odd!r:.60}.")


class Groups(NamedTuple):
    """Labels as fitted and the code of every row; −1 for a label never seen."""

    labels: np.ndarray
    codes: np.ndarray


def group_codes(groups: Any, num_rows: int) -> Groups:
    """Distinct labels in order of appearance."""
    if groups is None:
        return Groups(np.zeros(1, dtype=np.int64), np.zeros(num_rows, dtype=np.int32))
    labels = np.asarray(groups).reshape(-1)
    if labels.shape[0] != num_rows:
        raise InputError(f"groups must have one label per row; got {labels.shape[0]} labels for {num_rows} rows.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError("groups must not hold NaN; give rows without a group a label of their own.")
    if labels.dtype.kind == "O":
        if any(label is None or label != label for label in labels):  # NaN is unlike itself
            raise InputError("groups must not hold blanks; give rows without a group a label of their own.")
        labels = np.array([_name(label) for label in labels])
    unique, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return Groups(unique[order], rank[inverse].astype(np.int32))


def find_labels(labels: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Where each label stands among the fitted ones, −1 for a label never seen."""
    places = {_name(label): i for i, label in enumerate(fitted)}
    return np.array([places.get(_name(label), -1) for label in labels])


def _name(label: Any) -> str:
    """A label as text.  Equal numbers are one label, 1 and 1.0; text stays as it is, "1" and "1.0" are two."""
    is_whole = isinstance(label, float | np.floating) and label.is_integer()
    return str(int(label) if is_whole else label)


def arrange(codes: np.ndarray, num_groups: int) -> np.ndarray:
    """(G, n) rows of each group, padded with the number of rows."""
    counts = np.bincount(codes, minlength=num_groups)
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    column = np.arange(codes.size) - np.repeat(starts, counts)
    shape = (num_groups, max(int(counts.max(initial=0)), 1))
    if shape[0] * shape[1] > LARGEST_ARRANGEMENT:
        raise InputError(
            f"{num_groups} groups of up to {shape[1]} rows are too uneven to be held side by side; fit the longest "
            "ones apart, or cut them into several groups."
        )
    table = np.full(shape, codes.size, dtype=np.int32)
    table[codes[order], column] = order
    return table
