"""Rows of a question that the model was fitted to: they need no refinement, for the chain has sampled their latents.

Refined once more they would count their cells twice wherever rows are coupled: the latents that an exact GP conditions
on have seen them already.
"""

from collections import Counter, defaultdict

import numpy as np

from gpbae.batches import Table


def recognise(table: Table, x: np.ndarray, y: np.ndarray, mask: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Of every row its number in the fitted table (same group, inputs, cells and gaps), −1 where it was not fitted.

    Copies of a row take the fitted copies in turn.
    """
    places = defaultdict(list)
    for number, mark in enumerate(_marks(table.x, table.y, table.mask, table.group, table)):
        places[mark].append(number)
    found, taken = np.full(len(x), -1), Counter()
    for row, mark in enumerate(_marks(x, y, mask, group, table)):
        if mark in places:
            found[row] = places[mark][taken[mark] % len(places[mark])]
            taken[mark] += 1
    return found


def _marks(x, y, mask, group, table: Table) -> list[int]:
    """A number per row that stands for all of it; adding zero makes −0 and 0 the same."""
    y = np.where(mask, y, 0).astype(table.y.dtype) + table.y.dtype.type(0)
    columns = (np.asarray(group, np.int64), np.asarray(x, np.float64) + 0.0, y, np.asarray(mask))
    whole = [np.ascontiguousarray(a).reshape(len(a), -1).view(np.uint8) for a in columns]
    return [hash(row.tobytes()) for row in np.concatenate(whole, axis=1)]


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
