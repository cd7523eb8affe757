"""Where the latents of rows never seen are looked for first: at the encoder's guess, or where the path of their group
passes if that explains a row better.

An encoder sees one row at a time.  A picture with nothing in it, or a row with one cell, says little by itself, and a
guess far from the path is a place that trajectories may not leave.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae import gp
from gpbae.kernels import AbstractKernel
from gpbae.priors import GUESS_VARIANCE, Query

FEWEST_ROWS, MOST_ROWS = 4, 500
STRETCHES = (5, 4, 3, 2, 1, 1)

Latents = Float[Array, "G q C"]


def follow_paths(
    kernels: tuple[AbstractKernel, ...], query: Query, guess: Latents,
    log_likelihood: Callable[[Latents], Float[Array, "G q"]],
) -> Latents:  # fmt: skip
    """Guesses of blocks of rows; each stays, or moves to the mean of a GP through other guesses of its block, whichever
    has the larger log p(z | the others) + log p(y | z).

    The others are first those outside its stretch of the path, because neighbours that err together agree with each
    other, then every other row.
    """
    if not FEWEST_ROWS <= guess.shape[1] <= MOST_ROWS:
        return guess
    place = jnp.argsort(jnp.argsort(query.x[..., 0], axis=1), axis=1)
    z = guess
    for length in STRETCHES:
        for half in (0, 1):
            moving = (place // length) % 2 == half
            others = (query.x, query.valid & ~moving, z)
            path, variance = gp.exact_marginals(kernels, others, query.x, jnp.asarray(GUESS_VARIANCE))
            off = 0.5 * jnp.sum((z - path) ** 2 / (jnp.swapaxes(variance, 1, 2) + GUESS_VARIANCE), axis=-1)
            better = log_likelihood(path) > log_likelihood(z) - off
            z = jnp.where((better & moving)[..., None], path, z)
    return z
