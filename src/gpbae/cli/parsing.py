"""What the cells of a column say: numbers, yes and no, categories, gaps."""

import shlex

import numpy as np

from gpbae.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "<na>", "-", "?"})
TRUTHS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
NUMBER, WHOLE, BOOLEAN, CATEGORY = "number", "whole number", "boolean", "category"
LINE = "line"
"""The name of an index that counts the lines of a file; other tables count rows, from 0."""
MOST_WORDS, FEW = 3, 0.05
Code = float | str
"""What stands for a gap: a number, however it is written, or a word in small letters."""


def code(text: str) -> Code:
    """A code as a user writes it."""
    try:
        return float(text)
    except ValueError:
        return text.strip().lower()


def read(column, stand_for_missing: tuple[Code, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that cells show, NaN for anything else, and where there is a gap."""
    import pandas as pd

    if column.dtype.kind in "biuf":
        numbers = column.to_numpy(float, na_value=np.nan)
        blank = np.isnan(numbers)
    elif column.dtype.kind == "M":
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    else:
        words = text(column).str.lower()
        codes = [value for value in stand_for_missing if isinstance(value, str)]
        blank = words.isin([*MISSING, *codes]).to_numpy() | column.isna().to_numpy()
        decimal = words.str.replace(r"^([+-]?\d*),(\d+)$", r"\1.\2", regex=True)
        numbers = pd.to_numeric(decimal.where(~blank), errors="coerce").to_numpy(float, na_value=np.nan)
        truths = words.map(TRUTHS).to_numpy(float, na_value=np.nan)
        numbers = np.where(np.isnan(numbers), truths, numbers)
    for value in stand_for_missing:
        blank = blank | ((numbers == value) if isinstance(value, float) else False)
    return np.where(blank, np.nan, numbers), blank


def numbers(column, name: str, stand_for_missing: tuple[Code, ...] = ()) -> np.ndarray:
    """The numbers of a column, NaN for gaps; a cell that is neither is named."""
    found, blank = read(column, stand_for_missing)
    if (wrong := np.isnan(found) & ~blank).any():
        refuse(column, name, wrong)
    return found


def refuse(column, name: str, wrong: np.ndarray) -> None:
    """Name the first word among numbers, and say what to do about all of them."""
    words = list(dict.fromkeys(text(column)[wrong]))[:MOST_WORDS]
    what = "numbers" if _shows_numbers(column, read(column)[0]).any() else "yes or no"
    more = f", one of {wrong.sum()} such cells" if wrong.sum() > 1 else ""
    options = " ".join(f"--missing {shlex.quote(word)}" for word in words)
    raise InputError(
        f"Column {name!r} must hold {what}; got {words[0]!r} {place(column, int(wrong.argmax()))}{more}. If it means "
        f"missing, fit with {options}; else mend the cell, or leave the column out with --exclude {shlex.quote(name)}."
    )


def place(column, position: int) -> str:
    """Where a cell stands, as a reader of the file counts: its line, or its row."""
    if getattr(column.index, "name", None) == LINE:
        return f"on line {column.index[position]}"
    return f"in row {column.index[position] + 1}"


def is_numeric(column, name: str, stand_for_missing: tuple[Code, ...] = ()) -> bool:
    """Whether there are numbers, or yes and no; False for words, and for nothing but gaps."""
    return not read(column, stand_for_missing)[1].all() and kind(column, name, stand_for_missing) != CATEGORY


def kind(column, name: str, stand_for_missing: tuple[Code, ...] = ()) -> str:
    """NUMBER, WHOLE, BOOLEAN or CATEGORY; words among numbers are refused, for they are a slip of the pen or a code for
    missing: with them the column would be lost, or every number a label of its own."""
    if column.dtype.kind == "b":
        return BOOLEAN
    if column.dtype.kind == "M":
        return CATEGORY
    found, blank = read(column, stand_for_missing)
    wrong = np.isnan(found) & ~blank
    if _are_slips(column, found, wrong):
        refuse(column, name, wrong)
    if wrong.any():
        return CATEGORY
    if column.dtype.kind not in "iuf" and not blank.all() and set(text(column)[~blank].str.lower()) <= set(TRUTHS):
        return BOOLEAN
    return WHOLE if _is_whole(column, blank) else NUMBER


def _are_slips(column, found: np.ndarray, wrong: np.ndarray) -> bool:
    """Whether words are fewer than numbers, counted by cell or by what is written there, or few beside yes and no."""
    if not wrong.any():
        return False
    shown = _shows_numbers(column, found)
    if not shown.any():
        return bool(wrong.sum() < FEW * np.isfinite(found).sum())
    return bool(wrong.sum() < shown.sum() or text(column)[wrong].nunique() < len(np.unique(found[shown])))


def _shows_numbers(column, found: np.ndarray) -> np.ndarray:
    """Where a cell is a number, not yes or no."""
    return ~np.isnan(found) & ~text(column).str.lower().isin(list(TRUTHS)).to_numpy()


def _is_whole(column, blank) -> bool:
    """Written without a decimal point."""
    if blank.all() or column.dtype.kind == "f":
        return False
    return column.dtype.kind in "iu" or not text(column)[~blank].str.contains(r"[.,eE]", regex=True).any()


def typed(column, name: str, what: str, stand_for_missing: tuple[Code, ...] = ()):
    """A column as the model takes it: floats with NaN for gaps; whole numbers, yes and no and labels as such."""
    import pandas as pd

    if what == CATEGORY:
        return text(column).where(~read(column, stand_for_missing)[1], None).to_numpy(object)
    found = numbers(column, name, stand_for_missing)
    if what == BOOLEAN:
        return pd.array([None if np.isnan(value) else bool(value) for value in found], dtype="boolean")
    if np.isnan(found).any() or what == NUMBER:
        return found
    return pd.array(found.astype(np.int64))


def truths(column) -> dict[bool, str]:
    """The words that a column has for yes and no."""
    found, _ = read(column)
    return {bool(value): str(cell) for cell, value in zip(column, found, strict=True) if value in (0.0, 1.0)}


def text(column):
    return column.astype(str).str.strip()
