"""Columns of a data frame as numbers, and back: labels become codes, yes and no become 1 and 0, gaps become NaN."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from gpbae.errors import InputError

if TYPE_CHECKING:
    import pandas

MOST_CLASSES = 100


class Coding(NamedTuple):
    """How a column looked: what it held, its type, and the labels behind its codes."""

    holds: Literal["numbers", "whole numbers", "truth", "labels"]
    dtype: str
    labels: tuple[Any, ...] = ()
    ordered: bool = False


def encode(
    frame: "pandas.DataFrame", fitted: tuple[Coding, ...] | None = None
) -> tuple[np.ndarray, tuple[Coding, ...]]:
    """(rows, columns) of float64 and how each column looked; labels are the fitted ones, if there are any."""
    expected = fitted if fitted is not None and len(fitted) == frame.shape[1] else (None,) * frame.shape[1]
    pairs = [
        _encode(frame.iloc[:, i], f"Column {name!r}", coding)
        for i, (name, coding) in enumerate(zip(frame.columns, expected, strict=True))
    ]
    if not pairs:
        return np.zeros((len(frame), 0)), ()
    return np.stack([values for values, _ in pairs], axis=1), tuple(coding for _, coding in pairs)


def decode(values: np.ndarray, codings: tuple[Coding, ...], names: Any, index: Any) -> "pandas.DataFrame":
    """The data frame behind (rows, columns) of numbers, each column in its own type as far as gaps allow."""
    import pandas as pd

    series = [_decode(values[:, i], coding, index) for i, coding in enumerate(codings)]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    frame.columns = names
    return frame


def _encode(series: "pandas.Series", name: str, fitted: Coding | None) -> tuple[np.ndarray, Coding]:
    import pandas as pd

    dtype = str(series.dtype)
    if fitted is not None and series.isna().all():
        return np.full(len(series), np.nan), fitted
    if isinstance(series.dtype, pd.CategoricalDtype):
        labels = tuple(_plain(label, name) for label in series.cat.categories)
        return _codes(series, name, Coding("labels", dtype, labels, bool(series.cat.ordered)), fitted)
    if fitted is not None and fitted.holds == "labels":
        return _codes(series, name, fitted, fitted)
    kind = pd.api.types.infer_dtype(series, skipna=True)
    if kind == "boolean":
        return _numbers(series, name), Coding("truth", dtype)
    if kind == "string":
        return _text(series, name, dtype, fitted)
    whole = kind in ("integer", "unsigned")
    return _numbers(series, name), Coding("whole numbers" if whole else "numbers", dtype)


def _numbers(series: "pandas.Series", name: str) -> np.ndarray:
    kind = getattr(series.dtype, "kind", "O")
    if kind == "c":
        raise InputError(f"{name} must be real; got complex numbers. Pass real and imaginary parts as columns.")
    if kind in "mM":
        raise InputError(f"{name} must hold numbers or labels; got {series.dtype}. Pass days since some date.")
    try:
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), np.float64)
    except (TypeError, ValueError):
        odd = next((cell for cell in series if not is_number(cell)), None)
        raise InputError(
            f"{name} must hold numbers or labels, not both; got {odd!r}. Mark missing cells as NaN."
        ) from None


def _text(series: "pandas.Series", name: str, dtype: str, fitted: Coding | None) -> tuple[np.ndarray, Coding]:
    """Text that spells numbers is numbers; text among numbers is a mistake; anything else is labels."""
    labels = tuple(sorted({str(label) for label in series.dropna()}))
    odd = [label for label in labels if not is_number(label)]
    if not odd:
        return _numbers(series.astype(object), name), Coding("numbers", "float64")
    if 2 * len(odd) < len(labels):
        row = int(np.flatnonzero((series == odd[0]).to_numpy(bool, na_value=False))[0])
        raise InputError(
            f"{name} must hold numbers or labels, not both; got {odd[0]!r} in row {row}. Mark missing cells as NaN."
        )
    return _codes(series, name, Coding("labels", dtype, labels), fitted)


def _codes(series: "pandas.Series", name: str, coding: Coding, fitted: Coding | None) -> tuple[np.ndarray, Coding]:
    """The place of every label among the fitted ones, or its own."""
    if fitted is not None and fitted.holds != "labels":
        raise InputError(f"{name} had {fitted.holds} in the fitted table; got labels such as {coding.labels[0]!r}.")
    labels = coding.labels if fitted is None else fitted.labels
    if len(labels) > MOST_CLASSES:
        raise InputError(
            f"{name} must hold at most {MOST_CLASSES} different labels; got {len(labels)}, such as {labels[0]!r}. "
            "Leave the column out, or pass numbers."
        )
    places = {label: code for code, label in enumerate(labels)}
    cells = [None if blank else cell for cell, blank in zip(series.astype(object), series.isna(), strict=True)]
    if strange := [c for c in cells if c is not None and _plain(c, name) not in places]:
        raise InputError(
            f"{name} has the label {strange[0]!r}, which the fitted table had not; it had "
            f"{', '.join(map(repr, labels[:8]))}. Leave such cells empty (in Python NaN)."
        )
    codes = np.array([np.nan if c is None else places[_plain(c, name)] for c in cells], np.float64)
    return codes, coding._replace(labels=labels)


def _decode(values: np.ndarray, coding: Coding, index: Any) -> "pandas.Series":
    import pandas as pd

    gaps = np.isnan(values)
    if coding.holds == "labels":
        codes = np.where(gaps, -1, values).astype(int)
        if coding.dtype == "category":
            return pd.Series(pd.Categorical.from_codes(codes, list(coding.labels), coding.ordered), index=index)
        cells = [None if code < 0 else coding.labels[code] for code in codes]
        return pd.Series(cells, index=index, dtype=coding.dtype)
    if coding.holds == "numbers":
        return pd.Series(values, index=index, dtype="Float64" if coding.dtype == "Float64" else "float64")
    whole = pd.Series(np.round(values), index=index)
    if coding.holds == "truth":
        truth = whole.astype("boolean")
        return truth if gaps.any() or coding.dtype == "boolean" else truth.astype(bool).astype(coding.dtype)
    if coding.dtype[:1] in "UI":
        return whole.astype(coding.dtype)
    return whole if gaps.any() or coding.dtype == "object" else whole.astype(coding.dtype)


def is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _plain(label: Any, name: str) -> Any:
    """A label that can be written to a file: text, a number, yes or no."""
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, str | int | float | bool):
        raise InputError(f"{name} must have labels that are text or numbers; got {label!r}. Convert them with str.")
    return label
