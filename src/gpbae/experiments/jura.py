"""Jura: cadmium in the soil at 100 places, given nickel and zinc there and all three at 259 others."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpbae.data.tables import jura, score_jura
from gpbae.experiments import shared_plots
from gpbae.experiments.cells import BASELINE_BUDGETS, BUDGETS, EXCEPTIONS, TRANSFORMS, hidden_cells, hide
from gpbae.experiments.experiment import Experiment, Metric, Plot, Problem, Run, Scores, models
from gpbae.kernels import Matern32
from gpbae.networks import MLP
from gpbae.scoring import metrics

# Settings: change a number here and nowhere else.

EVERY = {
    "latent_dim": 3,
    "decoder": MLP((20,), "tanh"),
    "encoder": MLP((20,), "tanh"),
    "transform": "log",
    "soil": True,
    "kernel": Matern32(),  # a lengthscale per input: place, and each kind of rock and land use
    "latent_noise": 0.3,  # metals of one site vary together beyond what place and soil explain
    "sample_latent_noise": True,
}
SPARSE = {**EVERY, "num_inducing": 64}
WITHOUT_INPUTS = {k: v for k, v in EVERY.items() if k not in ("kernel", "latent_noise", "sample_latent_noise")}
MODELS = {
    "sgp-bae": {"estimator": "SGPBAE", "title": "SGP-BAE", **SPARSE},
    "sgp-bae-places": {"estimator": "SGPBAE", "title": "SGP-BAE, places only", **SPARSE, "soil": False},
    "dsgp-bae": {"estimator": "DSGPBAE", "title": "DSGP-BAE, 3 layers", **SPARSE, "num_layers": 3},
    "gp-bae": {"estimator": "GPBAE", "title": "GP-BAE", **EVERY},
    "bae": {"estimator": "BAE", "title": "BAE", **WITHOUT_INPUTS},
}
# An exact GP over 359 sites, nine lengthscales and hundreds of sweeps would be half an hour a seed.
SHORT = {"num_chains": 2, "num_warmup": 60, "num_samples": 40, "thinning": 1}
ITS_EXCEPTIONS = EXCEPTIONS | {("gp-bae", "full"): SHORT}
# What the paper compares with: optimised, not sampled, so their budgets are numbers of steps. GPAR's authors model
# logarithms, for IGP the paper does not.
BASELINES = {
    "igp": {"estimator": "IGP", "title": "IGP"},
    "gpar": {"estimator": "GPAR", "title": "GPAR", "transform": "log"},
    "sgp-vae": {"estimator": "SGPVAE", "title": "SGP-VAE", "latent_dim": 2, "transform": "log",
                "decoder": MLP((20,), "tanh"), "encoder": MLP((20,), "tanh"), "num_inducing": 64, "learning_rate": 3e-3,
                "num_steps": 800},
}  # fmt: skip
# `soil` adds rock type and land use to the inputs; every n-th site only; a fold hides known cadmium instead.
OPTIONS = {"transform": "none", "soil": False, "every": 1, "fold": None}
NUM_FOLD_SITES = 72


def load(options: Mapping[str, Any], seed: int) -> Problem:
    """The published split, or a fold of inner validation; y is transformed, the truth is in mg/kg."""
    table = jura(options["soil"])
    x, y, truth = table.x, table.y, table.truth
    if options["fold"] is not None:
        known = np.flatnonzero(y["Cd"].notna())
        rows = np.zeros(len(y), bool)
        rows[np.random.default_rng(options["fold"]).permutation(known)[:NUM_FOLD_SITES]] = True
        y, truth = hide(y, rows, ("Cd",))
    kept = slice(None, None, options["every"])
    return Problem(x.iloc[kept], TRANSFORMS[options["transform"]].forward(y.iloc[kept]), truth.iloc[kept])


def score(model: Any, problem: Problem, options: Mapping[str, Any]) -> Scores:
    """MAE of predictive mean and median, the paper's NLL, and the density of the true predictive, in mg/kg."""
    cells = hidden_cells(model, problem, options["transform"])
    hidden = np.isfinite(cells.truth)
    found = {
        **score_jura(cells.mean, cells.variance, cells.truth),
        "mae_median": metrics.mae(cells.median[hidden], cells.truth[hidden]),
        "nlpd": cells.nlpd,
        "coverage90": cells.coverage,
    }
    arrays = {name: getattr(cells, name)[hidden] for name in ("truth", "mean", "median", "lower", "upper")}
    sites = problem.x.to_numpy(float)[:, :2]
    known = np.isfinite(problem.y["Cd"].to_numpy(float))
    seen = np.asarray(TRANSFORMS[options["transform"]].inverse(problem.y["Cd"].to_numpy(float)[known]))
    places = {"sites": sites[hidden.any(axis=1)], "seen_sites": sites[known], "seen": seen}
    return Scores(found, {**arrays, **places}, cells.chains)


def _cadmium(runs: Sequence[Run]):
    from gpbae.experiments import figures

    shown = shared_plots.first_of_each(runs, "seen_sites")
    return figures.cadmium({r.model: r.arrays for r in shown}) if shown else None


EXPERIMENT = Experiment(
    name="jura",
    title="Jura: cadmium in the soil",
    about=(
        "Nickel and zinc are known at 359 places, cadmium at 259 of them; MAE of the predictive mean at the other 100, "
        "in mg/kg. NLL is the paper's, of a Gaussian with the predictive mean and variance; nlpd is minus the log of "
        "the true predictive density, the Jacobian of a log transform included; lower is better."
    ),
    load=load,
    score=score,
    models=models(MODELS, BUDGETS, ITS_EXCEPTIONS, OPTIONS) | models(BASELINES, BASELINE_BUDGETS, {}, OPTIONS),
    metrics=(
        Metric("mae", "MAE", high=0.41),
        Metric("mae_median", "MAE of the median"),
        Metric("nll", "NLL", high=0.80),
        Metric("nlpd", "nlpd", high=0.60),
        Metric("coverage90", "90 % coverage", 2, 0.85, 0.95),
    ),
    plots=(
        Plot(
            "cadmium",
            "Predicted against true cadmium with intervals, and a map of the predictions",
            "Left: predictive mean and 90 % interval against the truth at the hidden sites. Right: where they are; "
            "small dots were measured, large ones predicted, and the colour is cadmium in mg/kg.",
            _cadmium,
        ),
        *shared_plots.CONVERGENCE,
    ),
    paper={
        "sgp-bae": {"mae": "0.45 ± 0.03", "nll": "0.91 ± 0.04"},
        "dsgp-bae": {"mae": "0.44 ± 0.02", "nll": "0.85 ± 0.04"},
        "gpar": {"mae": "0.42 ± 0.01", "nll": "17.81 ± 1.06"},
        "sgp-vae": {"mae": "0.54 ± 0.01", "nll": "1.02 ± 0.01"},
        "igp": {"mae": "0.57 ± 0.00", "nll": "1563.42 ± 166.55"},
    },
)
