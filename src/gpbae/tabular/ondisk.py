"""Tables that stay on disk: rows are gathered a block of sweeps at a time, the next while this one is computed."""

import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpbae.errors import InputError
from gpbae.tabular.tables import Frame

ROWS_AT_A_TIME = 65_536


class OnDisk:
    """Rows that are read when they are needed: an .npy file, or any array that is indexed by sorted row numbers
    (`numpy.memmap`, an HDF5 dataset, a Zarr array).  NaN is a missing cell.

    A `frame` says which data frame the numbers stand for: names of columns, labels behind codes."""

    def __init__(self, source: Any, frame: Frame | None = None):
        if isinstance(source, str | Path):
            try:
                source = np.load(source, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError) as problem:
                raise InputError(f"OnDisk needs an .npy file of numbers; got {source}: {problem}.") from None
        if not hasattr(source, "shape") or not hasattr(source, "dtype") or np.dtype(source.dtype).kind not in "biuf":
            raise InputError(f"OnDisk needs a file or an array of numbers; got {type(source).__name__}.")
        if len(source.shape) == 0 or 0 in source.shape:
            raise InputError(f"OnDisk needs at least one row and one column; got shape {tuple(source.shape)}.")
        self.source, self.frame = source, frame
        self.shape: tuple[int, ...] = tuple(source.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise InputError(
            f"Rows in memory are needed here; got a table of {len(self)} rows on disk. To fit it, pass y as OnDisk "
            "(x may be either); to ask about it, pass some rows at a time to stream."
        )

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """These rows, in any order, with repetitions if there are any: read in the order of the file."""
        distinct, back = np.unique(numbers, return_inverse=True)
        return np.asarray(self.source[distinct], np.float64)[back.reshape(-1)].reshape(
            *np.shape(numbers), *self.shape[1:]
        )

    def sample(self, numbers: np.ndarray) -> Any:
        """These rows as a user would give them: a data frame, where they stand for one."""
        rows = self.rows(numbers)
        return rows if self.frame is None else self.frame.decode(rows)

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows, in the order of the file, some at a time."""
        for start in range(0, len(self), ROWS_AT_A_TIME):
            yield np.asarray(self.source[start : start + ROWS_AT_A_TIME], np.float64)


def check_parquet(path: Any) -> None:
    """Refuse a Parquet file where nothing can read or write it."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(f"{path} needs pyarrow: pip install pyarrow, or use a file of another kind.")


def from_parquet(path: Any, columns: list[str], to: Any) -> OnDisk:
    """Columns of a Parquet file copied to an .npy file, some rows at a time: single rows of an .npy file can be
    reached, those of a row group cannot.  In single precision where no column holds more, else in double."""
    check_parquet(path)
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:  # buffers are kept to the end of the file
        schema = file.schema_arrow
        if missing := [name for name in columns if name not in schema.names]:
            raise InputError(f"{path} must have the columns asked for; missing {', '.join(missing)}.")
        kinds = {name: schema.field(name).type for name in columns}
        if others := [name for name, kind in kinds.items() if not _is_number(kind)]:
            raise InputError(
                f"{path} must have numbers in the columns asked for; {others[0]} holds {kinds[others[0]]}. Turn dates "
                "into numbers of days or hours first, or fit the file from the command line, which reads them."
            )
        small = all(kind in (pa.float32(), pa.float16(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.bool_())
                    for kind in kinds.values())  # fmt: skip
        made = Path(f"{to}.part")
        out = np.lib.format.open_memmap(made, mode="w+", dtype=np.float32 if small else np.float64,
                                        shape=(file.metadata.num_rows, len(columns)))  # fmt: skip
        start = 0
        for batch in file.iter_batches(batch_size=ROWS_AT_A_TIME, columns=columns):
            table = batch.to_pandas(ignore_metadata=True)  # an index of pandas is a column here
            out[start : start + len(table)] = table[columns].to_numpy(np.float64, na_value=np.nan)
            start += len(table)
        out.flush()
    made.replace(to)
    return OnDisk(to)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)


class Rows(NamedTuple):
    """Rows of a block of sweeps, axes (chain, sweep, row, ...)."""

    x: np.ndarray
    y: np.ndarray
    mask: np.ndarray
    group: np.ndarray


Drawer = Callable[[np.random.Generator], np.ndarray]


def independent(num_rows: int, size: int) -> Drawer:
    """Rows of a sweep, uniformly and with replacement."""
    return lambda rng: rng.integers(0, num_rows, size)


def distinct(num_rows: int, size: int, num_visits: int) -> Drawer:
    """(visit, row): of every visit without replacement, so that no row has two latents at once."""
    return lambda rng: np.array([rng.choice(num_rows, size, replace=False) for _ in range(num_visits)])


class Coming(NamedTuple):
    """Numbers of the rows of a block of sweeps, and the first of them, being read."""

    numbers: Future[np.ndarray]
    rows: Future[Rows]


class Feed:
    """Gives every sweep of every chain its rows.  Which ones depends on seed, chain and sweep only: a block that is
    repeated sees the same.  At most `at_once` sweeps are read at a time."""

    def __init__(
        self, gather: Callable[[np.ndarray], Rows], draw: Drawer, num_chains: int, seed: int, at_once: int | None = None
    ):
        self.gather, self.draw, self.num_chains, self.seed = gather, draw, num_chains, seed
        self.at_once = at_once
        self.pool = ThreadPoolExecutor(1, "gpbae-rows")
        self.coming: tuple[tuple[int, int], Coming] | None = None

    def numbers(self, sweep: int, num_sweeps: int) -> np.ndarray:
        """(chain, sweep, row) numbers of rows, or (chain, sweep, visit, row)."""

        def drawn(chain, s):
            rng = np.random.Generator(np.random.Philox(key=[self.seed, chain], counter=[0, 0, 0, s]))
            return self.draw(rng)

        return np.array([[drawn(c, sweep + s) for s in range(num_sweeps)] for c in range(self.num_chains)])

    def block(self, sweep: int, num_sweeps: int) -> tuple[np.ndarray, Iterator[Rows]]:
        """Numbers of the rows of the sweeps from this one on, and the rows, a few sweeps at a time; what comes after is
        fetched meanwhile."""
        asked = (sweep, num_sweeps)
        coming = self.coming[1] if self.coming and self.coming[0] == asked else self._begun(*asked)
        numbers = coming.numbers.result()
        return numbers, self._in_turn(numbers, coming.rows, (sweep + num_sweeps, num_sweeps))

    def _in_turn(self, numbers: np.ndarray, rows: Future[Rows], following: tuple[int, int]) -> Iterator[Rows]:
        num_sweeps = numbers.shape[1]
        step = self.at_once or num_sweeps
        for end in range(step, num_sweeps + step, step):
            here = rows.result()
            if end < num_sweeps:
                rows = self.pool.submit(self.gather, numbers[:, end : end + step])
            else:
                self.coming = (following, self._begun(*following))
            yield here

    def _begun(self, sweep: int, num_sweeps: int) -> Coming:
        numbers = self.pool.submit(self.numbers, sweep, num_sweeps)
        first = slice(0, self.at_once or num_sweeps)
        return Coming(numbers, self.pool.submit(lambda: self.gather(numbers.result()[:, first])))

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
