"""How good is a model on cells that it has not seen?  Hide some, fill them, score them, and ask simple rivals too."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from gpbae.errors import InputError
from gpbae.scoring import metrics, rivals
from gpbae.tabular import tables
from gpbae.tabular.transforms import Identity

if TYPE_CHECKING:
    import pandas

LEVELS = (0.5, 0.8, 0.9, 0.95)
NUM_BINS = 10
ALL, IMPOSSIBLE = "all", "impossible"
NUM_NODES = 32
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


def of_bent(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray, transform: Any) -> CellScores:
    """Scores of y whose transform is normal: the mean by Gauss–Hermite quadrature, the density with the slope of the
    transform; what it does not take has none, and lies below everything else."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NUM_NODES)
    values = transform.inverse(mean[:, None] + sd[:, None] * nodes)
    possible = transform.takes(truth)
    inside = np.where(possible, truth, transform.inverse(mean))
    z = (transform.forward(inside) - mean) / sd
    nlpd = np.where(possible, np.log(sd) - stats.norm.logpdf(z) - transform.log_slope(inside), np.inf)
    crps = metrics.crps_of_quantiles(lambda q: transform.inverse(mean + sd * stats.norm.ppf(q)), truth)
    pit = np.where(possible, stats.norm.cdf(z), 0.0)
    return CellScores(values @ weights / weights.sum() - truth, nlpd, crps, pit)


def of_whole(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray, largest: np.ndarray | float) -> CellScores:
    """Scores of a normal rounded to whole numbers from 0 to `largest`, which get what lies beyond them; the PIT of a
    whole number is as random as that of draws."""
    upper = np.where(truth >= largest, np.inf, (truth + 0.5 - mean) / sd)
    lower = np.where(truth <= 0, -np.inf, (np.ceil(truth) - 0.5 - mean) / sd)
    possible = (truth >= 0) & (truth <= largest) & (truth == np.round(truth))
    nlpd = np.where(possible, -_log_mass(lower, upper), np.inf)
    below = np.where(truth > largest, 1.0, stats.norm.cdf(lower))
    pit = metrics.randomised_pit(below, np.where(possible, stats.norm.cdf(upper) - below, 0.0))
    crps = metrics.crps_of_quantiles(lambda q: np.clip(np.round(mean + sd * stats.norm.ppf(q)), 0, largest), truth)
    return CellScores(mean - truth, nlpd, crps, pit)


def _log_mass(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """log (Φ(upper) − Φ(lower)), on the side of the centre where neither is nearly 1."""
    flip = lower > 0
    lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    top, bottom = stats.norm.logcdf(upper), stats.norm.logcdf(lower)
    return top + np.log(-np.expm1(np.minimum(bottom - top, -1e-300)))


def summary(
    scores: CellScores, unit: np.ndarray | float, variance: np.ndarray | float, has_density: np.ndarray | None = None
) -> dict[str, Any]:
    """Averages; errors and CRPS in `unit`s, SMSE over the `variance` of the truth where that is above 0.

    NLPD and CRPS are of the cells that `has_density` picks, all by default; a cell without a number among them leaves
    none to give.  `impossible` counts those whose density is zero, which make the NLPD infinite.
    """
    error = scores.error / unit
    counted = np.ones(len(error), bool) if has_density is None else has_density
    variance = np.broadcast_to(variance, error.shape)
    pit = scores.pit[np.isfinite(scores.pit)]  # labels have no order, so no interval
    inside = {f"coverage{round(100 * q)}": float(np.mean(np.abs(pit - 0.5) <= q / 2)) if len(pit) else float("nan")
              for q in LEVELS}  # fmt: skip
    return {
        "mae": float(np.mean(np.abs(error))),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "smse": _mean(scores.error[variance > 0] ** 2 / variance[variance > 0]),
        "nlpd": _mean(scores.nlpd[counted]),
        "crps": _mean((scores.crps / unit)[counted]),
        **inside,
        "cells": len(error),
        IMPOSSIBLE: int(np.isposinf(scores.nlpd[counted]).sum()),
    }


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


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

        lines = {(row["model"], row["column"]): with_infinity(row["metrics"]) for row in rows}
        table = pd.DataFrame(lines).T.astype(float)
        table.index = table.index.set_names(["method", "column"])
        pit = {row["model"]: row["pit"] for row in rows if row["column"] == ALL}
        return cls(rows[0]["experiment"], model, table, pit, {row["model"]: row["seconds"] for row in rows})


def with_infinity(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """A file has no infinities, but it says how many there were."""
    return {**metrics, "nlpd": np.inf} if (metrics.get(IMPOSSIBLE) or 0) > 0 else dict(metrics)


def remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of what `Evaluation.rows` gives, a sentence for each way of hiding and each set of cells that had no density."""
    found: dict[tuple, list[str]] = {}
    for row in rows:
        number = row["metrics"].get(IMPOSSIBLE) or 0
        if row.get("column", ALL) != ALL and number > 0:
            found.setdefault((row["experiment"], row["model"]), []).append(f"{row['column']} ({number:.0f})")
    methods: dict[tuple, list[str]] = {}
    for (how, method), places in found.items():
        methods.setdefault((how, *places), []).append(method)
    return [
        f"Among the hidden {how}, values in {', '.join(places)} cannot occur by the rest of their column, such as a 2 "
        f"among zeros and ones or a negative number among positive ones: NLPD is infinite for {', '.join(names)}."
        for (how, *places), names in methods.items()
    ]


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
    for name, rival in rivals.suited(positions).items() if with_rivals else ():
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
    for method, found in scores.items():
        lines |= {(method, n): s for n, s in _by_column(found, truth, column, unit, are_classes, names).items()}
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
    if (kinds == "class").any():
        mean = np.where(kinds == "class", answer.point_values, mean)
    log_density = answer.log_density(seen.values, hidden)[hidden]
    return of_draws(mean[hidden], samples, log_density, seen.values[hidden], (kinds == "class")[hidden]), kinds


def _of_rival(filled: rivals.Filled, values: np.ndarray, hidden: Hidden, kinds: np.ndarray) -> CellScores:
    """Scores of the hidden cells, column by column, in the order of the table."""
    scores = np.full((len(CellScores._fields), *hidden.shape), np.nan)
    for p, here in enumerate(hidden.T):
        transform = filled.transforms[p] if filled.transforms else Identity()
        cells = (filled.mean[here, p], filled.sd[here, p], values[here, p])
        scores[:, here, p] = _of_rival_column(*cells, kinds[0, p], transform)
    return CellScores(*scores[:, hidden])


def _of_rival_column(mean, sd, truth, kind: str, transform: Any) -> CellScores:
    """Rivals are normal, maybe after a transform: of whole numbers they get the mass around each, the ends all that
    lies beyond; codes they take for numbers, so that their guess is the nearest, and a density of classes they have
    not."""
    if kind == "class":
        unknown = np.full(len(truth), np.nan)
        return CellScores((np.round(mean) != truth).astype(float), unknown, unknown, unknown)
    if kind in ("truth", "count"):
        return of_whole(mean, sd, truth, 1.0 if kind == "truth" else np.inf)
    return of_normal(mean, sd, truth) if isinstance(transform, Identity) else of_bent(mean, sd, truth, transform)


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
    found[ALL] = summary(scores, unit[column], variance[column], ~are_classes[column])
    return found
