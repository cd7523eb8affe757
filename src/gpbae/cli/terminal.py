"""What commands print: answers on stdout, news of a run on stderr."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from gpbae.answering.advice import TOGETHER
from gpbae.scoring import glossary

WIDTH_ELSEWHERE = 140
"""Columns where there is no terminal to ask: a file or a pipe folds nothing."""


def say(text: str) -> None:
    """A line of news."""
    print(text, file=sys.stderr, flush=True)


def warn(sentences: Sequence[str]) -> None:
    """What to be careful about, what to do about several things together, and what the words mean."""
    for words in sentences:
        say(words if words.startswith(TOGETHER) else f"Warning: {words}")
    for word, meaning in glossary.meanings(" ".join(sentences)).items():
        say(f"({word}: {meaning}.)")


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> None:
    """A table whose first columns are words and the others numbers; below it, what the words of its header mean."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < left else "right", overflow="fold", no_wrap=i >= left)
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_ELSEWHERE)
    console.print(table)
    words = "; ".join([*header, *(str(cell) for row in rows for cell in row[:left])])
    for word, meaning in glossary.meanings(words).items():
        console.print(Text(f"{word}: {meaning}.", "dim"))


def verdict(passed: bool) -> Any:
    """A cell that says whether a check has passed, also to those who see no colours."""
    from rich.text import Text

    return Text("pass", "green") if passed else Text("FAIL", "bold red")


def _text(cell: Any) -> Any:
    from rich.text import Text

    if isinstance(cell, Text):
        return cell
    return Text(f"{cell:.3g}" if isinstance(cell, float) else str(cell))
