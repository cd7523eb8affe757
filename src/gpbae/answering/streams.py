"""Questions about tables that do not fit in memory: rows come in chunks, answers leave in blocks."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gpbae.answering.blocks import Blocks, Given
from gpbae.answering.predictive import Predictive
from gpbae.answering.questions import Questions, by_row, with_filled
from gpbae.errors import InputError
from gpbae.tabular import tables

QUESTIONS = ("predict", "impute", "encode")


class Streams(Questions):
    """predict, impute and encode for any number of rows."""

    def stream(self, question: str, chunks: Iterable[tuple[Any, Any, Any]], num_draws: int | None = None
               ) -> Iterator[Predictive]:  # fmt: skip
        """Answers to chunks (x, y, groups) of a long table, in order, one for every block of rows.

        A chunk may be of any length and is cut into blocks of `rows_per_block(question)` rows; a part of a block takes
        as long as a whole one, and of chunks of whole blocks the answers are those of the whole table.  Rows of
        a group that was not fitted are answered together, by `impute` and `encode` only.
        """
        self._fitted()
        found = self._blocks(question, num_draws)
        if question != "predict":
            self._check_alone()
        number = 0
        for x, y, groups in chunks:
            for answer in self._pieces(question, found, number, x, y, groups):
                yield answer
                number += 1

    def rows_per_block(self, question: str, num_draws: int | None = None) -> int:
        """How many rows are answered at once."""
        self._fitted()
        return self._blocks(question, num_draws).num_rows

    def _blocks(self, question: str, num_draws: int | None) -> Blocks:
        if question not in QUESTIONS:
            raise InputError(f"stream answers 'predict', 'impute' or 'encode'; got {question!r}.")
        return Blocks(self, 4 if question == "predict" else 1, num_draws)

    def answers_alone(self, labels: Iterable[str]) -> bool:
        """Whether rows of these groups can be imputed and encoded one block after the other."""
        self._fitted()
        return self._stand_alone(tables.find_labels(np.array(list(labels), object), self.groups_))

    def _check_alone(self) -> None:
        if self.model_.prior.couples_rows:
            raise InputError(
                f"{type(self).__name__} couples all rows of a group, so they are answered together: use impute or "
                "encode, or SGPBAE."
            )

    def _pieces(self, question, found: Blocks, number: int, x, y, groups) -> Iterator[Predictive]:
        if question == "predict":
            x_values, rows, slots = self._query(x, groups, None)
            slot = by_row(rows, slots, len(x_values))
            for i, r in enumerate(_cuts(len(slot), found.num_rows)):
                yield found.predict(number + i, x_values[r], slot[r])
            return
        seen, given, _, slots = self._given(x, y, groups)
        if not self._stand_alone(slots):
            strange = np.asarray(groups)[given.slot < 0][0]
            raise InputError(
                f"stream knows the groups of fit only; got {strange!r}, whose rows must be answered together. Pass "
                "them to impute or encode."
            )
        ask = found.impute if question == "impute" else found.encode
        for i, r in enumerate(_cuts(len(given.x), found.num_rows)):
            answer = ask(number + i, Given(*(a[r] for a in given)), seen.frame)
            part = tables.Observations(seen.values[r], seen.mask[r], seen.frame)
            yield with_filled(answer, part, None) if question == "impute" else answer


def _cuts(num_rows: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))
