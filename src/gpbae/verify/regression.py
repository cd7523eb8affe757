"""With an identity decoder the model is Gaussian-process regression, which scikit-learn does exactly."""

import numpy as np

from gpbae.estimators import GPBAE
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian
from gpbae.verify.worlds import Numbers

REGRESSION = {"num_warmup": 80, "num_samples": 1000, "thinning": 5, "encoder_steps": 1, "num_map_steps": 0}
REGRESSION_NOISE = 0.5


def regression_table(num_inputs: int, gaps: bool, grouped: bool, seed: int = 0):
    """x, y with gaps, groups: 24 rows and 3 columns."""
    rng = np.random.default_rng([seed, num_inputs, gaps, grouped])
    x = rng.uniform(size=(24, num_inputs))
    groups = np.arange(24) % (2 if grouped else 1)
    y = np.sin(4 * x[:, :1] + np.arange(3) + 2 * groups[:, None]) + (x[:, -1:] - 0.5) * np.arange(3)
    y = y + REGRESSION_NOISE * rng.standard_normal(y.shape)
    return x, np.where(gaps & (rng.random(y.shape) < 0.3), np.nan, y), groups


def gp_regression(num_inputs: int, gaps: bool, grouped: bool) -> Numbers:
    """GPBAE with identity decoder against scikit-learn at new and at fitted rows: largest |Δ mean| in posterior sd of
    f, and the range of the sd ratio, of f and of y."""
    x, y, groups = regression_table(num_inputs, gaps, grouped)
    x_new, _, groups_new = regression_table(num_inputs, gaps, grouped, seed=1)
    lengthscale = 0.3 * num_inputs
    model = GPBAE(
        decoder="identity", sample_hyperparameters=False, standardise=False, kernel=RBF(lengthscale=lengthscale),
        likelihood=Gaussian(noise=REGRESSION_NOISE, learn_noise=False), progress=False, **REGRESSION,
    )  # fmt: skip
    labels = (groups, groups_new) if grouped else (None, None)
    model.fit(x, y, labels[0])
    answers = (model.predict(x_new, labels[1]), model.impute(x, y, labels[0]))
    means, ratios = [], []
    for answer, where in zip(answers, ((x_new, groups_new), (x, groups)), strict=True):
        mean, sd = _regress(x, y, groups, *where, lengthscale)
        f = np.sqrt(answer.sd**2 - answer.variance_parts()["observation noise"])
        means.append(np.abs(answer.mean - mean) / sd)
        ratios += [f / sd, answer.sd / np.hypot(sd, REGRESSION_NOISE)]
    return {"mean": float(np.max(means)), "low": float(np.min(ratios)), "high": float(np.max(ratios))}


def _regress(x, y, groups, x_new, groups_new, lengthscale):
    """Mean and sd of f by scikit-learn, column by column and group by group."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as sklearn_kernels

    mean, sd = np.empty((2, len(x_new), y.shape[1]))
    for g in np.unique(groups):
        asked = groups_new == g
        for p in range(y.shape[1]):
            known = (groups == g) & ~np.isnan(y[:, p])
            kernel = sklearn_kernels.RBF(lengthscale)
            regressor = GaussianProcessRegressor(kernel, alpha=REGRESSION_NOISE**2, optimizer=None)
            mean[asked, p], sd[asked, p] = regressor.fit(x[known], y[known, p]).predict(x_new[asked], return_std=True)
    return mean, sd
