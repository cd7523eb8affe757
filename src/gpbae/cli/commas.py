"""Commas in numbers: the decimal sign, or marks between thousands.

A cell such as 0,5 or 12,25 proves the first, 1,234,567 or 1,234.5 the second; 1,234 alone could be either.
"""

from enum import StrEnum
from typing import Any

_WITH_COMMA = r"[+-]?\d*,\d+"
_WITH_POINT = r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?"
_EITHER = r"[+-]?[1-9]\d{0,2},\d{3}"
_GROUPED = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"


class Decimal(StrEnum):
    """The sign before the decimals; with a point, commas stand between thousands."""

    COMMA = "comma"
    POINT = "point"


def proven(words: Any) -> Decimal | None:
    """What cells of text say themselves; None where they prove neither, or both."""
    if not words.str.contains(",", regex=False).any():
        return None
    open_ = words.str.fullmatch(_EITHER)
    comma = (words.str.fullmatch(_WITH_COMMA) & ~open_).any()
    point = (words.str.fullmatch(_GROUPED) & ~open_).any()
    return None if comma == point else Decimal.COMMA if comma else Decimal.POINT


def shown(words: Any, decimal: Decimal | None) -> Decimal | None:
    """The sign in cells of numbers, whose commas were read as `decimal` has it if they do not tell; None where there is
    no sign."""
    if words.str.contains(",", regex=False).any():
        return proven(words) or decimal
    return Decimal.POINT if words.str.fullmatch(_WITH_POINT).any() else None


def are_open(words: Any) -> Any:
    """Which cells could be read both ways."""
    return words.str.fullmatch(_EITHER).to_numpy(bool)


def plain(words: Any, decimal: Decimal | None) -> Any:
    """Numbers as programs write them; what is not known is taken for a decimal comma."""
    if decimal == Decimal.POINT:
        return words.where(~words.str.fullmatch(_GROUPED), words.str.replace(",", "", regex=False))
    return words.str.replace(r"^([+-]?\d*),(\d+)$", r"\1.\2", regex=True)


def written(table: Any) -> Any:
    """A table whose numbers have decimal commas; text is as its writer had it."""
    return table.map(lambda cell: str(cell).replace(".", ",") if isinstance(cell, float) and cell == cell else cell)
