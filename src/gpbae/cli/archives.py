"""Columns of a table as the arrays of an .npz file: numbers, yes and no, dates or text, and never an object."""

import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,3})?")
"""A number that says no more as text: 007 is a name, and so are twenty digits."""


def array(column: Any) -> np.ndarray:
    """A column without its index; a gap is NaN among numbers, yes and no, and an empty text among words."""
    import pandas as pd

    if column.dtype.kind in "mM" and getattr(column.dtype, "tz", None) is None:
        return column.to_numpy()
    held = pd.api.types.infer_dtype(column, skipna=True) if column.dtype == object else column.dtype.kind
    if held in ("b", "boolean", "i", "u", "integer") and not column.isna().any():
        return column.to_numpy(np.bool_ if held[0] == "b" else column.dtype.type if _is_plain(column) else np.int64)
    if held in ("b", "boolean", "i", "u", "integer", "f", "floating", "mixed-integer-float"):
        return column.to_numpy() if _is_plain(column) else column.to_numpy(float, na_value=np.nan)
    gaps = column.isna().to_numpy()
    return np.array(["" if gap else str(cell) for cell, gap in zip(column, gaps, strict=True)], dtype=np.str_)


def _is_plain(column: Any) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype != object


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """A column that came in parts; text that spells numbers throughout is numbers."""
    whole = np.concatenate(parts)
    if whole.dtype.kind != "U":
        return whole
    found = [_NUMBER.fullmatch(cell) for cell in whole]
    if not any(found) or not all(match or not cell for match, cell in zip(found, whole, strict=True)):
        return whole
    is_whole = all(match and not match.group(1) and not match.group(2) for match in found)
    return whole.astype(np.int64) if is_whole else np.where(whole == "", "nan", whole).astype(np.float64)


def write(file: IO[bytes], columns: Mapping[str, np.ndarray]) -> None:
    """Any name will do for a column, also one that `numpy.savez` has a use for."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)
