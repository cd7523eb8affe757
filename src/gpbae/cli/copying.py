"""A long table into the folder of a run: columns are settled by the first rows, then all rows are copied as numbers."""

import contextlib
import dataclasses
import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpbae.cli import parsing, pieces, reading, roles
from gpbae.errors import GpbaeError, InputError

CELLS_AT_A_TIME = 2_000_000
"""Of text, some 60 bytes each."""
EXACT_IN_SINGLE = ("bool", "boolean", "int8", "uint8", "int16", "uint16", "float16", "float32")


class Source(NamedTuple):
    """A file, and what was asked of it."""

    path: Path
    wish: reading.Wish

    def pieces(self) -> Iterator[Any]:
        return pieces.read(self.path, self.rows_at_a_time)

    @property
    def rows_at_a_time(self) -> int:
        return max(min(pieces.ROWS_IN_MEMORY, CELLS_AT_A_TIME // pieces.num_columns(self.path)), 1)

    def identity(self) -> dict[str, Any]:
        """By which a copy is known to be of this very file, read in this way."""
        found = self.path.stat()
        wish = [list(part) if isinstance(part, tuple) else part for part in self.wish]
        return {"name": self.path.name, "size": found.st_size, "changed": found.st_mtime_ns, "wish": wish}

    def refuse_change(self, before: dict[str, Any]) -> None:
        """Refuse a file that is not what it was, for its rows may be of both."""
        if not self.path.exists() or self.identity() != before:
            raise InputError(
                f"{self.path} must stay as it is while it is copied; got other content meanwhile. Give the same "
                "command again, when nobody writes to the file."
            )


def head(source: Source) -> reading.Table:
    """The first rows that are meant, as many as are read at a time, and what they say of the columns."""
    import pandas as pd

    wish, parts, columns = source.wish, [], None
    for piece in source.pieces():
        if columns is None:
            columns, _ = reading.stretched(piece, wish._replace(first=None, last=None))
        if wish.first is not None or wish.last is not None:
            piece = piece[roles.are_within(piece, columns, wish.first, wish.last)]
        parts.append(piece)
        if sum(map(len, parts)) >= source.rows_at_a_time:
            break
    if not sum(map(len, parts)):
        where = f" from {wish.first or 'the start'} to {wish.last or 'the end'}" if len(parts) else ""
        raise InputError(f"{source.path} must have at least one row{where}; got none.")
    return reading.settled(pd.concat(parts), wish, source.path.name)


class Cells:
    """Cells as numbers, piece by piece, and what only all of them can tell of their columns."""

    def __init__(self, columns: roles.Columns):
        self.columns = columns
        kinds = {name: columns.kinds[name] for name in columns.outputs}
        self.labels: dict[str, dict[str, int]] = {n: {} for n, kind in kinds.items() if kind == parsing.CATEGORY}
        self.words: dict[str, dict[bool, str]] = {n: {} for n, kind in kinds.items() if kind == parsing.BOOLEAN}
        self.groups: dict[str, int] = {}
        self.with_gaps, self.with_decimals = set[str](), set[str]()

    def read(self, cells: Any, wish: reading.Wish) -> tuple[np.ndarray | None, np.ndarray, np.ndarray | None]:
        """Inputs, outputs and codes of groups of the rows that are meant."""
        self._settle_sign(cells)
        table = reading.stretch_again(cells, self.columns, wish.first, wish.last)
        for name in (name for name, kind in self.columns.kinds.items() if kind == parsing.BOOLEAN):
            parsing.check_truths(table.rows[name], name, self.columns.writing(name))
        x = None if table.x is None else table.x.to_numpy(float)
        y = np.stack([self._output(table.rows[name], name) for name in self.columns.outputs], axis=1)
        return x, y, None if table.groups is None else self._codes_of_groups(table.rows[self.columns.groups])

    def _settle_sign(self, cells: Any) -> None:
        """The first rows may have had no commas; the first that prove what they mean speak for the rest."""
        if self.columns.decimal is None:
            names = [name for name in (*self.columns.inputs, *self.columns.outputs) if name not in self.columns.dates]
            suspects = [name for name in names if cells[name].dtype.kind not in "biufM"
                        and parsing.text(cells[name]).str.contains(",", regex=False).any()]  # fmt: skip
            self.columns = dataclasses.replace(self.columns, decimal=roles.decimal(cells[suspects], self.columns))

    def _output(self, column: Any, name: str) -> np.ndarray:
        how = self.columns.writing(name)
        if name in self.labels:
            return self._codes(parsing.typed(column, name, parsing.CATEGORY, how), name)
        found = parsing.numbers(column, name, how)
        if name in self.words:
            self.words[name] = parsing.truths(column) | self.words[name]
        seen = found[~np.isnan(found)]
        if len(seen) < len(found):
            self.with_gaps.add(name)
        if (seen != np.round(seen)).any():
            self.with_decimals.add(name)
        return found

    def _codes(self, cells: np.ndarray, name: str) -> np.ndarray:
        """Labels by the order in which they appear."""
        import pandas as pd

        from gpbae.tabular.columns import MOST_CLASSES

        codes, found = pd.factorize(cells)
        known = self.labels[name]
        own = np.array([*(known.setdefault(label, len(known)) for label in found), np.nan], float)
        if len(known) > MOST_CLASSES:
            raise InputError(
                f"Column {name!r} must hold at most {MOST_CLASSES} different labels; got {len(known)}, such as "
                f"{found[-1]!r}. Leave it out with --exclude {shlex.quote(name)}, or write numbers."
            )
        return own[codes]  # a gap is -1, the last

    def _codes_of_groups(self, column: Any) -> np.ndarray:
        import pandas as pd

        codes, found = pd.factorize(column.astype(str).to_numpy())
        if (codes < 0).any():
            raise InputError(
                f"Column {column.name!r} must name a group in every row; got a blank "
                f"{parsing.place(column, int((codes < 0).argmax()))}. Give such rows a label of their own."
            )
        return np.array([self.groups.setdefault(label, len(self.groups)) for label in found], np.int32)[codes]

    def settled(self) -> roles.Columns:
        """The roles of columns, by all rows."""
        whole = {name: parsing.NUMBER for name in self.with_decimals if self.columns.kinds[name] == parsing.WHOLE}
        called = {name: [each.get(False, "False"), each.get(True, "True")] for name, each in self.words.items()}
        words = {name: both for name, both in called.items() if both != ["False", "True"]}
        return dataclasses.replace(self.columns, kinds=self.columns.kinds | whole, words=words)

    def frame(self) -> Any:
        """The data frame that the numbers stand for."""
        import pandas as pd

        from gpbae.tabular.tables import Frame

        names, image = self.columns.outputs, self.columns.image
        shape = (len(names),) if image is None else image.shape
        return Frame(shape, pd.Index(names), None, tuple(self._coding(name) for name in names))

    def _coding(self, name: str) -> Any:
        from gpbae.tabular.columns import Coding

        if name in self.labels:
            return Coding("labels", "category", tuple(self.labels[name]))
        if name in self.words:
            return Coding("truth", "boolean")
        if self.settled().kinds[name] == parsing.WHOLE and name not in self.with_gaps:
            return Coding("whole numbers", "Int64")
        return Coding("numbers", "float64")


def copy(
    source: Source, table: reading.Table, out: Path, show: Callable[[dict], None], begun: bool,
    identity: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """All rows that are meant, to the folder of a run, given what the first ones say of the columns and what the file
    was when they were read.  A run that was begun with another table is not given this one."""
    from gpbae.saving import sametable, tablefolder

    identity = identity or source.identity()
    cells, columns, unseen = Cells(table.columns), table.columns, _unseen(source, table)
    tell = _telling(show, pieces.num_rows(source.path))
    num_inputs, is_grouped = len(columns.inputs), columns.groups is not None
    with _written(out):
        made = tablefolder.Copy(out, num_inputs, len(columns.outputs), is_grouped, precision(table))
    with made as target:
        for piece in source.pieces():
            _refuse_values(piece, columns, unseen, len(table.rows))
            _write(target, *cells.read(piece, source.wish))
            tell(len(piece))
        source.refuse_change(identity)
        notes = {"source": identity, "columns": json.loads(cells.settled().to_json())}
        with _written(out):
            target.finish(list(columns.inputs), cells.frame(), list(cells.groups), notes)
        if begun:
            sametable.refuse_another(out)
        with _written(out):
            target.take_name()


def _telling(show: Callable[[dict], None], total: int) -> Callable[[int], None]:
    """A function that is told of rows as they are copied."""
    done, began, worked = 0, time.monotonic(), time.process_time()

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        show({"phase": "copying", "done": done, "total": max(total, done), "seconds": time.monotonic() - began,
              "processor_seconds": time.process_time() - worked})  # fmt: skip

    return tell


def _write(target: Any, *rows: Any) -> None:
    with _written(target.run):
        target.add(*rows)


@contextlib.contextmanager
def _written(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GpbaeError(f"Could not copy the table to {out}: {error.strerror}; make room there.") from error


def precision(table: reading.Table) -> np.dtype:
    """Single, where it holds every output as it is in the source; else double."""
    kinds = table.columns.kinds
    coded = [name for name in table.columns.outputs if kinds[name] in (parsing.BOOLEAN, parsing.CATEGORY)]
    rest = [name for name in table.columns.outputs if name not in coded]
    return np.dtype(
        np.float32 if all(str(table.rows[name].dtype).lower() in EXACT_IN_SINGLE for name in rest) else np.float64
    )


def _unseen(source: Source, table: reading.Table) -> list[str]:
    """Columns that are no outputs only because the first rows have no value of them."""
    asked = reading.names(source.wish.outputs) or [reading.ALL]
    if reading.ALL not in asked:
        return []
    taken = (*table.columns.carried(), *table.columns.outputs,
             *roles.resolve(table.rows, reading.names(source.wish.exclude)))  # fmt: skip
    return reading.without_value(table.rows, table.columns, [name for name in table.rows.columns if name not in taken])


def _refuse_values(piece: Any, columns: roles.Columns, unseen: list[str], num_rows: int) -> None:
    for name in unseen:
        blank = parsing.read(piece[name], columns.writing(name))[1]
        if not blank.all():
            first = int((~blank).argmax())
            raise InputError(
                f"Column {name!r} must show in the first {num_rows} rows what it holds; got nothing there and "
                f"{piece[name].iloc[first]!s} {parsing.place(piece[name], first)}. To model it, name it: --outputs "
                f"{shlex.quote(f'{reading.ALL},{name}')}; to leave it out: --exclude {shlex.quote(name)}."
            )
