"""What the cells of a column say: numbers, yes and no, categories, gaps."""

import shlex
from typing import NamedTuple

import numpy as np

from gpbae.cli import commas
from gpbae.cli.commas import Decimal
from gpbae.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "<na>", "-", "?"})
TRUTHS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
OPPOSITES = {"true": "false", "yes": "no", "t": "f", "y": "n"}
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


class OddCell(InputError):
    """A cell that cannot be read: what was found, and the options of a fit that make a gap of it."""

    def __init__(self, found: str, missing: str, exclude: str):
        super().__init__(
            f"{found}. If it means missing, fit with {missing}; else mend the cell, or leave the column out with "
            f"{exclude}."
        )
        self.found, self.missing = found, missing

    @property
    def once_fitted(self) -> str:
        """What is to be done where the fit is done."""
        return f"{self.found}. If it means missing, leave it empty, or fit again with {self.missing}; else mend it."


class Writing(NamedTuple):
    """How the cells of a column are written, as far as it is known before they are seen."""

    missing: tuple[Code, ...] = ()
    decimal: Decimal | None = None
    truths: bool | None = None
    """Whether words are yes and no; None if the column itself is to tell."""


PLAIN = Writing()


def read(column, how: Writing = PLAIN) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that cells show, NaN for anything else, and where there is a gap."""
    if column.dtype.kind in "biuf":
        numbers = column.to_numpy(float, na_value=np.nan)
        blank = np.isnan(numbers) | _are_codes(numbers, how)
        numbers = np.where(np.isin(numbers, [0.0, 1.0]), numbers, np.nan) if how.truths else numbers
    elif column.dtype.kind == "M":
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    else:
        words = text(column).str.lower()
        codes = [value for value in how.missing if isinstance(value, str)]
        blank = words.isin([*MISSING, *codes]).to_numpy() | column.isna().to_numpy()
        numbers = _numbers(words.where(~blank, ""), how)
        blank |= _are_codes(numbers, how)
        numbers = _with_truths(np.where(blank, np.nan, numbers), words.where(~blank, ""), how)
    return np.where(blank, np.nan, numbers), blank


def _are_codes(numbers: np.ndarray, how: Writing) -> np.ndarray:
    return np.isin(numbers, [value for value in how.missing if isinstance(value, float)])


def _numbers(words, how: Writing) -> np.ndarray:
    import pandas as pd

    return pd.to_numeric(_plain(words, how), errors="coerce").to_numpy(float, na_value=np.nan)


def _plain(words, how: Writing):
    return commas.plain(words, how.decimal or commas.proven(words))


def _with_truths(numbers: np.ndarray, words, how: Writing) -> np.ndarray:
    """Numbers, or yes and no as 1 and 0, whichever the column has more of: T among numbers may be a trace of rain.  In
    a column known to hold yes and no, 1 and 0 are these."""
    truths = words.map(TRUTHS).to_numpy(float, na_value=np.nan)
    if how.truths:
        return np.where(np.isin(numbers, [0.0, 1.0]), numbers, truths)
    if how.truths is None and np.isfinite(truths).sum() > (~np.isnan(numbers)).sum():
        return truths
    return numbers


def numbers(column, name: str, how: Writing = PLAIN) -> np.ndarray:
    """The numbers of a column, NaN for gaps; a cell that is neither is named."""
    found, blank = read(column, how)
    if (wrong := np.isnan(found) & ~blank).any():
        refuse(column, name, wrong, how)
    if np.isinf(found).any():
        _refuse_infinite(column, name, found)
    check_commas(column, name, how)
    return found


def _refuse_infinite(column, name: str, found: np.ndarray) -> None:
    first, count = int(np.isinf(found).argmax()), int(np.isinf(found).sum())
    more = f", one of {count} such cells" if count > 1 else ""
    odd = f"Column {name!r} must hold finite numbers; got {str(column.iloc[first])!r} {place(column, first)}{more}"
    raise OddCell(odd, f"--missing {found[first]:g}", f"--exclude {shlex.quote(name)}")


def refuse(column, name: str, wrong: np.ndarray, how: Writing = PLAIN) -> None:
    """Name the first word among numbers, and say what to do about all of them."""
    words = list(dict.fromkeys(text(column)[wrong]))[:MOST_WORDS]
    what = "yes or no" if _holds_truths(column, read(column, how)[0], how) else "numbers"
    more = f", one of {wrong.sum()} such cells" if wrong.sum() > 1 else ""
    options = " ".join(f"--missing {shlex.quote(word)}" for word in words)
    odd = f"Column {name!r} must hold {what}; got {words[0]!r} {place(column, int(wrong.argmax()))}{more}"
    raise OddCell(odd, options, f"--exclude {shlex.quote(name)}")


def check_truths(column, name: str, how: Writing = PLAIN) -> None:
    """Refuse numbers in a column that is fitted as words for yes and no, as `kind` does where it sees them together."""
    if column.dtype.kind != "b":
        is_word = text(column).str.lower().isin(TRUTHS).to_numpy()
        if (wrong := ~is_word & ~read(column, how)[1]).any():
            refuse(column, name, wrong, how)


def check_commas(column, name: str, how: Writing = PLAIN) -> None:
    """Refuse numbers whose commas could be decimal or stand between thousands."""
    if column.dtype.kind in "biufM" or how.decimal is not None:
        return
    words = text(column)
    if not words.str.contains(",", regex=False).any():
        return
    words = words.where(~read(column, how)[1], "")
    if commas.proven(words) is None and (open_ := commas.are_open(words)).any():
        first = int(open_.argmax())
        decimal, whole = (words.iloc[first].replace(",", sign) for sign in (".", ""))
        raise InputError(
            f"Column {name!r} must show what its commas mean; got {words.iloc[first]!r} {place(column, first)}, which "
            f"is {decimal} or {whole}. Fit with --decimal comma or --decimal point, or write numbers without commas."
        )


def place(column, position: int) -> str:
    """Where a cell stands, as a reader of the file counts: its line, or its row."""
    if getattr(column.index, "name", None) == LINE:
        return f"on line {column.index[position]}"
    return f"in row {column.index[position] + 1}"


def is_numeric(column, name: str, how: Writing = PLAIN) -> bool:
    """Whether there are numbers, or yes and no; False for words, and for nothing but gaps."""
    return not read(column, how)[1].all() and kind(column, name, how) != CATEGORY


def kind(column, name: str, how: Writing = PLAIN) -> str:
    """NUMBER, WHOLE, BOOLEAN or CATEGORY; words among numbers are refused, for they are a slip of the pen or a code for
    missing: with them the column would be lost, or every number a label of its own."""
    if column.dtype.kind == "b":
        return BOOLEAN
    if column.dtype.kind == "M":
        return CATEGORY
    found, blank = read(column, how)
    wrong = np.isnan(found) & ~blank
    if _are_slips(column, found, wrong, how):
        refuse(column, name, wrong, how)
    if wrong.any():
        return CATEGORY
    if _holds_truths(column, found, how):
        return BOOLEAN
    check_commas(column, name, how)
    return WHOLE if _is_whole(column, blank, how) else NUMBER


def _holds_truths(column, found: np.ndarray, how: Writing) -> bool:
    """Whether what was found are words for yes and no."""
    if how.truths:
        return True
    if column.dtype.kind in "iuf" or np.isnan(found).all():
        return column.dtype.kind == "b"
    return set(text(column)[~np.isnan(found)].str.lower()) <= set(TRUTHS)


def _are_slips(column, found: np.ndarray, wrong: np.ndarray, how: Writing) -> bool:
    """Whether words are fewer than numbers, counted by cell or by what is written there, or few beside yes and no; or
    there is nothing but numbers, and yes and no, beside each other."""
    seen = ~np.isnan(found)
    if not wrong.any() or not seen.any():
        return False
    words = text(column)
    if not _holds_truths(column, found, how):
        if set(words[wrong].str.lower()) <= set(TRUTHS):
            return True
        return bool(wrong.sum() < seen.sum() or words[wrong].nunique() < len(np.unique(found[seen])))
    return bool(wrong.sum() < FEW * seen.sum() or not np.isnan(_numbers(words[wrong], how)).any())


def _is_whole(column, blank, how: Writing) -> bool:
    """Written without a decimal point."""
    if blank.all() or column.dtype.kind == "f":
        return False
    return column.dtype.kind in "iu" or not _plain(text(column)[~blank], how).str.contains(r"[.eE]", regex=True).any()


def typed(column, name: str, what: str, how: Writing = PLAIN):
    """A column as the model takes it: floats with NaN for gaps; whole numbers, yes and no and labels as such."""
    import pandas as pd

    if what == CATEGORY:
        return text(column).where(~read(column, how)[1], None).to_numpy(object)
    found = numbers(column, name, how)
    if what == BOOLEAN:
        return pd.array([None if np.isnan(value) else bool(value) for value in found], dtype="boolean")
    if what == NUMBER or (np.isnan(found) | (found != np.round(found))).any():
        return found
    return pd.array(found.astype(np.int64))


def truths(column) -> dict[bool, str]:
    """The words that a column has for yes and no."""
    each = dict.fromkeys(text(column).dropna())
    return {bool(TRUTHS[word.lower()]): word for word in each if word.lower() in TRUTHS}


def opposite(word: str) -> str:
    """No for Yes, FALSE for TRUE, t for f."""
    small = (OPPOSITES | {no: yes for yes, no in OPPOSITES.items()})[word.lower()]
    return small.upper() if word.isupper() else small.capitalize() if word[0].isupper() else small


def text(column):
    return column.astype(str).str.strip()
