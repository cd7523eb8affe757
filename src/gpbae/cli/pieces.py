"""Long tables in pieces: read so many rows at a time, write as they come, and never hold the whole."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from gpbae.cli import archives, commas, encodings, files, parquets, parsing, roles
from gpbae.cli.commas import Decimal
from gpbae.errors import GpbaeError, InputError

if TYPE_CHECKING:
    import pandas

ROWS_IN_MEMORY = 20_000
"""Tables of up to so many rows are read whole."""
ENDINGS = ("", "_lower", "_upper", "_imputed", "_probability")
"""Of columns that answers have."""


def is_long(path: Path) -> bool:
    """Whether a table has more rows than are read whole."""
    return has_pieces(path) and num_rows(path) > ROWS_IN_MEMORY


def has_pieces(path: Path) -> bool:
    """Whether a file of this kind can be read some rows at a time."""
    return path.suffix.lower() in (".csv", ".parquet", ".npy")


def num_rows(path: Path) -> int:
    """Rows of a table, lines of a .csv but for the header, without reading its cells."""
    with files.reading(path):
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet

            return parquet.read_metadata(path).num_rows
        if path.suffix.lower() == ".npy":
            return len(np.load(path, mmap_mode="r", allow_pickle=False))
        with path.open(encoding=encodings.of(path), newline="") as file:
            return sum(block.count("\n") for block in iter(lambda: file.read(2**20), "")) - 1


def num_columns(path: Path) -> int:
    """Columns of a table, without reading its cells."""
    with files.reading(path):
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet

            return len(parquet.read_schema(path).names)
        if path.suffix.lower() == ".npy":
            return int(np.prod(np.load(path, mmap_mode="r", allow_pickle=False).shape[1:]))
        return len(files.header(path))


def read(path: Path, rows: int) -> Iterator["pandas.DataFrame"]:
    """The table of `files.read`, so many rows at a time."""
    sources: dict[str, Callable[[Path, int], Iterator[pandas.DataFrame]]] = {
        ".csv": files.csv_pieces, ".parquet": parquets.pieces, ".npy": _array,
    }  # fmt: skip
    done = 0
    with files.reading(path):
        for piece in sources[path.suffix.lower()](path, rows):
            table = files.checked(piece, path)
            if table.index.name != parsing.LINE:
                table.index += done
            done += len(table)
            yield table


def _array(path: Path, rows: int) -> Iterator["pandas.DataFrame"]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    for start in range(0, len(array), rows):
        yield files.as_columns({"y": np.array(array[start : start + rows])})


# Writing.


class Writer:
    """A file that grows piece by piece and takes its name when it is whole.

    Columns that are not `answered` have the types of the source.  Text is written as the source is, with its separator
    and a decimal sign, a point if none is named before the first piece.  An .npz file has no room for more rows once
    it is begun, so its columns are held until the end.  Pixels of an `image` become an array again where a file
    has arrays."""

    def __init__(
        self, path: Path, source: Path, answered: tuple[str, ...], decimal: Decimal | None = None,
        image: roles.Image | None = None,
    ):  # fmt: skip
        self.image = image
        self.path, self.source, self.answered, self.decimal = path, source, answered, decimal
        self.unfinished = path.with_name(f".{path.name}.unfinished")
        self.add = {
            ".csv": self._csv, ".parquet": self._parquet, ".npy": self._npy, ".npz": self._npz,
        }[path.suffix.lower()]  # fmt: skip
        self.file: Any = None
        self.schema: Any = None
        self.shape: tuple[int, ...] = (0, 0)
        self.columns: dict[str, list[np.ndarray]] = {}

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if self.file is not None:
                with self._written():
                    if kind is None:
                        self._finish()
                    self.file.close()
                    if kind is None:
                        self.unfinished.replace(self.path)
        finally:
            if self.file is not None:
                self.file.close()
            self.unfinished.unlink(missing_ok=True)

    def write(self, table: "pandas.DataFrame") -> None:
        """The next rows."""
        with self._written():
            self.add(table)

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ImportError) as error:
            raise GpbaeError(f"Could not write {self.path}: {error}.") from error

    def _csv(self, table: "pandas.DataFrame") -> None:
        header = self.file is None
        self.file = self.file or self.unfinished.open("w", encoding=encodings.of_answer(self.source), newline="")
        table = commas.written(table) if self.decimal == Decimal.COMMA else table
        table.to_csv(self.file, index=False, header=header, sep=files.separator(self.source))

    def _parquet(self, table: "pandas.DataFrame") -> None:
        import pyarrow
        from pyarrow import parquet

        if self.file is None:
            self.schema = self._like_source(pyarrow.Schema.from_pandas(table, preserve_index=False))
            self.file = parquet.ParquetWriter(self.unfinished, self.schema)
        self.file.write_table(pyarrow.Table.from_pandas(table, self.schema, preserve_index=False))

    def _like_source(self, schema: Any) -> Any:
        """Columns that are carried along have the types they came in, however the first rows look; those with answers
        do if these have a place there."""
        if self.source.suffix.lower() != ".parquet":
            return schema
        from pyarrow import parquet

        known = parquet.read_schema(self.source)
        for i, field in enumerate(schema):
            if field.name in known.names:
                before = known.field(field.name)
                if field.name not in self.answered or _are_alike(before.type, field.type):
                    schema = schema.set(i, before)
        return schema

    def _npy(self, table: "pandas.DataFrame") -> None:
        import pandas as pd

        shape, pixels = (len(table.columns),), [] if self.image is None else self.image.pixels()
        if self.image is not None and set(pixels) <= set(table) and not self._beside(table):
            table, shape = table.loc[:, pixels], self.image.shape
        try:
            cells = np.stack([pd.to_numeric(table[name]).to_numpy(float, na_value=np.nan) for name in table], axis=1)
        except (ValueError, TypeError):
            raise InputError(
                f"{self.path.name} can hold numbers only, and a column holds text; name an .npz or .parquet file."
            ) from None
        if self.file is None:
            self.file = self.unfinished.open("wb")
            self.shape = (0, *shape)
            _header(self.file, self.shape)
        self.file.write(np.ascontiguousarray(cells).tobytes())
        self.shape = (self.shape[0] + len(cells), *self.shape[1:])

    def _beside(self, table: "pandas.DataFrame") -> bool:
        """Whether there are intervals or the like, for which one array has no place."""
        return self.image is not None and any(set(self.image.pixels(ending)) & set(table) for ending in ENDINGS[1:])

    def _npz(self, table: "pandas.DataFrame") -> None:
        self.file = self.file or self.unfinished.open("wb")
        for name in table:
            self.columns.setdefault(str(name), []).append(archives.array(table[name]))

    def _finish(self) -> None:
        """The header of an .npy file leaves room for the number of rows, which is known only now."""
        if self.path.suffix.lower() == ".npy":
            self.file.seek(0)
            _header(self.file, self.shape)
        if self.path.suffix.lower() == ".npz":
            columns = {name: archives.joined(parts) for name, parts in self.columns.items()}
            for ending in ENDINGS if self.image is not None else ():
                columns = _with_images(columns, self.image, ending)
            archives.write(self.file, columns)


def _with_images(columns: dict[str, np.ndarray], image: roles.Image, ending: str) -> dict[str, np.ndarray]:
    """Pixels as an array, in the place of the first of them."""
    pixels = image.pixels(ending)
    if not set(pixels) <= set(columns):
        return columns
    whole = np.stack([columns[name] for name in pixels], axis=1).reshape(-1, *image.shape)
    rest = {name: values for name, values in columns.items() if name not in set(pixels[1:])}
    return {f"{image.name}{ending}" if name == pixels[0] else name: values
            for name, values in (rest | {pixels[0]: whole}).items()}  # fmt: skip


def _are_alike(before: Any, now: Any) -> bool:
    """Whether answers of a type surely have a place in a column as it was."""
    from pyarrow import types

    if types.is_integer(before) and types.is_integer(now):
        return before.bit_width >= 32
    families = (types.is_floating, lambda kind: types.is_string(kind) or types.is_large_string(kind))
    return any(is_one(before) and is_one(now) for is_one in families)


def _header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
