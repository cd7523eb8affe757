"""Where the latents of rows never seen are looked for first: at the encoder's guess, or where the path of their group
passes if that explains a row better.

An encoder sees one row at a time.  A picture with nothing in it, or a row with one cell, says little by itself, and a
guess far from the path is a place that trajectories may not leave.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae import gp
from gpbae.kernels import AbstractKernel
from gpbae.linalg import cholesky
from gpbae.priors import GUESS_VARIANCE, Query

FEWEST_ROWS, MOST_ROWS = 4, 500
STRETCHES = (5, 4, 3, 2, 1, 1)
MOST_STEPS, MEMORY = 100, 12

Latents = Float[Array, "G q C"]


def follow_paths(
    kernels: tuple[AbstractKernel, ...], query: Query, guess: Latents,
    log_likelihood: Callable[[Latents], Float[Array, "G q"]],
) -> Latents:  # fmt: skip
    """Guesses of blocks of rows; each stays, or moves to the mean of a GP through other guesses of its block, whichever
    has the larger log p(z | the others) + log p(y | z).

    Neighbours that err together agree with each other, so the others are rows outside a row's stretch of the path; and
    blocks also begin with rows moved one after another, given those before or after them.  The densest way is taken.
    """
    if not FEWEST_ROWS <= guess.shape[1] <= MOST_ROWS:
        return guess
    place = jnp.argsort(jnp.argsort(jnp.where(query.valid, query.x[..., 0], jnp.inf), axis=1), axis=1)
    ways = [guess]
    if query.x.shape[-1] == 1 and guess.shape[1] <= MOST_STEPS:
        back = guess.shape[1] - 1 - place
        ways += [_walked(kernels, query, guess, log_likelihood, order) for order in (place, back)]
    ways = [_by_stretches(kernels, query, z, log_likelihood, place) for z in ways]
    heights = jnp.stack([_log_density(kernels, query, z, log_likelihood) for z in ways])
    return jnp.stack(ways)[jnp.argmax(heights, axis=0), jnp.arange(guess.shape[0])]


def _by_stretches(kernels, query, z, log_likelihood, place) -> Latents:
    for length in STRETCHES:
        for half in (0, 1):
            moving = (place // length) % 2 == half
            z = _moved(kernels, query, z, log_likelihood, moving, query.valid & ~moving)
    return z


def _walked(kernels, query, z, log_likelihood, place) -> Latents:
    """One row after another, given those before it."""

    def step(z, number):
        told = query.valid & (place < number) & (place >= number - MEMORY)
        return _moved(kernels, query, z, log_likelihood, place == number, told), None

    return jax.lax.scan(step, z, jnp.arange(z.shape[1]))[0]


def _moved(kernels, query, z, log_likelihood, moving, told) -> Latents:
    """Rows that move, at the mean of the GP given those told where that explains them better."""
    path, variance = gp.exact_marginals(kernels, (query.x, told, z), query.x, jnp.asarray(GUESS_VARIANCE))
    off = 0.5 * jnp.sum((z - path) ** 2 / (jnp.swapaxes(variance, 1, 2) + GUESS_VARIANCE), axis=-1)
    better = log_likelihood(path) > log_likelihood(z) - off
    return jnp.where((better & moving)[..., None], path, z)


def _log_density(kernels, query, z, log_likelihood) -> Float[Array, " G"]:
    """log p(Z) + log p(y | Z) of every block."""
    K = gp.block_covariance(kernels, query.x, query.valid, jnp.asarray(GUESS_VARIANCE))
    prior = jax.vmap(lambda k, z, v: gp.exact_log_density(k[None], z[None], v[None]))(cholesky(K), z, query.valid)
    return prior + jnp.sum(jnp.where(query.valid, log_likelihood(z), 0.0), axis=1)
