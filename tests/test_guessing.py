"""Where the latents of rows never seen are looked for first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import guessing, inducing
from gpbae.kernels import RBF
from gpbae.priors import FullPrior, Hyper, Memory, Query, SparsePrior

NUM, BLIND = 20, 7
TIMES = jnp.arange(float(NUM))
PATH = jnp.stack([2 * jnp.sin(TIMES / 3), 2 * jnp.cos(TIMES / 3)], axis=-1)[None]
HYPER = Hyper(
    (RBF(lengthscale=3.0).initialise(np.asarray(TIMES)[:, None]),), jnp.asarray(0.05), jnp.ones(()), True, False
)


PLACES = np.linspace(0, NUM - 1, 12)[:, None]
PRIORS = {
    "sparse": lambda: SparsePrior(
        HYPER, inducing.make("uniform", PLACES, HYPER.kernels[0]), jnp.asarray(PLACES), 2, False
    ),
    "full": lambda: FullPrior(HYPER, 2, False),
}


def found(name, guess, log_likelihood, valid=None):
    prior = PRIORS[name]()
    hyper, _ = prior.init(jax.random.key(0), 1)
    valid = jnp.ones((1, NUM), bool) if valid is None else valid
    query = Query(TIMES[None, :, None], jnp.zeros(1, int), jnp.zeros(1, bool), valid)
    memory = Memory(jnp.zeros((1, 1, 1)), jnp.zeros((1, 1), bool), jnp.zeros((1, 1, 2)))
    return jax.jit(lambda g: guessing.follow_paths(prior, hyper, memory, query, g, log_likelihood))(guess)


def seen(z):
    """Every row knows where it is, but for one that says nothing."""
    near = -0.5 * jnp.sum((z - PATH) ** 2, axis=-1) / 0.1**2
    return near.at[:, BLIND].set(0.0)


@pytest.mark.parametrize("name", PRIORS)
def test_a_row_that_says_nothing_is_looked_for_on_its_path(name):
    guess = PATH.at[:, BLIND].set(0.0)
    z = found(name, guess, seen)
    assert jnp.linalg.norm(guess - PATH, axis=-1)[0, BLIND] > 1.9
    assert jnp.all(jnp.linalg.norm(z - PATH, axis=-1) < 0.4)


@pytest.mark.parametrize("name", PRIORS)
def test_a_row_that_is_sure_stays_where_the_encoder_puts_it(name):
    """A jump of the data off the path is not smoothed away."""
    away = PATH.at[:, BLIND].add(1.5)
    z = found(name, away, lambda z: -0.5 * jnp.sum((z - away) ** 2, axis=-1) / 0.01**2)
    np.testing.assert_allclose(z[0, BLIND], away[0, BLIND])


@pytest.mark.parametrize("name", PRIORS)
def test_padding_has_no_say(name):
    valid = jnp.arange(NUM)[None] < NUM - 4
    guess = PATH.at[:, BLIND].set(0.0)
    wild = jnp.where(valid[..., None], guess, 50.0)
    quiet = lambda z: jnp.where(valid, seen(z), 0.0)  # noqa: E731
    np.testing.assert_allclose(
        found(name, wild, quiet, valid)[:, : NUM - 4], found(name, guess, quiet, valid)[:, : NUM - 4]
    )
