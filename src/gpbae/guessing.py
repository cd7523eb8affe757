"""Where the latents of rows never seen are looked for first: at the encoder's guess, or where the path of their group
passes if that explains a row better.

An encoder sees one row at a time.  A picture with nothing in it, or a row with one cell, says little by itself, and a
guess far from the path is a place that trajectories may not leave.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae.priors import GUESS_VARIANCE, AbstractLatentPrior, Memory, Query

FEWEST_ROWS = 4
STRETCHES = (3, 2, 1, 1)

Latents = Float[Array, "G q C"]


def follow_paths(
    prior: AbstractLatentPrior, hyper: dict, memory: Memory | None, query: Query, guess: Latents,
    log_likelihood: Callable[[Latents], Float[Array, "G q"]],
) -> Latents:  # fmt: skip
    """Guesses of blocks of rows; each stays, or moves onto the path through other rows of its block.

    These are first those outside its stretch of the path, because neighbours that err together agree with each other,
    then every other row.
    """
    if guess.shape[1] < FEWEST_ROWS:
        return guess
    place = jnp.argsort(jnp.argsort(query.x[..., 0], axis=1), axis=1)
    z = guess
    for length in STRETCHES:
        for half in (0, 1):
            moving = (place // length) % 2 == half
            path, variance = _path(prior, hyper, memory, query._replace(valid=query.valid & ~moving), z)
            off = 0.5 * jnp.sum((z - path) ** 2 / (variance + GUESS_VARIANCE), axis=-1)
            better = log_likelihood(path) > log_likelihood(z) - off
            z = jnp.where((better & moving)[..., None], path, z)
    return z


def _path(prior, hyper, memory, query, z) -> tuple[Latents, Latents]:
    """Where the rows that are valid say a block's path passes, and how far latents may lie from it."""
    values, seed = prior.standardised(hyper, memory, query, z)
    if values is None:
        return prior.whitened(hyper, None, memory, query, seed)[0], jnp.zeros(z.shape)
    law = prior.marginals(hyper, values, memory, query)
    return jnp.mean(law.mean, axis=0), jnp.mean(law.variance, axis=0)
