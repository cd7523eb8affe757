"""EEG: fill the last 100 of 256 samples of three electrodes, given four others."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpbae.data.tables import EEG_HIDDEN, EEG_LAST_SEEN, eeg, score_eeg
from gpbae.experiments import shared_plots
from gpbae.experiments.cells import BASELINE_BUDGETS, BUDGETS, EXCEPTIONS, Cells, hidden_cells, hide
from gpbae.experiments.experiment import Experiment, Metric, Plot, Problem, Run, Scores, models
from gpbae.kernels import RBF, Frozen
from gpbae.networks import MLP, Linear

# Settings: change a number here and nowhere else.

EVERY = {"latent_dim": 3, "decoder": Linear(), "encoder": MLP((20,), "tanh")}
OVER_TIME = {**EVERY, "kernel": Frozen(RBF(lengthscale=0.02))}  # sampled, it falls to three samples
MODELS = {
    "sgp-bae": {"estimator": "SGPBAE", "title": "SGP-BAE", **OVER_TIME, "num_inducing": 64},
    "dsgp-bae": {
        "estimator": "DSGPBAE",
        "title": "DSGP-BAE, 3 layers",
        **OVER_TIME,
        "num_inducing": 64,
        "num_layers": 3,
    },
    "gp-bae": {"estimator": "GPBAE", "title": "GP-BAE", **OVER_TIME, "latent_noise": 0.1},
    "bae": {"estimator": "BAE", "title": "BAE", **EVERY},
}
# What the paper compares with: optimised, not sampled, so their budgets are numbers of steps.
BASELINES = {
    "igp": {"estimator": "IGP", "title": "IGP"},
    "gpar": {"estimator": "GPAR", "title": "GPAR"},
    "sgp-vae": {
        "estimator": "SGPVAE",
        "title": "SGP-VAE",
        "latent_dim": 3,
        "decoder": MLP((5, 5), "tanh"),
        "encoder": MLP((20,), "tanh"),
        "num_inducing": 64,
        "learning_rate": 5e-3,
        "num_steps": 1500,
    },
}
OPTIONS = {"every": 1, "fold": None}  # every n-th sample only; a fold hides known cells instead of the test cells
FOLDS = ((0, 100), (28, 128), (56, 156))


def load(options: Mapping[str, Any], seed: int) -> Problem:
    """The published split, or a fold of inner validation whose truth is not the test's."""
    table = eeg()
    x, y, truth = table.x, table.y, table.truth
    if options["fold"] is not None:
        rows = np.zeros(len(y), bool)
        rows[slice(*FOLDS[options["fold"]])] = True
        y, truth = hide(y, rows, EEG_HIDDEN)
    kept = slice(None, None, options["every"])
    return Problem(x.iloc[kept], y.iloc[kept], truth.iloc[kept])


def score(model: Any, problem: Problem, options: Mapping[str, Any]) -> Scores:
    """SMSE and the paper's NLL column by column, then the density of the true predictive mixture, in µV."""
    cells = hidden_cells(model, problem)
    found = {**score_eeg(cells.mean, cells.variance, cells.truth), "nlpd": cells.nlpd, "coverage90": cells.coverage}
    return Scores(found, _arrays(problem, cells), cells.chains)


def _arrays(problem: Problem, cells: Cells) -> dict[str, np.ndarray]:
    """Seen and hidden values of the three channels, and what is said of them."""
    columns = [problem.y.columns.get_loc(name) for name in EEG_HIDDEN]
    seen = problem.y.to_numpy(float)[:, columns]
    return {"time": problem.x.to_numpy(float)[:, 0], "seen": seen, "truth": cells.truth[:, columns],
            "mean": cells.mean[:, columns], "sd": np.sqrt(cells.variance[:, columns])}  # fmt: skip


def _predictions(runs: Sequence[Run]):
    from gpbae.experiments import figures

    shown = shared_plots.first_of_each(runs, "sd")
    return figures.series({r.model: r.arrays for r in shown}, EEG_HIDDEN, "time (s)", "µV") if shown else None


EXPERIMENT = Experiment(
    name="eeg",
    title="EEG: three electrodes cut short",
    about=(
        f"Seven electrodes over one second; {', '.join(EEG_HIDDEN)} are hidden after sample {EEG_LAST_SEEN}. SMSE is "
        "the squared error over that of the test mean; NLL is the paper's, of a Gaussian with the predictive mean and "
        "variance; nlpd is minus the log of the true predictive mixture density; both in µV, lower is better."
    ),
    load=load,
    score=score,
    models=models(MODELS, BUDGETS, EXCEPTIONS, OPTIONS) | models(BASELINES, BASELINE_BUDGETS, {}, OPTIONS),
    metrics=(
        Metric("smse", "SMSE", high=0.18),
        Metric("nll", "NLL", high=1.35),
        Metric("nlpd", "nlpd"),
        Metric("coverage90", "90 % coverage", 2, 0.85, 0.95),
    ),
    plots=(
        Plot(
            "predictions",
            "Hidden EEG channels with predictive mean and three standard deviations",
            "The hidden part of each channel: truth (dots), predictive mean and ± 3 standard deviations.",
            _predictions,
        ),
        *shared_plots.CONVERGENCE,
    ),
    paper={
        "sgp-bae": {"smse": "0.22 ± 0.01", "nll": "1.96 ± 0.08"},
        "dsgp-bae": {"smse": "0.21 ± 0.01", "nll": "2.25 ± 0.13"},
        "gpar": {"smse": "0.28 ± 0.00", "nll": "1.68 ± 0.01"},
        "sgp-vae": {"smse": "0.52 ± 0.05", "nll": "1.98 ± 0.02"},
        "igp": {"smse": "1.70 ± 0.14", "nll": "2.59 ± 0.02"},
    },
)
