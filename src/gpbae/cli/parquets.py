"""Parquet files as data frames: every column as the file has it, an index that pandas kept there among them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas

WHOLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
UNNAMED, ITS_NAME = "__index_level_0__", "index"
"""What pandas calls an index without a name, in files and where it becomes a column."""


def read(path: Path) -> "pandas.DataFrame":
    """The whole table."""
    from pyarrow import parquet

    cells = parquet.read_table(path)
    table = _as_columns(cells, 0, len(cells))
    full = table.columns[~table.isna().any().to_numpy()] if table.columns.is_unique else ()
    return table.astype({name: getattr(table[name].dtype, "numpy_dtype", table[name].dtype) for name in full})


def pieces(path: Path, rows: int) -> Iterator["pandas.DataFrame"]:
    """So many rows at a time."""
    from pyarrow import parquet

    done = 0
    with parquet.ParquetFile(path, pre_buffer=False) as file:  # buffers are kept to the end of the file
        for batch in file.iter_batches(batch_size=rows):
            yield _as_columns(batch, done, file.metadata.num_rows)
            done += len(batch)


def _as_columns(cells: Any, first: int, total: int) -> "pandas.DataFrame":
    """Some of the rows, from the `first` on, of so many.  Whole numbers, and yes and no, stay what they are beside
    gaps, and where there is nothing else.  What pandas had as index comes first, as its `reset_index` has it."""
    import pandas as pd
    import pyarrow as pa

    whole = {getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")() for name in WHOLE}
    types_mapper = (whole | {pa.bool_(): pd.BooleanDtype()}).get
    table = cells.to_pandas(types_mapper=types_mapper, ignore_metadata=True)
    levels = (cells.schema.pandas_metadata or {}).get("index_columns", [])
    for level in reversed(levels):
        table = _with_range(table, level, first, total) if isinstance(level, dict) else _with_level(table, level)
    return table


def _with_level(table: "pandas.DataFrame", level: str) -> "pandas.DataFrame":
    """An index that the file has as a column.  Numbers without a name are row numbers, which say nothing."""
    if list(table.columns).count(level) != 1:
        return table
    cells, rest = table[level], table.drop(columns=level)
    if level.startswith("__index_level_") and cells.dtype.kind in "iuf":
        return rest
    rest.insert(0, ITS_NAME if level == UNNAMED and ITS_NAME not in rest else level, cells)
    return rest


def _with_range(table: "pandas.DataFrame", level: Mapping[str, Any], first: int, total: int) -> "pandas.DataFrame":
    """A range with a name, of which the file keeps the ends only; they are not those of rows that were taken out of
    another file."""
    name, numbers = level.get("name"), range(level["start"], level["stop"], level["step"])
    if name is not None and str(name) not in table and len(numbers) == total:
        table.insert(0, str(name), np.array(numbers[first : first + len(table)], np.int64))
    return table
