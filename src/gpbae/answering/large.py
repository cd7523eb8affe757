"""An answer too large to hold: found block by block of rows when it is asked for, so that memory stays bounded."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpbae.answering.predictive import Predictive, check_probability, warn_of_labels
from gpbae.errors import InputError
from gpbae.processes import progress


class LargePredictive:
    """A `Predictive` over so many rows that its draws are never held at once.

    `mean`, `sd`, `point` and `filled` come from one pass over the rows; `interval`, `quantile`, `variance_parts` and
    `log_density` from a pass each.  `blocks()` goes through the rows once and gives what a `Predictive` can give for
    each block, to be written to a file, say.  Equal blocks have equal answers however often they are asked.
    """

    def __init__(self, answer: Callable[[int, slice], Predictive], num_rows: int, rows_per_block: int,
                 index: Any = None, title: str = "answer", show: Any = False):  # fmt: skip
        self._answer, self._num_rows, self._rows_per_block = answer, num_rows, rows_per_block
        self._index, self._title, self._show = index, title, show

    def __repr__(self) -> str:
        return f"<LargePredictive: {self._num_rows} rows in blocks of {self._rows_per_block}>"

    def blocks(self) -> Iterator[tuple[slice, Predictive]]:
        """Rows and their answer, block after block."""
        starts, began = range(0, self._num_rows, self._rows_per_block), time.monotonic()
        with progress.display(self._title, self._show) as say:
            for number, start in enumerate(starts):
                rows = slice(start, min(start + self._rows_per_block, self._num_rows))
                yield rows, self._answer(number, rows)
                say({"phase": "rows", "done": rows.stop, "total": self._num_rows,
                     "seconds": round(time.monotonic() - began, 3)})  # fmt: skip

    def _over_blocks(self, part: Callable[[Predictive, slice], Any]) -> Any:
        return _joined([part(block, rows) for rows, block in self.blocks()], self._index)

    @property
    def num_draws(self) -> int:
        """Of the posterior."""
        return self._moments["num_draws"]

    @functools.cached_property
    def kinds(self) -> np.ndarray:
        """What each column holds."""
        return next(self.blocks())[1].kinds

    @functools.cached_property
    def transforms(self) -> tuple[Any, ...]:
        """Of each column, or () where none has any."""
        return next(self.blocks())[1].transforms

    @functools.cached_property
    def _moments(self) -> dict[str, Any]:
        """What is asked most, in one pass."""
        names = ("unwarned_mean", "sd", "point", "point_values", "filled")
        found, labels, num_draws = [], [], 0
        for _, block in self.blocks():
            found.append({n: getattr(block, n) for n in names if hasattr(block, n)})
            labels, num_draws = block.labels, block.num_draws
        joined = {n: _joined([p[n] for p in found], None if n == "point_values" else self._index) for n in found[0]}
        return joined | {"labels": labels, "num_draws": num_draws}

    @functools.cached_property
    def mean(self) -> Any:
        """Predictive mean; labels have none, as in `Predictive`."""
        warn_of_labels(self._moments["labels"])
        return self.unwarned_mean

    @property
    def unwarned_mean(self) -> Any:
        """`mean`, for those who know of the labels."""
        return self._moments["unwarned_mean"]

    @property
    def sd(self) -> Any:
        """Predictive standard deviation, all sources of uncertainty included."""
        return self._moments["sd"]

    @property
    def point(self) -> Any:
        """One value for every cell, such as y could hold."""
        return self._moments["point"]

    @property
    def point_values(self) -> np.ndarray:
        """The values of `point` as numbers, (rows, P)."""
        return self._moments["point_values"]

    @property
    def filled(self) -> Any:
        """Of `impute`: y with its gaps at `point`."""
        if "filled" not in self._moments:
            raise AttributeError("Only the answer of impute has `filled`.")
        return self._moments["filled"]

    @property
    def samples(self) -> np.ndarray:
        raise InputError(
            f"The draws of {self._num_rows} rows are too many to hold; go through them with blocks(), or ask for fewer "
            "rows or, with num_draws, fewer draws."
        )

    def samples_of(self, cells: np.ndarray) -> np.ndarray:
        """Draws of some cells, given as a mask (rows, P): (draws, cells)."""
        return np.concatenate([block.samples_of(cells[rows]) for rows, block in self.blocks()], axis=1)

    def probabilities(self, column: Any) -> Any:
        """Of a column of classes: the probability of each class, (rows, classes)."""
        return self._over_blocks(lambda block, _: block.probabilities(column))

    def quantile(self, q: float) -> Any:
        """Quantile of the predictive distribution, cell by cell."""
        check_probability("q", q)
        return self._over_blocks(lambda block, _: block.quantile(q))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Central interval that holds the truth with probability `level`: (lower, upper)."""
        check_probability("level", level)
        ends = [block.interval(level) for _, block in self.blocks()]
        return _joined([low for low, _ in ends], self._index), _joined([high for _, high in ends], self._index)

    def variance_parts(self) -> dict[str, Any]:
        """The predictive variance by source."""
        parts = [block.variance_parts() for _, block in self.blocks()]
        return {name: _joined([part[name] for part in parts], self._index) for name in parts[0]}

    def log_density(self, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """log of the predictive mixture density of every observed cell, original units; NaN elsewhere."""
        parts = [block.log_density(y[rows], mask[rows]) for rows, block in self.blocks()]
        return np.concatenate(parts)


def _joined(parts: list[Any], index: Any) -> Any:
    """Blocks of rows, arrays or data frames, as one."""
    if not hasattr(parts[0], "columns"):
        return np.concatenate(parts)
    import pandas as pd

    whole = pd.concat(parts, ignore_index=True)
    return whole if index is None else whole.set_axis(index, axis=0)
