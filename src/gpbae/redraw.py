"""Latents of the fitted rows, drawn anew given one draw of everything else.

The chain moves each latent a little per sweep, so that its draws of a row with gaps are far from independent.  Given
decoder, noise and GP values the rows are independent and their posteriors nearly normal: a Metropolis–Hastings move
whose proposal is the normal law at the mode leaves p(z | y, draw) as it is and forgets where the chain stood.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

NUM_CLIMBS = 12
NUM_MOVES = 2
NUM_CLIMBS_FROM_GUESS = 6
NUM_MOVES_FROM_MODE = 4
STEPS = (1.0, 0.3, 0.05, 0.0)
WIDER = 1.1
"""Standard deviations of the proposal over those of the normal law: tails heavier than its own must be reachable."""

Latents = Float[Array, "N C"]
Cells = Float[Array, "N P"]
RowDensity = Callable[[Latents], Float[Array, " N"]]


def redraw(
    key: Key[Array, ""],
    z: Latents,
    mean: Latents,
    variance: Latents,
    decode: Callable[[Latents], Cells],
    log_prob: Callable[[Cells], Cells],
) -> Latents:
    """z after moves that leave p(z) ∝ N(z; mean, variance) · p(y | decode(z)) unchanged, row by row."""
    log_density = _row_density(mean, variance, decode, log_prob)
    mode, L = _normal_law(mean, mean, variance, decode, log_prob, log_density, NUM_CLIMBS)
    return _moved(key, z, mode, L, log_density, NUM_MOVES)


def place(
    key: Key[Array, ""],
    guess: Latents,
    mean: Latents,
    variance: Latents,
    decode: Callable[[Latents], Cells],
    log_prob: Callable[[Cells], Cells],
) -> Latents:
    """Draws near p(z) ∝ N(z; mean, variance) · p(y | decode(z)) for rows that no chain has followed.

    The climb starts from the guess or from the prior mean, whichever is likelier; the first draw is one of the normal
    law, and moves correct it.
    """
    key_first, key_moves = jax.random.split(key)
    log_density = _row_density(mean, variance, decode, log_prob)
    begin = jnp.where((log_density(guess) > log_density(mean))[:, None], guess, mean)
    mode, L = _normal_law(begin, mean, variance, decode, log_prob, log_density, NUM_CLIMBS_FROM_GUESS)
    first = _proposal(key_first, mode, L)
    return _moved(key_moves, first, mode, L, log_density, NUM_MOVES_FROM_MODE)


def _row_density(mean: Latents, variance: Latents, decode: Callable, log_prob: Callable) -> RowDensity:
    def log_density(z: Latents) -> Float[Array, " N"]:
        cells = log_prob(decode(z)).astype(jnp.float64)
        return jnp.sum(cells, axis=1) - 0.5 * jnp.sum((z - mean) ** 2 / variance, axis=1)

    return log_density


def _proposal(key: Key[Array, ""], mode: Latents, L: Float[Array, "N C C"]) -> Latents:
    seed = jax.random.normal(key, mode.shape, mode.dtype)
    return mode + WIDER * jax.scipy.linalg.solve_triangular(L, seed[..., None], lower=True, trans=1)[..., 0]


def _moved(key, z: Latents, mode: Latents, L, log_density: RowDensity, num_moves: int) -> Latents:
    """Metropolis–Hastings with proposals that do not depend on z."""

    def log_proposal(z: Latents) -> Float[Array, " N"]:
        return -0.5 * jnp.sum((jnp.einsum("nca,nc->na", L, z - mode) / WIDER) ** 2, axis=1)

    def move(z, k):
        key_proposal, key_accept = jax.random.split(k)
        proposal = _proposal(key_proposal, mode, L)
        gain = log_density(proposal) - log_proposal(proposal) - log_density(z) + log_proposal(z)
        accepted = jnp.log(jax.random.uniform(key_accept, gain.shape)) < gain
        return jnp.where(accepted[:, None], proposal, z), jnp.mean(accepted)

    return jax.lax.scan(move, z, jax.random.split(key, num_moves))[0]


def _normal_law(
    begin: Latents, mean: Latents, variance: Latents, decode: Callable, log_prob: Callable, log_density: RowDensity,
    num_climbs: int,
) -> tuple[Latents, Float[Array, "N C C"]]:  # fmt: skip
    """Mode and Cholesky factor of the precision by Gauss–Newton; where it begins must not depend on where z is."""

    def curved(z: Latents) -> tuple[Latents, Float[Array, "N C C"]]:
        eta, slopes = _with_slopes(decode, z)
        gradient, bend = _derivatives(log_prob, eta)
        slopes = slopes.astype(jnp.float64)
        H = jnp.einsum("npc,np,npd->ncd", slopes, bend, slopes) + jax.vmap(jnp.diag)(1 / variance)
        return jnp.einsum("npc,np->nc", slopes, gradient) - (z - mean) / variance, H

    def climb(z: Latents, _: None) -> tuple[Latents, None]:
        gradient, H = curved(z)
        factor = jnp.linalg.cholesky(H)
        direction = jax.scipy.linalg.cho_solve((factor, True), gradient[..., None])[..., 0]
        candidates = jnp.stack([z + s * direction for s in STEPS])
        heights = jax.vmap(log_density)(candidates)
        best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf), axis=0)
        return jnp.take_along_axis(candidates, best[None, :, None], axis=0)[0], None

    mode = jax.lax.scan(climb, begin, None, length=num_climbs)[0]
    return mode, jnp.linalg.cholesky(curved(mode)[1])


def _with_slopes(decode: Callable, z: Latents) -> tuple[Cells, Float[Array, "N P C"]]:
    """η and ∂η/∂z; rows do not see each other, so one tangent per latent serves all rows."""
    C = z.shape[1]

    def along(c):
        return jax.jvp(decode, (z,), (jnp.broadcast_to(jnp.eye(C, dtype=z.dtype)[c], z.shape),))

    etas, slopes = jax.vmap(along)(jnp.arange(C))
    return etas[0], jnp.moveaxis(slopes, 0, -1)


def _derivatives(log_prob: Callable, eta: Cells) -> tuple[Cells, Cells]:
    """∂ log p/∂η of every cell and minus its second derivative where that is positive."""
    gradient = jax.grad(lambda e: jnp.sum(log_prob(e)))
    slope, bend = jax.jvp(gradient, (eta,), (jnp.ones_like(eta),))
    return slope.astype(jnp.float64), jnp.maximum(-bend.astype(jnp.float64), 0.0)


def is_possible(num_rows: int, num_cells: int, latent_dim: int, largest: int = 30_000_000) -> bool:
    """Whether the slopes of all rows fit in memory."""
    return num_rows * num_cells * latent_dim <= largest
