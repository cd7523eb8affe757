"""Likelihoods: SciPy's densities, hidden cells without a say, moments of their own draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import checks
from gpbae import likelihoods
from gpbae.likelihoods import Bernoulli, Gaussian

RNG = np.random.default_rng(0)
ETA = jnp.asarray(RNG.normal(size=(6, 4)))
COLUMN_NOISE = np.array([0.1, 0.5, 1.0, 3.0])


def per_column():
    gaussian = Gaussian(noise=1.0, per_column=True).initialise(4)
    return jax.tree.map(lambda _: jnp.log(jnp.asarray(COLUMN_NOISE)), gaussian)


FAMILIES = {
    "gaussian": (Gaussian(noise=0.3), lambda eta: scipy.stats.norm(eta, 0.3)),
    "gaussian, fixed": (Gaussian(noise=2.0, learn_noise=False), lambda eta: scipy.stats.norm(eta, 2.0)),
    "gaussian, per column": (per_column(), lambda eta: scipy.stats.norm(eta, COLUMN_NOISE)),
    "bernoulli": (Bernoulli(), lambda eta: scipy.stats.bernoulli(1 / (1 + np.exp(-eta)))),
}


def draw(name):
    likelihood, law = FAMILIES[name]
    return likelihood, law(np.asarray(ETA)), jnp.asarray(law(np.asarray(ETA)).rvs(random_state=1), jnp.float64)


@pytest.mark.parametrize("name", FAMILIES)
def test_log_prob_is_that_of_scipy(name):
    likelihood, law, y = draw(name)
    expected = law.logpmf(y) if name == "bernoulli" else law.logpdf(y)
    np.testing.assert_allclose(likelihood.log_prob(y, jnp.ones(y.shape, bool), ETA), expected, rtol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("hidden_value", [np.nan, np.inf, 1e300])
def test_hidden_cells_have_no_say_in_value_or_gradient(name, hidden_value):
    likelihood, _, y = draw(name)
    mask = jnp.asarray(RNG.random(y.shape) < 0.5)

    def total(likelihood, eta, y):
        return jnp.sum(likelihood.log_prob(y, mask, eta))

    clean = jax.value_and_grad(total, argnums=1)(likelihood, ETA, jnp.where(mask, y, 0.0))
    dirty = jax.value_and_grad(total, argnums=1)(likelihood, ETA, jnp.where(mask, y, hidden_value))
    for a, b in zip(clean, dirty, strict=True):
        assert np.all(np.isfinite(b))
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(dirty[1][~mask], 0.0)
    for leaf in jax.tree.leaves(jax.grad(total)(likelihood, ETA, jnp.where(mask, y, hidden_value))):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("name", FAMILIES)
def test_observed_cells_count_as_if_nothing_were_hidden(name):
    """A mask selects: with a full mask it is the plain likelihood, with any mask the observed part of it."""
    likelihood, _, y = draw(name)
    mask = jnp.asarray(RNG.random(y.shape) < 0.5)
    everything = likelihood.log_prob(y, jnp.ones(y.shape, bool), ETA)
    np.testing.assert_array_equal(likelihood.log_prob(y, mask, ETA), jnp.where(mask, everything, 0.0))


def test_masked_gaussian_counts_observed_cells_only():
    checks.check_masked_gaussian_counts_observed_cells_only()


@pytest.mark.parametrize("name", FAMILIES)
def test_mean_and_variance_are_those_of_the_draws(name):
    likelihood, law, _ = draw(name)
    np.testing.assert_allclose(likelihood.mean(ETA), law.mean(), rtol=1e-10)
    np.testing.assert_allclose(likelihood.variance(ETA), law.var(), rtol=1e-10)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(3000))
    draws = jax.jit(jax.vmap(lambda k: likelihood.sample(k, ETA)))(keys)
    checks.assert_within_errors(draws, likelihood.mean(ETA))
    residual = np.asarray(draws) - np.asarray(likelihood.mean(ETA))
    checks.assert_within_errors(residual**2, likelihood.variance(ETA))


def test_cdf_is_that_of_scipy():
    likelihood, law, y = draw("gaussian, per column")
    np.testing.assert_allclose(likelihood.cdf(y, ETA), law.cdf(y), rtol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_link_finds_an_output_whose_mean_is_near_y(name):
    likelihood, _, y = draw(name)
    error = np.asarray(likelihood.mean(likelihood.link(y)) - y)
    assert np.max(np.abs(error)) < 0.2


@pytest.mark.parametrize(("learn", "count"), [(True, 1), (False, 0)])
def test_noise_has_a_log_normal_prior_only_when_learned(learn, count):
    """Normal on the log scale on which it is sampled, centred at the value given."""
    reference = Gaussian(noise=0.3, learn_noise=learn)
    assert sum(jax.tree.leaves(reference.sampled())) == count
    moved = jax.tree.map(lambda a: a + 0.7, reference)
    expected = scipy.stats.norm.logpdf(0.7) if learn else 0.0
    np.testing.assert_allclose(likelihoods.hyper_log_prior(moved, reference), expected, rtol=1e-10)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
def test_noise_must_be_positive(noise):
    with pytest.raises(ValueError, match="standard deviation above 0"):
        Gaussian(noise=noise)
