"""How good is a model on cells that it has not seen?  Hide some, fill them, score them, and ask simple rivals too."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from gpbae import metrics, rivals, tables
from gpbae.errors import InputError

if TYPE_CHECKING:
    import pandas

LEVELS = (0.5, 0.8, 0.9, 0.95)
NUM_BINS = 10
ALL = "all"
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
        """Blocks until enough known cells are hidden; no column loses more than half of what it has."""
        hidden, wanted = np.zeros_like(mask), share * mask.sum()
        most = 0.5 * mask.sum(axis=0)
        for _ in range(200 * mask.shape[1]):
            first, column = rng.integers(len(order)), rng.integers(mask.shape[1])
            rows = order[first : first + self.block_length]
            rows = rows[codes[rows] == codes[rows[0]]]
            fresh = mask[rows, column] & ~hidden[rows, column]
            if fresh.any() and hidden[:, column].sum() + fresh.sum() <= most[column]:
                hidden[rows, column] |= fresh
            if hidden.sum() >= wanted:
                break
        return hidden

    def _column(self, mask, x, names):
        kind, name, start = self.how
        if kind != "column" or str(name) not in names:
            raise InputError(f"how must name a column of y, ('column', name, start); got {self.how!r}.")
        if x is None:
            raise InputError("Hiding a column from some place on needs inputs x.")
        return mask & (np.array(names) == str(name)) & (x[:, :1] >= float(start))


def _cells(mask, share, rng, order, codes):
    known = np.flatnonzero(mask)
    hidden = np.zeros(mask.size, bool)
    hidden[rng.choice(known, round(share * len(known)), replace=False)] = True
    return hidden.reshape(mask.shape)


def _rows(mask, share, rng, order, codes):
    chosen = rng.random(len(mask)) < share
    return mask & chosen[:, None]


# Scores.


class CellScores(NamedTuple):
    """Of every hidden cell: errors of the mean, minus the log density, CRPS, and where the truth fell (PIT)."""

    error: Float[np.ndarray, " n"]
    nlpd: Float[np.ndarray, " n"]
    crps: Float[np.ndarray, " n"]
    pit: Float[np.ndarray, " n"]


def of_draws(mean: np.ndarray, samples: np.ndarray, log_density: np.ndarray, truth: np.ndarray,
             are_classes: np.ndarray | None = None) -> CellScores:  # fmt: skip
    """Scores of draws (S, n) whose density is known; a class is right or wrong, its CRPS is half the Brier score."""
    crps, pit = metrics.crps_of_cells(samples, truth), metrics.pit(samples, truth)
    error = mean - truth
    if are_classes is not None and are_classes.any():
        error = np.where(are_classes, error != 0, error)
        crps[are_classes] = 0.5 * metrics.brier_of_cells(samples[:, are_classes], truth[are_classes])
        pit = np.where(are_classes, np.nan, pit)
    return CellScores(error, -log_density, crps, pit)


def of_normal(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> CellScores:
    """Scores of a normal distribution, in closed form."""
    law = stats.norm(mean, sd)
    return CellScores(mean - truth, -law.logpdf(truth), metrics.gaussian_crps(mean, sd, truth), law.cdf(truth))


def summary(scores: CellScores, unit: np.ndarray | float, variance: np.ndarray | float) -> dict[str, Any]:
    """Averages; errors and CRPS in `unit`s, SMSE over the `variance` of the truth."""
    error = scores.error / unit
    with np.errstate(divide="ignore", invalid="ignore"):
        smse = np.where(np.asarray(variance) > 0, scores.error**2 / variance, np.nan)
    pit = scores.pit[np.isfinite(scores.pit)]  # labels have no order, so no interval
    inside = {f"coverage{round(100 * q)}": float(np.mean(np.abs(pit - 0.5) <= q / 2)) if len(pit) else float("nan")
              for q in LEVELS}  # fmt: skip
    return {
        "mae": float(np.mean(np.abs(error))),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "smse": float(np.nanmean(smse)) if np.isfinite(smse).any() else float("nan"),
        "nlpd": _mean_of_known(scores.nlpd),
        "crps": _mean_of_known(scores.crps / unit),
        **inside,
        "cells": len(error),
    }


def _mean_of_known(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores by method and column, on the same hidden cells.

    The row of all columns is in units of each column's standard deviation, so that no column drowns the others; its
    nlpd is the average over cells in their own units.
    """

    how: str
    model: str
    table: "pandas.DataFrame"
    pit: dict[str, list[int]]
    seconds: dict[str, float]

    def overall(self) -> "pandas.DataFrame":
        """One row per method, all columns together."""
        return self.table.xs(ALL, level="column")

    def rows(self) -> list[dict[str, Any]]:
        """As `results.json` has it: experiment, model, column, metrics, seconds, and the PIT histogram of all cells."""
        found = []
        for method, column in self.table.index.tolist():
            line = self.table.loc[(method, column)]
            row = {"experiment": self.how, "model": method, "column": column, "metrics": line.to_dict(),
                   "seconds": self.seconds[method]}  # fmt: skip
            found.append(row | ({"pit": self.pit[method]} if column == ALL else {}))
        return found

    @classmethod
    def of_rows(cls, model: str, rows: Sequence[Mapping[str, Any]]) -> "Evaluation":
        """What `rows` was made of, also after it has been a file, where a number that is none is None."""
        import pandas as pd

        lines = {(row["model"], row["column"]): row["metrics"] for row in rows}
        table = pd.DataFrame(lines).T.astype(float)
        table.index = table.index.set_names(["method", "column"])
        pit = {row["model"]: row["pit"] for row in rows if row["column"] == ALL}
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
) -> Evaluation:
    """Hide cells, refit a copy of the model on the rest, fill them, and score it beside simple rivals.

    With `run_dir` the refit is kept in that folder as it goes, and goes on from there when it was stopped.
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
    fitted = type(model)(**model.get_params()).fit(
        x, masked, groups, **({} if run_dir is None else {"run_dir": run_dir})
    )
    say({"phase": "refining", "seconds": round(time.monotonic() - started, 3)})
    own, kinds = _of_answer(fitted.impute(x, masked, groups), seen, hidden)
    scores = {title: own}
    seconds = {title: time.monotonic() - started}
    again = _once_more(holdout, seen.mask & ~hidden, positions, names)
    for name, rival in rivals.suited(positions).items() if with_rivals else ():
        started = time.monotonic()
        say({"phase": "rivals", "rival": name, "seconds": 0.0})
        filled = rivals.fill(rival, positions, codes, np.where(hidden, np.nan, seen.values),
                              lambda mask: again.choose(mask, positions, codes, names))  # fmt: skip
        scores[name] = _of_rival(filled.mean[hidden], filled.sd[hidden], truth, kinds[hidden])
        seconds[name] = time.monotonic() - started

    column = np.broadcast_to(np.arange(len(names)), hidden.shape)[hidden]
    are_classes = kinds[0] == "class"
    unit = np.where(are_classes, 1.0, tables.fit_scaler(seen.values, seen.mask & ~hidden, True).scale)
    lines = {}
    for method, found in scores.items():
        lines |= {(method, n): s for n, s in _by_column(found, truth, column, unit, are_classes, names).items()}
    table = pd.DataFrame(lines).T
    table.index = table.index.set_names(["method", "column"])
    pit = {m: np.histogram(s.pit[np.isfinite(s.pit)], NUM_BINS, (0, 1))[0].tolist() for m, s in scores.items()}
    return Evaluation(holdout.words, title, table, pit, {m: round(s, 1) for m, s in seconds.items()})


def _once_more(holdout: Holdout, mask: Hidden, x: np.ndarray | None, names: Sequence[str]) -> Holdout:
    """The same kind of hiding among the cells that are left: other rows, or an earlier part of the column."""
    if isinstance(holdout.how, str) or x is None:
        return dataclasses.replace(holdout, seed=holdout.seed + 1)
    left = x[mask[:, list(names).index(str(holdout.how[1]))], 0]
    start = float(np.quantile(left, 0.8)) if len(left) else -np.inf
    return dataclasses.replace(holdout, how=(*holdout.how[:2], start))


def _of_answer(answer, seen, hidden) -> tuple[CellScores, np.ndarray]:
    """Look under the hidden cells; also what kind of thing every cell holds."""
    samples = answer.samples_of(hidden)
    mean = np.asarray(answer.mean, float).reshape(hidden.shape)
    kinds = np.broadcast_to(answer.kinds, hidden.shape)
    if (kinds == "class").any():
        mean = np.where(kinds == "class", answer.point_values, mean)
    log_density = answer.log_density(seen.values, hidden)[hidden]
    return of_draws(mean[hidden], samples, log_density, seen.values[hidden], (kinds == "class")[hidden]), kinds


def _of_rival(mean, sd, truth, kinds) -> CellScores:
    """Rivals are normal: of whole numbers they get the mass around each; codes they take for numbers, so that their
    guess is the nearest code, and a density of classes they have not."""
    found, are_classes, are_whole = of_normal(mean, sd, truth), kinds == "class", np.isin(kinds, ("count", "truth"))
    mass = stats.norm.cdf(truth + 0.5, mean, sd) - stats.norm.cdf(truth - 0.5, mean, sd)
    nlpd = np.where(are_whole, -np.log(np.maximum(mass, 1e-300)), found.nlpd)
    unknown = {name: np.where(are_classes, np.nan, part)
               for name, part in (("nlpd", nlpd), ("crps", found.crps), ("pit", found.pit))}  # fmt: skip
    return found._replace(error=np.where(are_classes, np.round(mean) != truth, found.error), **unknown)


def _masked(y, seen, hidden):
    """y without its hidden cells, in its own type; labels that are hidden altogether are still known of."""
    if seen.frame.codings is not None:
        codings = tuple(c._replace(dtype="category") if c.holds == "labels" else c for c in seen.frame.codings)
        frame = seen.frame._replace(codings=codings)
        return frame.decode(np.where(hidden, np.nan, seen.values), seen.frame.index)
    if hasattr(y, "mask") and hasattr(y, "columns"):
        return y.mask(hidden)
    return seen.frame.restore(np.where(hidden, np.nan, seen.values), seen.frame.index)


def _by_column(scores: CellScores, truth, column, unit, are_classes, names) -> dict[str, dict[str, Any]]:
    """A summary for every column that has hidden cells, then for all of them, there without densities of labels."""
    variance = np.array([np.var(truth[column == p]) if (column == p).any() else 0.0 for p in range(len(names))])
    variance = np.where(are_classes, np.nan, variance)
    found = {}
    for p, name in enumerate(names):
        if (here := column == p).any():
            found[name] = summary(CellScores(*(part[here] for part in scores)), 1.0, variance[p])
    compared = {name: np.where(are_classes[column], np.nan, getattr(scores, name)) for name in ("nlpd", "crps")}
    found[ALL] = summary(scores._replace(**compared), unit[column], variance[column])
    return found
