"""Figures that every experiment has: have the chains agreed, and how do they wander?"""

from collections.abc import Sequence

import numpy as np

from gpbae.experiments.experiment import Plot, Run

NUM_TRACES = 3


def first_of_each(runs: Sequence[Run], array: str) -> list[Run]:
    """The smallest seed of every model that kept this array."""
    found: dict[str, Run] = {}
    for run in sorted(runs, key=lambda r: r.seed):
        if array in run.arrays:
            found.setdefault(run.model, run)
    order = list(dict.fromkeys(run.model for run in runs))
    return sorted(found.values(), key=lambda r: order.index(r.model))


def _r_hat(runs: Sequence[Run]):
    from gpbae.experiments import figures

    found = {r.model: r.arrays["r_hat"] for r in first_of_each(runs, "r_hat")}
    found = {name: values[np.isfinite(values)] for name, values in found.items()}
    found = {name: values for name, values in found.items() if len(values)}
    return figures.r_hat(found) if found else None


def _traces(runs: Sequence[Run]):
    from gpbae.experiments import figures

    found = {r.model: r.arrays["traces"][..., :NUM_TRACES] for r in first_of_each(runs, "traces")}
    return figures.traces(found) if found else None


CONVERGENCE = (
    Plot(
        "r-hat",
        "Histogram of R-hat over predictive means",
        "Split R-hat of predictive means, one per cell; below 1.1 chains agree. The last bar is for all beyond.",
        _r_hat,
    ),
    Plot(
        "traces",
        "Traces of some predictive means, one line per chain",
        "Predictive means of some cells along the chains; lines that mingle without trend have mixed.",
        _traces,
    ),
)
