"""What an evaluation has not tried: columns of which nothing was hidden, and gaps much longer than its blocks."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gpbae.answering import wording
from gpbae.scoring.evaluation import Holdout

MUCH = 2
"""Ratio of lengths from which gaps are another matter than blocks."""


class Known(NamedTuple):
    """Which cells of a table are known, where its rows stand, and the names of its columns."""

    mask: np.ndarray
    x: np.ndarray | None
    codes: np.ndarray
    names: list[str]

    @classmethod
    def of(cls, x: Any, y: Any, groups: Any) -> "Known":
        from gpbae.tabular import tables

        seen = tables.observations(y)
        places = None if x is None else tables.inputs(x, len(seen.values))
        codes = tables.group_codes(groups, len(seen.values)).codes
        return cls(seen.mask, places, codes, list(map(str, seen.frame.names())))


def in_words(known: Known, holdout: Holdout) -> Iterator[str]:
    """A sentence for each; none where one column was to be hidden, which is all that was asked."""
    if not isinstance(holdout.how, str):
        return
    hidden = holdout.choose(known.mask, known.x, known.codes, known.names)
    is_untried = known.mask.any(axis=0) & ~hidden.any(axis=0)
    if is_untried.any():
        what = "it" if is_untried.sum() == 1 else "them"
        names = wording.some([name for name, untried in zip(known.names, is_untried, strict=True) if untried])
        yield (
            f"Nothing was hidden of {names}, so these scores do not tell of {what}: hide more with --holdout, or one "
            "column from a place on with --evaluate column:NAME:START."
        )
    if holdout.how == "blocks" and (length := typical_gap(known)) > MUCH * holdout.block_length:
        yield (
            f"Half of the missing cells lie in gaps of {length} rows or more, about which blocks of "
            f"{holdout.block_length} say little{_instead(known, holdout, length)}."
        )


def typical_gap(known: Known) -> int:
    """Half of the missing cells lie in gaps at least as long, in rows along x; 0 where nothing is missing.  Groups in
    which a column has nothing at all do not count: no block is like them."""
    order = np.lexsort((np.arange(len(known.codes)) if known.x is None else known.x[:, 0], known.codes))
    is_first = np.diff(known.codes[order], prepend=-1) != 0
    lengths = np.sort([length for column in known.mask[order].T for length in _gaps(column, is_first)])
    half = np.searchsorted(np.cumsum(lengths), lengths.sum() / 2)
    return int(lengths[half]) if len(lengths) else 0


def _gaps(seen: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Lengths of the gaps of one column."""
    starts = np.flatnonzero(is_first | (np.diff(seen, prepend=seen[0]) != 0))
    ends = np.r_[starts[1:], len(seen)]
    fills_group = is_first[starts] & np.r_[is_first, True][ends]
    return (ends - starts)[~seen[starts] & ~fills_group]


def _instead(known: Known, holdout: Holdout, length: int) -> str:
    """Blocks as long, or as long as a column can lose, which keeps half of what is not to be hidden, and a group has
    rows."""
    most = min(0.5 * (1 + holdout.share) * known.mask.sum(axis=0).max(), np.bincount(known.codes).max())
    longer = min(length, int(most))
    return f"; hide longer ones with --block-length {longer}" if longer > MUCH * holdout.block_length else ""
