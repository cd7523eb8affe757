"""Long tables: asked about piece by piece, the answer written as it comes, nothing held but a block of rows."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpbae.cli import reading, terminal
from gpbae.errors import InputError

PROBABILITY = "_probability"
"""Ending of the columns that say how probable yes, or a label, is."""


class Where(NamedTuple):
    """A run, a table, the stretch of its rows that is meant, and the file for the answer."""

    run: Path
    data: Path
    output: Path
    first: str | None
    last: str | None
    force: bool
    quiet: bool
    adds: tuple[str, ...] = ()
    """Endings of the columns that stand beside the outputs in the answer."""

    def tables(self, columns: Any, rows: int) -> Iterator[reading.Table]:
        """So many rows of the table at a time, those that are meant."""
        from gpbae.cli import pieces

        for piece in pieces.read(self.data, rows):
            table = reading.stretch_again(piece, columns, self.first, self.last)
            self.check(table)
            if len(table.rows):
                yield table

    def check(self, table: reading.Table) -> None:
        """Refuse a table with columns by the names that are to be added."""
        from gpbae.cli import parsing

        added = [f"{name}{ending}" for name, ending in itertools.product(table.columns.outputs, self.adds)
                 if ending != PROBABILITY or table.columns.kinds.get(name) != parsing.NUMBER]  # fmt: skip
        if taken := [name for name in added if name in table.rows.columns]:
            raise InputError(
                f"{self.data} has a column {taken[0]!r} already, as if it were an answer itself; name the table that "
                "was to be filled, or rename the column."
            )


def is_for(model: Any, question: str, where: Where, columns: Any) -> bool:
    """Whether the table is long and its rows may be answered in any company; a new group's, and an exact GP's, may only
    be answered with each other."""
    from gpbae.cli import pieces

    if not hasattr(model, "stream") or not pieces.is_long(where.data):
        return False
    if question == "predict":
        return True
    labels = set()
    if columns.groups is not None:
        for table in where.tables(columns, pieces.ROWS_IN_MEMORY):
            labels.update(table.groups)
    alone = model.answers_alone(labels)
    if not alone:
        terminal.say("The whole table is read at once: rows of new groups, or of an exact GP, are answered together.")
    return alone


def answer(
    model: Any, question: str, where: Where, columns: Any, made: Callable[[reading.Table, Any], Any],
    num_draws: int | None = None,
) -> None:  # fmt: skip
    """Ask about a block of rows, write its answer, go on; the first block shows the decimal sign."""
    from gpbae.cli import files, pieces, roles
    from gpbae.processes import progress

    rows, total = model.rows_per_block(question, num_draws), pieces.num_rows(where.data)
    done, began = 0, time.monotonic()
    waiting: list[reading.Table] = []

    def chunks() -> Iterator[tuple[Any, Any, Any]]:
        for table in where.tables(columns, rows):
            waiting.append(table)
            yield table.places, None if question == "predict" else table.y, table.groups

    target = pieces.Writer(where.output, where.data, columns.outputs, image=columns.image)
    with progress.display("gpbae", not where.quiet) as show, target as writer:
        for found in model.stream(question, chunks(), num_draws):
            table = waiting.pop()
            if writer.decimal is None:
                writer.decimal = roles.sign_to_write(table.rows, columns, files.separator(where.data))
            writer.write(made(table, found))
            done += len(table.rows)
            show({"phase": "rows", "done": done, "total": max(total, done), "seconds": time.monotonic() - began})
        if not done:
            stretch = f"from {where.first or 'the start'} to {where.last or 'the end'}"
            raise InputError(f"No row of {where.data} lies {stretch} of its first input.")
