"""How good is a model on cells that it has not seen?  Hide some, fill them, score them, and ask simple rivals too."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from gpbae.errors import InputError
from gpbae.scoring import metrics, rivals, scoreboard
from gpbae.scoring.cellscores import CellScores, of_bent, of_draws, of_normal, of_whole, summary
from gpbae.tabular import tables
from gpbae.tabular.transforms import Identity

if TYPE_CHECKING:
    import pandas

NUM_BINS = 10
Hidden = Bool[np.ndarray, "N P"]


# What to hide.


@dataclasses.dataclass(frozen=True)
class Holdout:
    """Which of the known cells are hidden.

    `how` is "cells" (at random), "blocks" (runs of `block_length` rows along x, one column at a time), "rows" (whole
    rows), or ("column", name, start): one column from a place along the first input on.
    """

    how: Any = "cells"
    share: float = 0.1
    block_length: int = 24
    seed: int = 0
    words_of_start: str = ""
    """How a reader writes the start, if not as a number."""

    @property
    def words(self) -> str:
        return self.how if isinstance(self.how, str) else f"{self.how[0]} {self.how[1]} from {self._start}"

    @property
    def _start(self) -> str:
        return self.words_of_start or f"{self.how[2]:g}"

    def choose(self, mask: Hidden, x: np.ndarray | None, codes: np.ndarray, names: Sequence[str]) -> Hidden:
        rng = np.random.default_rng(self.seed)
        order = np.lexsort((np.arange(len(codes)) if x is None else x[:, 0], codes))
        if isinstance(self.how, str):
            if self.how not in ("cells", "blocks", "rows"):
                raise InputError(f"how must be 'cells', 'blocks', 'rows' or ('column', name, start); got {self.how!r}.")
            if not 0 <= self.share < 1:
                raise InputError(f"holdout must be a share of the known cells between 0 and 1; got {self.share}.")
            hidden = {"cells": _cells, "rows": _rows}.get(self.how, self._blocks)(mask, self.share, rng, order, codes)
        else:
            hidden = self._column(mask, x, names)
        if not hidden.any():
            if not isinstance(self.how, str):
                raise InputError(
                    f"Column {self.how[1]} has no known cell from {self._start} on; choose an earlier start."
                )
            raise InputError(f"holdout={self.share} hides no cell of this table; pass a larger share.")
        if not (mask & ~hidden).any():
            raise InputError("Hiding these cells leaves none to learn from; pass a smaller holdout.")
        return hidden

    def _blocks(self, mask, share, rng, order, codes):
        """Blocks in random places, each tried once, until enough known cells are hidden; every column keeps at least
        half of the share that is to be left."""
        hidden, count = np.zeros_like(mask), np.zeros(mask.shape[1], int)
        wanted, most = share * mask.sum(), 0.5 * (1 + share) * mask.sum(axis=0)
        for place in rng.permutation(mask.size):
            if count.sum() >= wanted:
                return hidden
            first, column = divmod(int(place), mask.shape[1])
            rows = order[first : first + self.block_length]
            rows = rows[codes[rows] == codes[rows[0]]]
            fresh = rows[mask[rows, column] & ~hidden[rows, column]]
            if count[column] + len(fresh) <= most[column]:
                hidden[fresh, column] = True
                count[column] += len(fresh)
        if wanted - count.sum() > self.block_length:
            raise InputError(
                f"Blocks of {self.block_length} rows can hide {count.sum() / mask.sum():.0%} of the known cells here; "
                f"got holdout={share}. Pass a smaller one, or a smaller block_length."
            )
        return hidden

    def _column(self, mask, x, names):
        kind, name, start = self.how
        if kind != "column" or str(name) not in names:
            raise InputError(f"how must name a column of y, ('column', name, start); got {self.how!r}.")
        if x is None:
            raise InputError("Hiding a column from some place on needs inputs x.")
        of_column = mask & (np.array(names) == str(name))
        hidden = of_column & (x[:, :1] >= float(start))
        if hidden.any() and not (of_column & ~hidden).any():
            raise InputError(
                f"Column {name} has no known cell before {self._start}, so nothing would be left of it to learn from; "
                "choose a later start."
            )
        return hidden

    def clusters(self, mask: Hidden, hidden: Hidden, x: np.ndarray | None, codes: np.ndarray) -> np.ndarray:
        """A number for every hidden cell, the same for cells that are wrong together: those of a block, else of a
        stretch as long as one, for rows depend on their neighbours; where there are no inputs, of a row."""
        order = np.lexsort((np.arange(len(codes)) if x is None else x[:, 0], codes))
        label = np.zeros((*hidden.shape, 2), int)
        if self.how == "blocks":  # nothing visible lies between cells of a block
            label[order, :, 0] = np.cumsum((mask & ~hidden)[order], axis=0)
            label[..., 1] = np.arange(hidden.shape[1]) + hidden.shape[1] * codes[:, None]
        elif x is None:
            label[..., 0] = np.arange(len(hidden))[:, None]
        else:
            label[order, :, 0] = np.arange(len(hidden))[:, None] // self.block_length
        return np.unique(label[hidden], axis=0, return_inverse=True)[1].ravel()


def _cells(mask, share, rng, order, codes):
    known = np.flatnonzero(mask)
    hidden = np.zeros(mask.size, bool)
    hidden[rng.choice(known, round(share * len(known)), replace=False)] = True
    return hidden.reshape(mask.shape)


def _rows(mask, share, rng, order, codes):
    chosen = rng.random(len(mask)) < share
    return mask & chosen[:, None]


# Scores.


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores by method and column, on the same hidden cells.

    The row "all" is in units of each column's standard deviation, so that no column drowns the others; its nlpd is the
    average over cells in their own units.  Errors of numbers and of labels have no common unit: a table of both has
    rows "all numbers" and "all labels" instead.
    """

    how: str
    model: str
    table: "pandas.DataFrame"
    pit: dict[str, list[int]]
    seconds: dict[str, float]

    def overall(self) -> "pandas.DataFrame":
        """One row per method, all columns together; of a table of numbers and labels, all numbers."""
        of_all = scoreboard.ALL if scoreboard.ALL in self.table.index.get_level_values("column") else scoreboard.NUMBERS
        return self.table.xs(of_all, level="column")

    def rows(self) -> list[dict[str, Any]]:
        """As `results.json` has it: experiment, model, column, metrics, seconds, PIT histogram of all numbers."""
        found = []
        for method, column in self.table.index.tolist():
            line = self.table.loc[(method, column)]
            row = {"experiment": self.how, "model": method, "column": column, "metrics": line.to_dict(),
                   "seconds": self.seconds[method]}  # fmt: skip
            found.append(row | ({"pit": self.pit[method]} if column in (scoreboard.ALL, scoreboard.NUMBERS) else {}))
        return found

    @classmethod
    def of_rows(cls, model: str, rows: Sequence[Mapping[str, Any]]) -> "Evaluation":
        """What `rows` was made of, also after it has been a file, where a number that is none is None."""
        import pandas as pd

        lines = {(row["model"], row["column"]): scoreboard.with_infinity(row["metrics"]) for row in rows}
        table = pd.DataFrame(lines).T.astype(float)
        table.index = table.index.set_names(["method", "column"])
        pit = {row["model"]: row["pit"] for row in rows if "pit" in row}
        return cls(rows[0]["experiment"], model, table, pit, {row["model"]: row["seconds"] for row in rows})


def evaluate(
    model: Any,
    x: Any,
    y: Any,
    groups: Any = None,
    holdout: Holdout | None = None,
    with_rivals: bool = True,
    say: Callable[[dict[str, Any]], None] = lambda event: None,
    run_dir: Any = None,
    suited: Callable[[Any], Any] | None = None,
) -> Evaluation:
    """Hide cells, refit a copy of the model on the rest, fill them, and score it beside simple rivals.

    With `run_dir` the refit is kept in that folder as it goes, and goes on from there when it was stopped.  `suited`
    makes the copy from the table without its hidden cells, where arguments were chosen by looking at the table.
    """
    import pandas as pd

    holdout = Holdout() if holdout is None else holdout
    seen = tables.observations(y)
    names = seen.frame.names()
    positions = None if x is None else tables.inputs(x, len(seen.values))
    codes = tables.group_codes(groups, len(seen.values)).codes
    hidden = holdout.choose(seen.mask, positions, codes, names)
    truth = seen.values[hidden]

    started = time.monotonic()
    title = type(model).__name__
    masked = _masked(y, seen, hidden)
    copy = type(model)(**model.get_params()) if suited is None else suited(masked)
    fitted = copy.fit(x, masked, groups, **({} if run_dir is None else {"run_dir": run_dir}))
    say({"phase": "refining", "seconds": round(time.monotonic() - started, 3)})
    answer = fitted.impute(x, masked, groups)
    own, kinds = _of_answer(answer, seen, hidden)
    scores = {title: own}
    seconds = {title: time.monotonic() - started}
    again = _once_more(holdout, seen.mask & ~hidden, positions, codes, names)
    if with_rivals and len(names) > rivals.MANY_COLUMNS:
        warnings.warn(f"{len(names)} columns would take hours of {' and '.join(rivals.SLOW_ON_MANY_COLUMNS)}, so these "
                      "rivals are left out.", stacklevel=3)  # fmt: skip
    for name, rival in rivals.suited(positions, len(names)).items() if with_rivals else ():
        started = time.monotonic()
        say({"phase": "rivals", "rival": name, "seconds": 0.0})
        left = np.where(hidden, np.nan, seen.values)
        filled = rivals.fill(rival, positions, codes, left, lambda mask: again, answer.transforms)
        scores[name] = _of_rival(filled, seen.values, hidden, kinds)
        seconds[name] = time.monotonic() - started

    column = np.broadcast_to(np.arange(len(names)), hidden.shape)[hidden]
    are_classes = kinds[0] == "class"
    unit = np.where(are_classes, 1.0, tables.fit_scaler(seen.values, seen.mask & ~hidden, True).scale)
    lines = {}
    together = holdout.clusters(seen.mask, hidden, positions, codes)
    for method, found in scores.items():
        more = np.abs(found.error) - np.abs(own.error) if with_rivals else None
        cells = Cells(truth, column, more, together)
        lines |= {(method, n): s for n, s in _by_column(found, cells, unit, are_classes, names).items()}
    table = pd.DataFrame(lines).T
    table.index = table.index.set_names(["method", "column"])
    pit = {m: np.histogram(s.pit[np.isfinite(s.pit)], NUM_BINS, (0, 1))[0].tolist() for m, s in scores.items()}
    return Evaluation(holdout.words, title, table, pit, {m: round(s, 1) for m, s in seconds.items()})


def _once_more(holdout: Holdout, mask: Hidden, x: np.ndarray | None, codes: np.ndarray, names: Sequence[str]) -> Hidden:
    """The same kind of hiding among the cells that are left, other rows or an earlier part of the column; nothing where
    too few are left for that, which is no reason to lose the refit."""
    again = dataclasses.replace(holdout, seed=holdout.seed + 1)
    if not isinstance(holdout.how, str) and x is not None:
        left = x[mask[:, list(names).index(str(holdout.how[1]))], 0]
        again = dataclasses.replace(holdout, how=(*holdout.how[:2], float(np.quantile(left, 0.8))))
    try:
        return again.choose(mask, x, codes, names)
    except InputError:
        return np.zeros_like(mask)


def _of_answer(answer, seen, hidden) -> tuple[CellScores, np.ndarray]:
    """Look under the hidden cells; also what kind of thing every cell holds."""
    samples = answer.samples_of(hidden)
    mean = np.asarray(answer.unwarned_mean, float).reshape(hidden.shape)
    kinds = np.broadcast_to(answer.kinds, hidden.shape)
    bent = [not isinstance(t, Identity) for t in answer.transforms] or [False] * hidden.shape[1]
    if (have_points := (kinds == "class") | np.array(bent)).any():
        mean = np.where(have_points, answer.point_values, mean)
    log_density = answer.log_density(seen.values, hidden)[hidden]
    return of_draws(mean[hidden], samples, log_density, seen.values[hidden], (kinds == "class")[hidden]), kinds


def _of_rival(filled: rivals.Filled, values: np.ndarray, hidden: Hidden, kinds: np.ndarray) -> CellScores:
    """Scores of the hidden cells, column by column, in the order of the table; ties are broken as the model's are."""
    scores = np.full((len(CellScores._fields), *hidden.shape), np.nan)
    part = np.zeros(hidden.shape)
    part[hidden] = metrics.parts_of_ties((int(hidden.sum()),))
    for p, here in enumerate(hidden.T):
        transform = filled.transforms[p] if filled.transforms else Identity()
        cells = (filled.mean[here, p], filled.sd[here, p], values[here, p])
        scores[:, here, p] = _of_rival_column(*cells, kinds[0, p], transform, part[here, p])
    return CellScores(*scores[:, hidden])


def _of_rival_column(mean, sd, truth, kind: str, transform: Any, part: np.ndarray) -> CellScores:
    """Rivals are normal, maybe after a transform: of whole numbers they get the mass around each, the ends all that
    lies beyond; codes they take for numbers, so that their guess is the nearest, and a density of classes they have
    not."""
    if kind == "class":
        unknown = np.full(len(truth), np.nan)
        return CellScores((np.round(mean) != truth).astype(float), unknown, unknown, unknown, unknown)
    if kind in ("truth", "count"):
        return of_whole(mean, sd, truth, 1.0 if kind == "truth" else np.inf, part)
    return of_normal(mean, sd, truth) if isinstance(transform, Identity) else of_bent(mean, sd, truth, transform, part)


def _masked(y, seen, hidden):
    """y without its hidden cells, in its own type; labels that are hidden altogether are still known of."""
    if seen.frame.codings is not None:
        codings = tuple(c._replace(dtype="category") if c.holds == "labels" else c for c in seen.frame.codings)
        frame = seen.frame._replace(codings=codings)
        return frame.decode(np.where(hidden, np.nan, seen.values), seen.frame.index)
    if hasattr(y, "mask") and hasattr(y, "columns"):
        return y.mask(hidden)
    return seen.frame.restore(np.where(hidden, np.nan, seen.values), seen.frame.index)


class Cells(NamedTuple):
    """Of every hidden cell: the truth, its column, how much larger its error is than that of the model (None where
    there are no rivals), and a number that it shares with those that are wrong together."""

    truth: np.ndarray
    column: np.ndarray
    more: np.ndarray | None
    together: np.ndarray

    def doubt(self, here: np.ndarray, unit: Any) -> dict[str, float]:
        """Half the 95 % interval of the difference between the MAE and that of the model."""
        if self.more is None:
            return {}
        return {scoreboard.DOUBT: metrics.clustered_margin(self.more[here] / unit, self.together[here])}


def _by_column(scores: CellScores, cells: Cells, unit, are_classes, names) -> dict[str, dict[str, Any]]:
    """A summary for every column that has hidden cells, then for all of them, numbers and labels apart."""
    truth, column = cells.truth, cells.column
    variance = np.array([np.var(truth[column == p]) if (column == p).any() else 0.0 for p in range(len(names))])
    variance = np.where(are_classes, np.nan, variance)
    found = {}
    for p, name in enumerate(names):
        if (here := column == p).any():
            of_these = CellScores(*(part[here] for part in scores))
            found[name] = summary(of_these, 1.0, variance[p]) | cells.doubt(here, 1.0)
    of_labels = are_classes[column]
    are_mixed = of_labels.any() and not of_labels.all()
    wholes = {scoreboard.NUMBERS: ~of_labels, scoreboard.LABELS: of_labels} if are_mixed else {
        scoreboard.ALL: np.ones(len(column), bool)}  # fmt: skip
    for name, here in wholes.items():
        of_these = CellScores(*(part[here] for part in scores))
        scale = unit[column[here]]
        found[name] = summary(of_these, scale, variance[column[here]]) | cells.doubt(here, scale)
    return found
