"""Where the latents of rows never seen are looked for first."""

import jax
import jax.numpy as jnp
import numpy as np

from gpbae.answering import guessing
from gpbae.kernels import RBF
from gpbae.priors import Query

NUM, BLIND = 20, 7
TIMES = jnp.arange(float(NUM))
PATH = jnp.stack([2 * jnp.sin(TIMES / 3), 2 * jnp.cos(TIMES / 3)], axis=-1)[None]
KERNELS = (RBF(lengthscale=3.0).initialise(np.asarray(TIMES)[:, None]),)


def found(guess, log_likelihood, valid=None):
    valid = jnp.ones((1, NUM), bool) if valid is None else valid
    query = Query(TIMES[None, :, None], jnp.zeros(1, int), jnp.zeros(1, bool), valid)
    return jax.jit(lambda g: guessing.follow_paths(KERNELS, query, g, log_likelihood))(guess)


def seen(z):
    """Every row knows where it is, but for one that says nothing."""
    near = -0.5 * jnp.sum((z - PATH) ** 2, axis=-1) / 0.1**2
    return near.at[:, BLIND].set(0.0)


def test_a_row_that_says_nothing_is_looked_for_on_its_path():
    guess = PATH.at[:, BLIND].set(0.0)
    z = found(guess, seen)
    assert jnp.linalg.norm(guess - PATH, axis=-1)[0, BLIND] > 1.9
    assert jnp.all(jnp.linalg.norm(z - PATH, axis=-1) < 0.4)


def test_a_row_that_is_sure_stays_where_the_encoder_puts_it():
    """A jump of the data off the path is not smoothed away."""
    away = PATH.at[:, BLIND].add(1.5)
    z = found(away, lambda z: -0.5 * jnp.sum((z - away) ** 2, axis=-1) / 0.01**2)
    np.testing.assert_allclose(z[0, BLIND], away[0, BLIND])


def test_padding_has_no_say():
    valid = jnp.arange(NUM)[None] < NUM - 4
    guess = PATH.at[:, BLIND].set(0.0)
    wild = jnp.where(valid[..., None], guess, 50.0)
    quiet = lambda z: jnp.where(valid, seen(z), 0.0)  # noqa: E731
    np.testing.assert_allclose(found(wild, quiet, valid)[:, : NUM - 4], found(guess, quiet, valid)[:, : NUM - 4])


def test_where_the_path_is_not_known_a_sure_row_stays():
    """The end of a path after a gap: what the rows before it say of it is worth little."""
    blind = jnp.arange(NUM) >= NUM - 5
    last = NUM - 1
    guess = jnp.where(blind[None, :, None], 0.0, PATH).at[:, last].set(PATH[:, last])
    shown = blind.at[last].set(False)

    def likelihood(z):
        near = -0.5 * jnp.sum((z - PATH) ** 2, axis=-1) / 0.1**2
        return jnp.where(shown[None], 0.0, near)

    z = found(guess, likelihood)
    np.testing.assert_allclose(z[0, last], PATH[0, last], atol=0.2)
