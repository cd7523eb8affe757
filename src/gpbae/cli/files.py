"""Tables in files: CSV, Parquet, .npz and .npy; CSV cells stay text, so that they are written back as they were."""

import contextlib
import csv
import itertools
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbae.cli import encodings, parquets, parsing
from gpbae.errors import InputError
from gpbae.saving import storage
from gpbae.tabular import ondisk

if TYPE_CHECKING:
    import pandas

DIGITS = 7
"""Of numbers that were computed, in text: networks in single precision have no more."""
IMAGES = "images"
"""Among the `attrs` of a table: the shapes of arrays whose rows have one."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """What readers say of a bad file, in one sentence."""
    check_input(path)
    try:
        yield
    except InputError:
        raise
    except (ValueError, OSError, ImportError, zipfile.BadZipFile) as error:  # pandas' parser errors are ValueErrors
        raise InputError(
            f"Could not read {path} as a {path.suffix[1:]} table: {str(error).strip().rstrip('.')}."
        ) from error


def read(path: Path) -> "pandas.DataFrame":
    """The whole table; CSV cells stay text until they are asked for as numbers."""
    readers = {
        ".csv": lambda: _csv(path),
        ".parquet": lambda: parquets.read(path),
        ".npz": lambda: _arrays(path),
        ".npy": lambda: as_columns({"y": np.load(path, allow_pickle=False)}),
    }
    with reading(path):
        table = readers[path.suffix.lower()]()
    if not len(table):
        raise InputError(f"{path} must have at least one row below its header; got none.")
    return checked(table, path)


def check_input(path: Path) -> None:
    """Refuse what cannot be read, whatever is in it."""
    if path.suffix.lower() not in (".csv", ".parquet", ".npz", ".npy"):
        raise InputError(f"Expected a .csv, .parquet, .npz or .npy file; got {path.name}. Convert it first.")
    _check_parquet(path)


def _check_parquet(path: Path) -> None:
    if path.suffix.lower() == ".parquet":
        ondisk.check_parquet(path)


def checked(table: "pandas.DataFrame", path: Path) -> "pandas.DataFrame":
    """With distinct names; rows are numbered from 0, or by their lines in the file."""
    table.columns = [str(name) for name in table.columns]
    if repeated := sorted({name for name in table.columns if list(table.columns).count(name) > 1}):
        raise InputError(f"{path} must have distinct column names; got {', '.join(repeated)} twice. Rename one.")
    return table if table.index.name == parsing.LINE else table.reset_index(drop=True)


def _csv(path: Path) -> "pandas.DataFrame":
    import pandas as pd

    return pd.concat(list(csv_pieces(path, None)))


def csv_pieces(path: Path, rows: int | None) -> Iterator["pandas.DataFrame"]:
    """Columns parted by commas, semicolons or tabs, whichever the header has most of; equal names stay equal.  So many
    rows at a time, or all."""
    import pandas as pd

    mark, names = separator(path), header(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be dropped
        try:
            source = pd.read_csv(path, sep=mark, dtype=str, keep_default_na=False, encoding=encodings.of(path),
                                 header=None, skiprows=1, names=range(len(names)), index_col=False,
                                 chunksize=rows)  # fmt: skip
            whole: Any = source
            lines = _lines(path, mark)
            with contextlib.nullcontext([source]) if rows is None else whole as tables:
                for table in tables:
                    table.columns = names
                    yield _numbered(table, list(itertools.islice(lines, len(table))))
        except (pd.errors.ParserWarning, pd.errors.ParserError) as error:
            raise InputError(_malformed(path, mark, len(names), str(error))) from None


def _malformed(path: Path, mark: str, width: int, otherwise: str) -> str:
    """The first line with more cells than there are names; what the reader says, where there is none."""
    with path.open(encoding=encodings.of(path), newline="") as file, contextlib.suppress(csv.Error):
        cells, last = csv.reader(file, delimiter=mark), 0
        for row in cells:
            if len(row) > width and last:
                return (
                    f"{path} must have at most {width} cells in a row, as many as its header has names; got {len(row)} "
                    f"on line {last + 1}. Mend that line; a cell that holds {mark!r} needs quotation marks around it."
                )
            last = cells.line_num
    found = otherwise.strip().rpartition("C error: ")[2].rstrip(".")
    return f"{path} must be a table with quotation marks in pairs; got: {found}. Mend it there."


def header(path: Path) -> list[str]:
    """The names of the columns of a .csv."""
    first = _first_line(path)
    if not first.strip():
        raise InputError(f"{path} must begin with a line of column names; got an empty file.")
    names = next(csv.reader([first], delimiter=separator(path)))
    return [name.strip() or f"column {i + 1}" for i, name in enumerate(names)]


def _first_line(path: Path) -> str:
    with path.open(encoding=encodings.of(path), newline="") as file:
        return file.readline()


def separator(path: Path) -> str:
    """What parts the columns of a .csv, by its header; a comma in that of any other file."""
    return max(",;\t", key=_first_line(path).count) if is_text(path) else ","


def _numbered(table: "pandas.DataFrame", lines: list[int]) -> "pandas.DataFrame":
    """Rows by their lines in the file, unless these could not be told."""
    import pandas as pd

    return table.set_index(pd.Index(lines, name=parsing.LINE)) if len(lines) == len(table) else table


def _lines(path: Path, mark: str) -> Iterator[int]:
    """On which line each row begins: cells may hold line breaks, and empty lines are no rows."""
    with path.open(encoding=encodings.of(path), newline="") as file, contextlib.suppress(csv.Error):
        cells = csv.reader(file, delimiter=mark)
        next(cells)
        last = cells.line_num
        for row in cells:
            if len(row) > 1 or "".join(row).strip():
                yield last + 1
            last = cells.line_num


def _arrays(path: Path) -> "pandas.DataFrame":
    with np.load(path, allow_pickle=False) as arrays:
        named = {name: np.atleast_1d(arrays[name]) for name in arrays.files}
    if len({len(values) for values in named.values()}) != 1:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in named.items()) or "none"
        raise InputError(f"{path} must hold arrays with one row per observation; got {shapes}.")
    return as_columns(named)


def as_columns(named: dict[str, np.ndarray]) -> "pandas.DataFrame":
    """Each array (rows, ...) as columns: `y` if it is flat, else y[0], y[1], ...; what rows are images of is in its
    `attrs`."""
    import pandas as pd

    columns = {}
    for name, values in named.items():
        flat = values.reshape(len(values), -1)
        columns |= {name if values.ndim == 1 else f"{name}[{i}]": flat[:, i] for i in range(flat.shape[1])}
    table = pd.DataFrame(columns)
    table.attrs[IMAGES] = {name: values.shape[1:] for name, values in named.items() if values.ndim > 2}
    return table


def check_output(path: Path, force: bool = False) -> None:
    """Refuse an output before the work is done, not after."""
    if path.suffix.lower() not in (".csv", ".parquet", ".npz", ".npy"):
        raise InputError(f"Expected an output that ends in .csv, .parquet, .npz or .npy; got {path.name}.")
    _check_parquet(path)
    if path.exists() and not force:
        raise InputError(f"{path} exists already; pass --force to replace it, or name another file.")
    storage.make_folder(path.parent)


def is_text(path: Path) -> bool:
    """Whether numbers are written for people to read."""
    return path.suffix.lower() == ".csv"


def has_types(path: Path) -> bool:
    """Whether columns of a file have types of their own."""
    return path.suffix.lower() != ".csv"


def holds_words(path: Path) -> bool:
    """Whether a file can hold more than numbers."""
    return path.suffix.lower() != ".npy"


def readable(computed: "pandas.DataFrame") -> "pandas.DataFrame":
    """Computed numbers with as many digits as mean something."""
    return computed.apply(lambda column: _rounded(column) if column.dtype.kind == "f" else column)


def _rounded(column: Any) -> Any:
    """To whole multiples of a power of ten; powers up to 10²² are exact, so no digits are left over."""
    values = column.to_numpy(float, na_value=np.nan)
    size = np.where(np.isfinite(values) & (values != 0), np.abs(values), 1.0)
    places = np.clip(DIGITS - 1 - np.floor(np.log10(size)), -290, 290)
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    return type(column)(np.round(values * up / down) * down / up, index=column.index)
