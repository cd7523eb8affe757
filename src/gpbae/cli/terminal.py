"""What commands print: answers on stdout, news of a run on stderr."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from gpbae.answering.advice import TOGETHER
from gpbae.scoring import glossary

WIDTH_ELSEWHERE = 140
"""Columns where there is no terminal to ask: a file or a pipe folds nothing."""
NARROWEST, PADDING = 24, 3
"""Words get so much room before numbers do; a column's border and blanks."""


def say(text: str) -> None:
    """A line of news."""
    print(text, file=sys.stderr, flush=True)


def warn(sentences: Sequence[str], with_meanings: bool = True) -> None:
    """What to be careful about, what to do about several things together, and what the words mean."""
    for words in sentences:
        say(words if words.startswith(TOGETHER) else f"Warning: {words}")
    for word, meaning in glossary.meanings(" ".join(sentences)).items() if with_meanings else ():
        say(f"({word}: {meaning}.)")


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> None:
    """A table whose first columns are words and the others numbers; below it, what the words of its header mean."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
    console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_ELSEWHERE)
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max([len(str(name)), *(len(row[i].plain) for row in cells)]) for i, name in enumerate(header)]
    for shown in _fitting(widths, left, console.width):
        table = Table(title=title, title_justify="left")
        for i in shown:
            table.add_column(header[i], justify="left" if i < left else "right", overflow="fold", no_wrap=i >= left,
                             min_width=min(widths[i], NARROWEST) if i < left else None)  # fmt: skip
        for row in cells:
            table.add_row(*(row[i] for i in shown))
        console.print(table)
    words = "; ".join([*header, *(str(cell) for row in rows for cell in row[:left])])
    for word, meaning in glossary.meanings(words).items():
        console.print(Text(f"{word}: {meaning}.", "dim"))


def _fitting(widths: Sequence[int], left: int, room: int) -> list[list[int]]:
    """Columns of as many tables as a terminal of this width needs: each has the first ones, which say what a row is."""
    names = list(range(left))
    taken = sum(min(widths[i], NARROWEST) + PADDING for i in names) + 1
    tables, used = [[*names]], taken
    for i in range(left, len(widths)):
        if used + widths[i] + PADDING > room and len(tables[-1]) > left:
            tables.append([*names])
            used = taken
        tables[-1].append(i)
        used += widths[i] + PADDING
    return tables


def verdict(passed: bool) -> Any:
    """A cell that says whether a check has passed, also to those who see no colours."""
    from rich.text import Text

    return Text("pass", "green") if passed else Text("FAIL", "bold red")


def _text(cell: Any) -> Any:
    from rich.text import Text

    if isinstance(cell, Text):
        return cell
    return Text(f"{cell:.3g}" if isinstance(cell, float) else str(cell))
