"""What the cells of a column say: numbers, yes and no, categories, gaps."""

import numpy as np

from gpbae.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "<na>", "-", "?"})
TRUTHS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
NUMBER, WHOLE, BOOLEAN, CATEGORY = "number", "whole number", "boolean", "category"


def read(column, stand_for_missing: tuple[float, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that cells show, NaN for anything else, and where there is a gap."""
    import pandas as pd

    if column.dtype.kind in "biuf":
        numbers = column.to_numpy(float, na_value=np.nan)
        blank = np.isnan(numbers)
    elif column.dtype.kind == "M":
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    else:
        words = text(column).str.lower()
        blank = is_blank(column)
        decimal = words.str.replace(r"^([+-]?\d*),(\d+)$", r"\1.\2", regex=True)
        numbers = pd.to_numeric(decimal.where(~blank), errors="coerce").to_numpy(float, na_value=np.nan)
        truths = words.map(TRUTHS).to_numpy(float, na_value=np.nan)
        numbers = np.where(np.isnan(numbers), truths, numbers)
    for value in stand_for_missing:
        blank = blank | (numbers == value)
    return np.where(blank, np.nan, numbers), blank


def numbers(column, name: str, stand_for_missing: tuple[float, ...] = ()) -> np.ndarray:
    """The numbers of a column, NaN for gaps; a cell that is neither is named."""
    found, blank = read(column, stand_for_missing)
    wrong = np.isnan(found) & ~blank
    if wrong.any():
        refuse(column, name, int(wrong.argmax()))
    return found


def refuse(column, name: str, row: int) -> None:
    raise InputError(
        f"Column {name!r} must hold numbers; got {column.iloc[row]!r} in row {row + 1}. Leave a missing cell empty, or "
        "name the number that stands for it with --missing when fitting."
    )


def is_numeric(column, stand_for_missing: tuple[float, ...] = ()) -> bool:
    """Whether there is a number, or yes or no, and nothing else."""
    found, blank = read(column, stand_for_missing)
    return bool((~blank).any() and not (np.isnan(found) & ~blank).any())


def kind(column, name: str, stand_for_missing: tuple[float, ...] = ()) -> str:
    """NUMBER, WHOLE, BOOLEAN or CATEGORY; a few words among numbers are a slip of the pen, not categories."""
    if column.dtype.kind == "b":
        return BOOLEAN
    found, blank = read(column, stand_for_missing)
    wrong = np.isnan(found) & ~blank
    if 0 < wrong.sum() < 0.5 * (~blank).sum():
        refuse(column, name, int(wrong.argmax()))
    if wrong.any():
        return CATEGORY
    if column.dtype.kind not in "iuf" and not blank.all() and set(text(column)[~blank].str.lower()) <= set(TRUTHS):
        return BOOLEAN
    return WHOLE if _is_whole(column, blank) else NUMBER


def _is_whole(column, blank) -> bool:
    """Written without a decimal point."""
    if blank.all() or column.dtype.kind == "f":
        return False
    return column.dtype.kind in "iu" or not text(column)[~blank].str.contains(r"[.,eE]", regex=True).any()


def typed(column, name: str, what: str, stand_for_missing: tuple[float, ...] = ()):
    """A column as the model takes it: floats with NaN for gaps; whole numbers, yes and no and labels as such."""
    import pandas as pd

    if what == CATEGORY:
        return text(column).where(~is_blank(column), None).to_numpy(object)
    found = numbers(column, name, stand_for_missing)
    if np.isnan(found).any() or what == NUMBER:
        return found
    return pd.array(found.astype(bool if what == BOOLEAN else np.int64))


def text(column):
    return column.astype(str).str.strip()


def is_blank(column) -> np.ndarray:
    return text(column).str.lower().isin(MISSING).to_numpy() | column.isna().to_numpy()
