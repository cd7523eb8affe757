"""Rows of a question that the model was fitted to: they need no refinement, for the chain has sampled their latents.

Refined once more they would count their cells twice wherever rows are coupled: the latents that an exact GP conditions
on have seen them already.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from gpbae.sampling.batches import Table

ROWS_AT_A_TIME = 65_536


class Recogniser:
    """Knows the rows of a fitted table again (same group, inputs, cells and gaps), whatever block they come in."""

    def __init__(self, table: Table):
        self.table = table
        self.places: dict[int, list[int]] = defaultdict(list)
        self.taken: Counter[int] = Counter()
        for number, mark in enumerate(_marks(table.x, table.y, table.mask, table.group, table)):
            self.places[mark].append(number)

    def numbers(self, x: np.ndarray, y: np.ndarray, mask: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Of every row its number in the fitted table, −1 where it was not fitted; copies take the copies in turn."""
        found = np.full(len(x), -1)
        for row, mark in enumerate(_marks(x, y, mask, group, self.table)):
            if (numbers := self.places.get(mark)) is not None:
                found[row] = numbers[self.taken[mark] % len(numbers)]
                self.taken[mark] += 1
        return found


def recognise(table: Table, x: np.ndarray, y: np.ndarray, mask: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Of every row its number in the fitted table, −1 where it was not fitted."""
    return Recogniser(table).numbers(x, y, mask, group)


def _marks(x, y, mask, group, table: Table) -> Iterator[int]:
    """A number per row that stands for all of it; adding zero makes −0 and 0 the same."""
    columns = [np.asarray(a) for a in (group, x, y, mask)]
    for start in range(0, len(columns[0]), ROWS_AT_A_TIME):
        group, x, y, mask = (a[start : start + ROWS_AT_A_TIME] for a in columns)
        y = np.where(mask, y, 0).astype(table.y.dtype) + table.y.dtype.type(0)
        parts = (group.astype(np.int64), x.astype(np.float64) + 0.0, y, mask)
        whole = [np.ascontiguousarray(a).reshape(len(a), -1).view(np.uint8) for a in parts]
        yield from (hash(row.tobytes()) for row in np.concatenate(whole, axis=1))


def remaining(rows: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of rows by group, (G, n) padded with their number, those that are left, and which groups have any."""
    num_rows = len(left)
    kept = [r[r < num_rows] for r in rows]
    kept = [r[left[r]] for r in kept]
    members = np.flatnonzero([len(r) for r in kept])
    table = np.full((len(members), max((len(kept[g]) for g in members), default=1)), num_rows, rows.dtype)
    for line, g in enumerate(members):
        table[line, : len(kept[g])] = kept[g]
    return table, members
