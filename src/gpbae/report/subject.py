"""What a page is about, and how its numbers are written."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpbae.answering.advice import Typed, spelled_out
from gpbae.overview import Overview
from gpbae.scoring import scoreboard

MOST_TABLE_ROWS = 60


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a page is about: a view of the model, the roles of its columns, a test on hidden cells if there was, and a
    sentence about one that was begun and not finished."""

    view: Overview
    columns: Any = None
    evaluation: Sequence[Mapping[str, Any]] = ()
    unfinished: str = ""
    typed: Typed | None = None
    """What it was fitted by, if that was a command."""
    run: str = "RUN"
    """The folder of its run, as a command takes it."""

    @property
    def model(self) -> Any:
        return self.view.model

    @property
    def tests(self) -> list[Mapping[str, Any]]:
        """What the test says of all columns together, a row for each way of hiding and method, and for labels one."""
        return [row for row in self.evaluation if scoreboard.is_summary(row)]

    @property
    def is_of_a_call(self) -> bool:
        """Whether the model was fitted in Python, or nobody knows of the columns of a run."""
        return self.columns is None and self.typed is None

    @functools.cached_property
    def warnings(self) -> list[str]:
        """What is wrong and what to do, by a call or by a command."""
        said = self.diagnostics.attrs
        if self.is_of_a_call:
            return said["warnings"]
        return [spelled_out(words, self.typed) for words in said["warnings with commands"]]

    @functools.cached_property
    def diagnostics(self) -> Any:
        return self.model.diagnostics(self.view.dates)


def count(number: int, noun: str) -> str:
    """3 rows, 1 row."""
    return f"{number} {noun}{'s' * (number != 1)}"


def cell(value: Any) -> str:
    """A number in four digits, nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if value != value else f"{value:.4g}"
    return str(value)
