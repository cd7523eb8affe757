"""Hidden cells of a table, filled and scored in the units of the table, also when a transform of it was modelled."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gpbae.experiments.experiment import LEVEL, Problem, Sampled
from gpbae.scoring import metrics

# Budgets of the two tables.

BUDGETS = {
    "full": {"num_chains": 4, "num_warmup": 150, "num_samples": 50, "thinning": 6},
    "quick": {"num_chains": 2, "num_warmup": 80, "num_samples": 40, "thinning": 2},
    "smoke": {"num_chains": 2, "num_warmup": 4, "num_samples": 6, "thinning": 1, "sampler_steps": 5, "encoder_steps": 2,
              "num_map_steps": 40, "every": 4},
}  # fmt: skip
EXCEPTIONS = {
    ("gp-bae", "quick"): {"num_chains": 1, "num_warmup": 30, "num_samples": 30, "thinning": 1},
}
BASELINE_BUDGETS = {"full": {}, "quick": {}, "smoke": {"num_steps": 10, "num_draws": 10, "every": 4}}

NUM_FOLLOWED = 200


@dataclasses.dataclass(frozen=True)
class Transform:
    """A monotone map of positive outputs; log p(y) = log p(t(y)) + log t′(y)."""

    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]
    log_slope: Callable[[Any], Any]


TRANSFORMS = {
    "none": Transform(lambda y: y, lambda t: t, np.zeros_like),
    "log": Transform(np.log, np.exp, lambda y: -np.log(y)),
}


@dataclasses.dataclass(frozen=True)
class Cells:
    """Predictive of every cell in original units; `truth` is NaN where nothing was hidden."""

    truth: Float[np.ndarray, "N P"]
    mean: Float[np.ndarray, "N P"]
    variance: Float[np.ndarray, "N P"]
    median: Float[np.ndarray, "N P"]
    lower: Float[np.ndarray, "N P"]
    upper: Float[np.ndarray, "N P"]
    nlpd: float
    coverage: float
    chains: Float[np.ndarray, "chains draws cells"] | None


def hide(y: Any, rows: np.ndarray, columns: Sequence[str]) -> tuple[Any, Any]:
    """Blank known cells: the table without them, and a table of them alone."""
    cells = rows[:, None] & np.isin(y.columns, columns) & y.notna().to_numpy()
    return y.mask(cells), y.where(cells)


def hidden_cells(model: Any, problem: Problem, transform: str = "none") -> Cells:
    """Fill the gaps of the fitted table; the model saw `TRANSFORMS[transform].forward` of it."""
    rule = TRANSFORMS[transform]
    answer = model.impute(problem.x, problem.y)
    truth = np.asarray(problem.truth, float)
    hidden = np.isfinite(truth)
    samples = rule.inverse(answer.samples.reshape(len(answer.samples), *truth.shape))
    if transform == "none":
        mean, variance = np.asarray(answer.mean, float), np.asarray(answer.sd, float) ** 2
    else:
        mean, variance = samples.mean(axis=0), samples.var(axis=0)
    known = np.where(hidden, truth, 1.0)
    density = answer.log_density(rule.forward(known), hidden) + rule.log_slope(known)
    lower, median, upper = np.quantile(samples, [0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2], axis=0)
    return Cells(
        truth=truth,
        mean=mean,
        variance=variance,
        median=median,
        lower=lower,
        upper=upper,
        nlpd=-float(np.mean(density[hidden])),
        coverage=metrics.coverage(samples[:, hidden], truth[hidden], LEVEL),
        chains=followed(model, answer._means.mean(axis=1)[:, hidden]),
    )


def followed(model: Any, means: Float[np.ndarray, "S cells"]) -> Float[np.ndarray, "chains draws shown"] | None:
    """Some predictive means along the chains, evenly spread over the cells; None where there are no chains."""
    if not isinstance(model, Sampled):
        return None
    shown = np.unique(np.linspace(0, means.shape[1] - 1, min(means.shape[1], NUM_FOLLOWED)).round().astype(int))
    return means[:, shown].reshape(model.num_chains_, -1, len(shown))
