"""Latents drawn anew follow the posterior of their rows, whatever they were before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import checks
from gpbae.likelihoods import Gaussian
from gpbae.priors import Batch
from gpbae.sampling import redraw

OPTIMISED = True

NUM = 4000


def some_moves(key, z, mean, variance, decode, log_prob):
    """Ten, so that what one of them does to a law adds up."""
    log_prior = lambda z: -0.5 * jnp.sum((z - mean) ** 2 / variance, axis=1)  # noqa: E731
    given = redraw.Given(log_prior, mean, variance, decode, log_prob)
    return jax.lax.scan(lambda z, k: (redraw.move(k, z, given)[0], None), z, jax.random.split(key, 10))[0]


MOVES = {"from the mode": redraw.redraw, "from where it is": some_moves}
every_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)


def moved(move, z, mean, variance, decode, y, mask, noise):
    likelihood = Gaussian(noise)
    log_prob = lambda eta: likelihood.log_prob(y, mask, eta)  # noqa: E731
    return np.asarray(move(jax.random.key(0), z, mean, variance, decode, log_prob))


@every_move
def test_a_linear_decoder_has_the_normal_posterior_in_closed_form(move):
    W, noise = jnp.array([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]]), 0.1
    y = jnp.broadcast_to(jnp.array([0.3, -1.0, 2.0]), (NUM, 3))
    mask = jnp.broadcast_to(jnp.array([True, True, False]), (NUM, 3))
    mean, variance = jnp.full((NUM, 2), 0.5), jnp.full((NUM, 2), 0.8)
    P = W[:, :2] @ W[:, :2].T / noise**2 + jnp.eye(2) / 0.8
    centre = jnp.linalg.solve(P, W[:, :2] @ y[0, :2] / noise**2 + 0.5 / 0.8)
    root = np.linalg.cholesky(np.linalg.inv(np.asarray(P)))
    start = np.random.default_rng(1).standard_normal((NUM, 2)) @ root.T + np.asarray(centre)
    z = moved(move, jnp.asarray(start), mean, variance, lambda z: z @ W, y, mask, noise)
    whitened = (z - np.asarray(centre)) @ np.linalg.cholesky(np.asarray(P))
    assert all(stats.kstest(column, "norm").pvalue > 1e-3 for column in whitened.T)
    correlation = np.corrcoef(start[:, 0], z[:, 0])[0, 1]
    assert abs(correlation) < 0.1  # moves forget where they began


@pytest.mark.parametrize("noise", [0.2, 1.0])
@every_move
def test_a_bent_decoder_keeps_its_posterior(noise, move):
    """Start from exact draws by a fine grid; after the moves they are draws of the same law."""
    decode = lambda z: jnp.concatenate([jnp.exp(0.5 * z), z**2], axis=1)  # noqa: E731
    y = jnp.broadcast_to(jnp.array([1.5, 0.4]), (NUM, 2))
    grid = np.linspace(-5, 5, 20_001)
    log_p = -0.5 * grid**2 + sum(
        stats.norm.logpdf(float(y[0, i]), np.asarray(decode(jnp.asarray(grid)[:, None]))[:, i], noise) for i in (0, 1)
    )
    weight = np.exp(log_p - log_p.max())
    cdf = np.cumsum(weight) / weight.sum()
    start = np.interp(np.random.default_rng(0).random(NUM), cdf, grid)
    ones = jnp.ones((NUM, 1))
    z = moved(move, jnp.asarray(start)[:, None], 0 * ones, ones, decode, y, jnp.ones((NUM, 2), bool), noise)
    assert stats.kstest(z[:, 0], lambda t: np.interp(t, grid, cdf)).pvalue > 1e-3
    assert np.mean(z[:, 0] != start) > 0.5


def test_a_mixture_in_the_place_of_a_normal_prior_is_kept_by_moves_that_are_told_its_spread():
    """As a deep prior has: its mean and variance propose, its density decides."""
    prior, ones = checks.deep_prior(), jnp.ones((NUM, 1))
    hyper, values = checks.perturbed(prior.init(jax.random.key(0), 1), 3)
    batch = Batch(1.3 * ones, ones, ones > 0, ones[:, 0] > 0, jnp.zeros(NUM, int), jnp.arange(NUM)[None], jnp.ones(()))
    law = prior.law(hyper, batch)
    log_rows, (mean, sd) = lambda z: law.log_rows(values, z), law.spread(values)
    axis = np.linspace(-8.0, 8.0, 401)
    first, second = np.meshgrid(axis, axis, indexing="ij")
    one = prior.law(hyper, Batch(*(a[:1] for a in batch[:5]), jnp.zeros((1, 1), int), jnp.ones(())))
    grid = jnp.asarray(np.stack([first, second], axis=-1).reshape(-1, 2))
    log_p = jax.lax.map(lambda z: one.log_rows(values, z[None])[0] - 0.5 * (z[0] + z[1] - 1.0) ** 2, grid)
    weight = np.exp(np.asarray(log_p))
    weight /= weight.sum()
    chosen = np.random.default_rng(0).choice(len(weight), NUM, p=weight)
    start = np.asarray(grid)[chosen] + (axis[1] - axis[0]) * np.random.default_rng(1).uniform(-0.5, 0.5, (NUM, 2))
    likelihood = Gaussian(1.0)
    given = redraw.Given(log_rows, mean, sd**2, lambda z: jnp.sum(z, axis=1, keepdims=True),
                         lambda eta: likelihood.log_prob(ones, ones > 0, eta))  # fmt: skip
    z, accepted = jnp.asarray(start), []
    for number in range(10):
        z, _, moved = redraw.move(jax.random.key(number), z, given)
        accepted.append(moved)
    for column in (0, 1):
        cdf = np.cumsum(weight.reshape(first.shape).sum(axis=1 - column))
        law_of = lambda t, cdf=cdf: np.interp(t, axis + (axis[1] - axis[0]) / 2, cdf)  # noqa: E731
        assert stats.kstest(np.asarray(z)[:, column], law_of).pvalue > 1e-3
    assert np.mean(accepted) > 0.3


@every_move
def test_classes_keep_their_posterior_and_are_often_redrawn(move):
    """Three outputs per cell bend together; taken one by one they would not seem to bend at all."""
    W, counts = jnp.array([[2.0, -1.0, -1.0]]), jnp.array([[9.0, 3.0, 0.0]])  # twelve cells of one column, by class
    decode, log_prob = lambda z: z @ W, lambda eta: counts * jax.nn.log_softmax(eta)
    grid = np.linspace(-5, 5, 20_001)
    log_p = -0.5 * grid**2 + np.asarray(log_prob(decode(jnp.asarray(grid)[:, None]))).sum(axis=1)
    cdf = np.cumsum(np.exp(log_p - log_p.max()))
    cdf /= cdf[-1]
    start = np.interp(np.random.default_rng(0).random(NUM), cdf, grid)
    ones = jnp.ones((NUM, 1))
    z = move(jax.random.key(1), jnp.asarray(start)[:, None], 0 * ones, ones, decode, log_prob)
    z = np.asarray(z)[:, 0]
    assert stats.kstest(z, lambda t: np.interp(t, grid, cdf)).pvalue > 1e-3
    assert np.mean(z != start) > 0.8


@pytest.mark.parametrize("dim", [1, 2, 5, 9])
def test_small_factors_and_solves_are_those_of_the_library(dim):
    rng = np.random.default_rng(dim)
    A, b = rng.standard_normal((7, dim, dim)), rng.standard_normal((7, dim))
    H = A @ np.swapaxes(A, 1, 2) + np.eye(dim)
    L = redraw._cholesky(jnp.asarray(H))
    np.testing.assert_allclose(L, np.linalg.cholesky(H), rtol=1e-10, atol=1e-12)
    for solve, matrix in ((redraw._solve, L), (redraw._solve_transposed, jnp.swapaxes(L, 1, 2))):
        expected = np.linalg.solve(np.asarray(matrix), b[..., None])[..., 0]
        np.testing.assert_allclose(solve(L, jnp.asarray(b)), expected, rtol=1e-9)
