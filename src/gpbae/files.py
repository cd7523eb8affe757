"""Tables in files: CSV, Parquet and .npz in, CSV and Parquet out; a cell that was there is written back as it was."""

import dataclasses
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbae.errors import GpbaeError, InputError

if TYPE_CHECKING:
    import pandas

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})


@dataclasses.dataclass(frozen=True)
class Columns:
    """The roles of a table's columns."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    groups: str | None = None

    def carried(self) -> list[str]:
        """Columns that say which row it is."""
        return [*self.inputs, *([] if self.groups is None else [self.groups])]


def read(path: Path) -> "pandas.DataFrame":
    """The whole table; CSV cells stay text until they are asked for as numbers."""
    import pandas as pd

    readers = {
        ".csv": lambda: pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig"),
        ".parquet": lambda: pd.read_parquet(path),
        ".npz": lambda: _arrays(path),
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"Expected a .csv, .parquet or .npz file; got {path.name}. Convert it first.")
    try:
        table = readers[path.suffix.lower()]()
    except (ValueError, OSError, ImportError, zipfile.BadZipFile) as error:  # pandas' parser errors are ValueErrors
        raise InputError(f"Could not read {path} as a {path.suffix[1:]} table: {error}.") from error
    if not len(table):
        raise InputError(f"{path} must have at least one row below its header; got none.")
    return table


def _arrays(path: Path) -> "pandas.DataFrame":
    """Each array (rows, ...) as columns: `y` if it is flat, else y[0], y[1], ..."""
    import pandas as pd

    with np.load(path, allow_pickle=False) as arrays:
        named = {name: np.atleast_1d(arrays[name]) for name in arrays.files}
    if len({len(values) for values in named.values()}) != 1:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in named.items()) or "none"
        raise InputError(f"{path} must hold arrays with one row per observation; got {shapes}.")
    columns = {}
    for name, values in named.items():
        flat = values.reshape(len(values), -1)
        columns |= {name if values.ndim == 1 else f"{name}[{i}]": flat[:, i] for i in range(flat.shape[1])}
    return pd.DataFrame(columns)


def resolve(table: "pandas.DataFrame", names: Sequence[str]) -> list[str]:
    """The columns that names stand for; the name of an array stands for all of its columns."""
    found = []
    for name in names:
        members = [c for c in table.columns if c == name or (c.startswith(f"{name}[") and c.endswith("]"))]
        if not members:
            raise InputError(f"Expected a column {name!r}; the table has {', '.join(map(str, table.columns[:20]))}.")
        found += members
    if repeated := {name for name in found if found.count(name) > 1}:
        raise InputError(f"Each column must be named once; got {', '.join(sorted(repeated))} more than once.")
    return found


def numbers(table: "pandas.DataFrame", names: Sequence[str]) -> "pandas.DataFrame":
    """Columns as floats, NaN where a cell is empty."""
    import pandas as pd

    return pd.DataFrame({name: _floats(table[name], name) for name in resolve(table, names)})


def _floats(column, name: str) -> np.ndarray:
    if column.dtype.kind in "biuf":
        return column.to_numpy(float)
    cells = [_float(cell) for cell in column]
    bad = next((i for i, cell in enumerate(cells) if cell is None), None)
    if bad is not None:
        raise InputError(
            f"Column {name!r} must hold numbers; got {column.iloc[bad]!r} in row {bad + 1}. Leave a missing cell empty "
            "and write dates as numbers, such as days."
        )
    return np.array(cells, float)


def _float(cell: Any) -> float | None:
    """The number a cell shows, NaN for an empty one, None for anything else."""
    if cell is None or str(cell).strip().lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def labels(table: "pandas.DataFrame", columns: Columns) -> np.ndarray | None:
    """Group labels as text, or None."""
    if columns.groups is None:
        return None
    (name,) = resolve(table, [columns.groups])
    return table[name].astype(str).to_numpy()


def fill(table: "pandas.DataFrame", filled: "pandas.DataFrame") -> "pandas.DataFrame":
    """The table with its gaps in these columns filled and every other cell untouched."""
    import pandas as pd

    done = table.copy()
    for name in filled.columns:
        gaps = np.isnan(_floats(table[name], name))
        if gaps.any():
            cells = [value if gap else cell for cell, value, gap in zip(table[name], filled[name], gaps, strict=True)]
            done[name] = pd.Series(cells, index=table.index, dtype=float if table[name].dtype.kind == "f" else object)
    return done


def check_output(path: Path) -> None:
    """Refuse an output before the work is done, not after."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"Expected an output that ends in .csv or .parquet; got {path.name}.")
    make_folder(path.parent)


def make_folder(path: Path) -> None:
    """A folder to write to, or one sentence."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpbaeError(f"Could not make the folder {path}: {error.strerror}; name another one.") from error


def write(table: "pandas.DataFrame", path: Path) -> None:
    """CSV or Parquet by the name's end."""
    check_output(path)
    try:
        if path.suffix.lower() == ".csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path, index=False)
    except (OSError, ImportError) as error:
        raise GpbaeError(f"Could not write {path}: {error}.") from error
