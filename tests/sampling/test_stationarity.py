"""Which rows a step sees, and how many steps make a sweep, are means and not ends: the posterior stays the same."""

import jax.numpy as jnp
import numpy as np
import pytest

from gpbae.estimators import SGPBAE
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian

OPTIMISED = True

BATCHINGS = {
    "rows, few steps": dict(batch_size=4, sampler_steps=7, thinning=8),
    "rows, many steps": dict(batch_size=4, sampler_steps=40, thinning=2),
    "most rows": dict(batch_size=9, sampler_steps=10, thinning=6),
    "whole groups": dict(batch_size=6, sampler_steps=10, thinning=6, grouped=True),
    "all rows": dict(batch_size=None, sampler_steps=10, thinning=6),
}


def check_linear_gaussian_moments(batch_size, sampler_steps, thinning, grouped=False, num_samples=400):
    """Identity decoder, everything but v and Z fixed: the posterior of Z is Gaussian and known.  Means of 20 draws are
    nearly independent, and their spread is the Monte-Carlo error; 2 % is the discretisation's."""
    rng = np.random.default_rng(5)
    x, y = np.linspace(0, 1, 12)[:, None], rng.standard_normal((12, 1))
    y[4] = np.nan
    groups = np.arange(12) % 4 if grouped else np.zeros(12, int)
    model = SGPBAE(decoder="identity", encoder="linear", sample_hyperparameters=False, sample_inducing=False,
                   standardise=False, kernel=RBF(lengthscale=0.3), latent_noise=0.3, num_inducing=4, progress=False,
                   likelihood=Gaussian(noise=0.5, learn_noise=False), latents="persistent", num_map_steps=0,
                   encoder_steps=0, num_warmup=50, num_samples=num_samples, batch_size=batch_size,
                   sampler_steps=sampler_steps, thinning=thinning).fit(x, y, groups if grouped else None)  # fmt: skip
    prior = model.model_.prior
    projection, variance = prior.project(prior.init(None, 1)[0], jnp.asarray(x))
    A = np.asarray(projection.weights[0])
    K = np.where(groups[:, None] == groups, A.T @ A, 0.0) + np.diag(np.asarray(variance)[:, 0])
    seen = ~np.isnan(y[:, 0])
    gain = K[:, seen] @ np.linalg.inv(K[np.ix_(seen, seen)] + 0.25 * np.eye(seen.sum()))
    mean, exact = gain @ y[seen, 0], np.diag(K - gain @ K[seen])
    centred = (model.draws_.local[..., 0] - mean).reshape(-1, 20, 12)
    for found, expected, bias in ((centred, 0.0, 0.0), (centred**2, exact, 0.02 * exact)):
        means = found.mean(axis=1)
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
        assert np.all(np.abs(means.mean(axis=0) - expected) < 4.5 * error + bias), (
            means.mean(axis=0) - expected
        ) / error
    assert model.fraction_clamped_ == 0


def test_small_batches_and_few_steps_do_not_move_the_stationary_moments():
    check_linear_gaussian_moments(**BATCHINGS["rows, few steps"])


@pytest.mark.slow
@pytest.mark.parametrize("name", BATCHINGS)
def test_batch_size_and_number_of_steps_do_not_move_the_stationary_moments(name):
    check_linear_gaussian_moments(**BATCHINGS[name], num_samples=2000)
