"""Blocks are independent chains, so what they hold after many trajectories is an independent sample of the target."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import polygamma

from gpbae.sampling import hmc

NUM_BLOCKS = 4000
NUM_ERRORS = 4
COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.5]])
SHAPE = 1.5


def run(position, log_density, step_size, num_steps, seed=0):
    """Positions after some trajectories, and the acceptance probabilities of all of them."""
    num_blocks = jax.tree.leaves(position)[0].shape[0]

    @jax.jit
    def chain(state):
        def body(state, index):
            return hmc.step(jax.random.fold_in(jax.random.key(seed), index), state, log_density)

        return jax.lax.scan(body, state, jnp.arange(num_steps))

    state, info = chain(hmc.init(position, num_blocks, step_size))
    return jax.tree.map(np.asarray, state.position), np.asarray(info.acceptance)


def assert_mean(values, expected):
    """Within Monte-Carlo errors of what it should be, for an independent sample."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - expected) <= NUM_ERRORS * error)


@pytest.mark.parametrize("step_size", [0.1, 0.45])
def test_moments_of_a_correlated_gaussian(step_size):
    """In two leaves; the longer step is often refused, without which its variances would be too large."""
    precision, mean = jnp.asarray(np.linalg.inv(COVARIANCE)), np.array([1.0, -2.0])

    def log_density(q):
        r = jnp.stack([q["a"], q["b"]], axis=1) - mean[None]
        return -0.5 * jnp.einsum("gi,ij,gj->g", r, precision, r)

    start = {"a": jnp.zeros(NUM_BLOCKS), "b": jnp.zeros(NUM_BLOCKS)}
    q, acceptance = run(start, log_density, step_size, 80)
    draws = np.stack([q["a"], q["b"]], axis=1)
    assert_mean(draws, mean)
    r = draws - mean
    assert_mean(r[:, :, None] * r[:, None, :], COVARIANCE)
    assert acceptance.mean() < 0.9 or step_size < 0.2


def test_moments_of_a_skewed_target():
    """log X of a Gamma variable X, whose cumulants are polygamma functions."""
    q, _ = run(jnp.zeros((NUM_BLOCKS, 1)), lambda q: jnp.sum(SHAPE * q - jnp.exp(q), axis=1), 0.4, 80)
    r = q[:, 0] - polygamma(0, SHAPE)
    assert_mean(r, 0.0)
    assert_mean(r**2, polygamma(1, SHAPE))
    assert_mean(r**3, polygamma(2, SHAPE))


def test_momenta_after_a_trajectory_are_standard_normal():
    """Of exact draws, with a coarse step: a refused trajectory gives its momentum back."""
    exact = jnp.asarray(np.log(np.random.default_rng(1).gamma(SHAPE, size=(NUM_BLOCKS, 1))))
    log_density = lambda q: jnp.sum(SHAPE * q - jnp.exp(q), axis=1)  # noqa: E731
    _, info = jax.jit(lambda s: hmc.step(jax.random.key(3), s, log_density))(hmc.init(exact, NUM_BLOCKS, 0.9))
    assert_mean(np.asarray(info.momentum), 0.0)
    assert_mean(np.asarray(info.momentum) ** 2, 1.0)


def test_target_is_left_invariant():
    """One refused-or-not trajectory with a coarse step takes exact draws to exact draws."""
    exact = np.log(np.random.default_rng(0).gamma(SHAPE, size=(NUM_BLOCKS, 1)))
    q, acceptance = run(jnp.asarray(exact), lambda q: jnp.sum(SHAPE * q - jnp.exp(q), axis=1), 0.9, 1)
    assert acceptance.mean() < 0.95
    for power in (1, 2, 3):  # differences within a block vary less than the blocks do
        assert_mean(q[:, 0] ** power - exact[:, 0] ** power, 0.0)


def test_blocks_do_not_influence_one_another():
    """Another start and another target for one block change nothing in the others, to the last bit."""
    start = jnp.asarray(np.random.default_rng(0).standard_normal((6, 3)))

    def ends(begin, precision):
        return run(begin, lambda q: -0.5 * precision * jnp.sum(q**4, axis=1), 0.2, 20)

    q, acceptance = ends(start, jnp.ones(6))
    for other in (1e-3, 1e9):
        q_other, acceptance_other = ends(start.at[2].set(5.0), jnp.ones(6).at[2].set(other))
        others = np.arange(6) != 2
        np.testing.assert_array_equal(q_other[others], q[others])
        np.testing.assert_array_equal(acceptance_other[:, others], acceptance[:, others])
        assert not np.array_equal(q_other[2], q[2])


def test_a_trajectory_that_runs_away_is_refused():
    start = jnp.full((3, 2), 5.0)
    q, acceptance = run(start, lambda q: -jnp.sum(q**4, axis=1), 10.0, 5)
    np.testing.assert_array_equal(q, start)
    assert not acceptance.any()


def test_each_block_adapts_its_own_step():
    state = hmc.init(jnp.zeros((3, 1)), 3)
    moved = hmc.adapt(state, jnp.asarray([1.0, hmc.TARGET_ACCEPTANCE, 0.0]), 0.5).log_step - state.log_step
    assert moved[0] > 0 and moved[1] == 0 and moved[2] < 0
