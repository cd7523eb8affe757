"""Weight priors: sampled coordinates and weights are inverse, and the density is that of what is sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from gpbae import weights

RNG = np.random.default_rng(0)
WEIGHTS = {"w": jnp.asarray(RNG.normal(size=(3, 8))), "b": jnp.asarray(RNG.normal(size=3))}
PRIORS = {
    "isotropic": weights.Isotropic(0.5),
    "fan-in": weights.FanIn(),
    "fan-in, gain": weights.FanIn(2.0),
    "laplace": weights.Laplace(),
    "hierarchical": weights.Hierarchical(0.7),
}


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize("name", PRIORS)
def test_weights_invert_init(name):
    prior = PRIORS[name]
    np.testing.assert_allclose(flat(prior.weights(prior.init(WEIGHTS))), flat(WEIGHTS), rtol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_log_prob_is_that_of_scipy_on_the_sampled_scale(name):
    prior = PRIORS[name]
    sampled = jax.tree.map(lambda a: a + 0.3, prior.init(WEIGHTS))
    if name == "hierarchical":
        expected = scipy.stats.norm.logpdf(flat(sampled["standard"])).sum()
        expected += scipy.stats.norm.logpdf(flat(sampled["log_scale"]), scale=0.7).sum()
    elif name == "laplace":
        expected = scipy.stats.laplace.logpdf(flat(sampled), scale=np.sqrt(0.5)).sum()
    else:
        expected = scipy.stats.norm.logpdf(flat(sampled)).sum()
    np.testing.assert_allclose(prior.log_prob(sampled), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "weight_sd", "bias_sd"),
    [("isotropic", 0.5, 0.5), ("fan-in", 8**-0.5, 1.0), ("fan-in, gain", 2 * 8**-0.5, 2.0), ("laplace", 8**-0.5, 1.0)],
)
def test_unit_coordinates_stand_for_one_prior_sd(name, weight_sd, bias_sd):
    """Every sampled coordinate has variance one under its prior, so its image has the prior's sd."""
    ones = jax.tree.map(jnp.ones_like, WEIGHTS)
    image = PRIORS[name].weights(ones)
    np.testing.assert_allclose(image["w"], weight_sd, rtol=1e-12)
    np.testing.assert_allclose(image["b"], bias_sd, rtol=1e-12)


def test_fan_in_keeps_the_size_of_outputs_whatever_the_width():
    """Var of Σᵢ wᵢ xᵢ with xᵢ² = 1 is gain² at every width, within Monte-Carlo error."""
    for width in (4, 400):
        w = weights.FanIn(1.5).weights(jnp.asarray(RNG.normal(size=(4000, width))))
        squares = np.sum(np.asarray(w), axis=1) ** 2
        assert abs(squares.mean() - 1.5**2) < 4.5 * squares.std() / np.sqrt(len(squares))


def test_every_word_names_a_prior():
    for word, family in weights.WORDS.items():
        assert isinstance(family(), weights.AbstractWeightPrior), word
