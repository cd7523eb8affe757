"""Latents of the fitted rows, drawn anew given one draw of everything else.

The chain moves each latent a little per sweep, so that its draws of a row with gaps are far from independent.  Given
decoder, noise and GP values the rows are independent and their posteriors nearly normal: a Metropolis–Hastings move
whose proposal is the normal law at the mode leaves p(z | y, draw) as it is and forgets where the chain stood.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

NUM_CLIMBS = 12
NUM_MOVES = 2
NUM_CLIMBS_FROM_GUESS = 6
NUM_MOVES_FROM_MODE = 4
MOST_WRITTEN_OUT = 8
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


class Given(NamedTuple):
    """p(z | y, all else) of independent rows: their prior, its mean and variance, and how cells follow from latents."""

    log_prior: RowDensity
    mean: Latents
    variance: Latents
    decode: Callable[[Latents], Cells]
    log_prob: Callable[[Cells], Cells]


def move(key: Key[Array, ""], z: Latents, given: Given) -> tuple[Latents, Latents, Bool[Array, " N"]]:
    """z after one move that leaves its law as it is, the slope of the log density there, and which rows have moved.

    The proposal is of the normal law that slope and curvature at z suggest.  Where the law is normal, that is a draw of
    it wherever z is.  It costs two slopes of the decoder, where a climb to the mode, to forget z, costs a dozen.
    """
    key_proposal, key_accept = jax.random.split(key)

    def log_density(z: Latents) -> Float[Array, " N"]:
        return jnp.sum(given.log_prob(given.decode(z)).astype(jnp.float64), axis=1) + given.log_prior(z)

    def suggested(z: Latents) -> tuple[Latents, Latents, Float[Array, "N C C"]]:
        eta, slopes = _with_slopes(given.decode, z)
        gradient, H = _derivatives(given.log_prob, eta, slopes, jax.vmap(jnp.diag)(1 / given.variance))
        pull = jax.grad(lambda z: jnp.sum(given.log_prior(z)))(z)
        L = _cholesky(H)
        slope = jnp.einsum("npc,np->nc", slopes.astype(jnp.float64), gradient) + pull
        return slope, z + _solve_transposed(L, _solve(L, slope)), L

    def log_proposal(z: Latents, slope: Latents, mode: Latents, L: Float[Array, "N C C"]) -> Float[Array, " N"]:
        log_det = jnp.sum(jnp.log(jnp.diagonal(L, axis1=1, axis2=2)), axis=1)
        return log_det - 0.5 * jnp.sum(jnp.einsum("nca,nc->na", L, z - mode) ** 2, axis=1)

    there = suggested(z)
    proposal = there[1] + _solve_transposed(there[2], jax.random.normal(key_proposal, z.shape, z.dtype))
    back = suggested(proposal)
    gain = log_density(proposal) - log_proposal(proposal, *there) - log_density(z) + log_proposal(z, *back)
    accepted = jnp.log(jax.random.uniform(key_accept, gain.shape)) < gain
    moved = lambda new, old: jnp.where(accepted[:, None], new, old)  # noqa: E731
    return moved(proposal, z), moved(back[0], there[0]), accepted


def _row_density(mean: Latents, variance: Latents, decode: Callable, log_prob: Callable) -> RowDensity:
    def log_density(z: Latents) -> Float[Array, " N"]:
        cells = log_prob(decode(z)).astype(jnp.float64)
        return jnp.sum(cells, axis=1) - 0.5 * jnp.sum((z - mean) ** 2 / variance, axis=1)

    return log_density


def _proposal(key: Key[Array, ""], mode: Latents, L: Float[Array, "N C C"]) -> Latents:
    seed = jax.random.normal(key, mode.shape, mode.dtype)
    return mode + WIDER * _solve_transposed(L, seed)


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
        gradient, H = _derivatives(log_prob, eta, slopes, jax.vmap(jnp.diag)(1 / variance))
        return jnp.einsum("npc,np->nc", slopes.astype(jnp.float64), gradient) - (z - mean) / variance, H

    def climb(z: Latents, _: None) -> tuple[Latents, None]:
        gradient, H = curved(z)
        factor = _cholesky(H)
        direction = _solve_transposed(factor, _solve(factor, gradient))
        candidates = jnp.stack([z + s * direction for s in STEPS])
        heights = jax.vmap(log_density)(candidates)
        best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf), axis=0)
        return jnp.take_along_axis(candidates, best[None, :, None], axis=0)[0], None

    mode = jax.lax.scan(climb, begin, None, length=num_climbs)[0]
    return mode, _cholesky(curved(mode)[1])


# A library call for each of a million matrices of two by two takes far longer than their arithmetic: the loops over C
# are written out, and the arithmetic runs over all rows at once.


def _cholesky(H: Float[Array, "N C C"]) -> Float[Array, "N C C"]:
    """Lower factors."""
    C = H.shape[-1]
    if C > MOST_WRITTEN_OUT:
        return jnp.linalg.cholesky(H)
    L: list[list[Array]] = [[jnp.zeros(H.shape[0])] * C for _ in range(C)]
    for i in range(C):
        for j in range(i + 1):
            rest = H[:, i, j] - sum((L[i][k] * L[j][k] for k in range(j)), jnp.zeros(H.shape[0]))
            L[i][j] = jnp.sqrt(rest) if i == j else rest / L[j][j]
    return jnp.stack([jnp.stack(row, axis=-1) for row in L], axis=-2)


def _solve(L: Float[Array, "N C C"], b: Latents) -> Latents:
    """L⁻¹ b, row by row."""
    C = L.shape[-1]
    if C > MOST_WRITTEN_OUT:
        return jax.scipy.linalg.solve_triangular(L, b[..., None], lower=True)[..., 0]
    x: list[Array] = []
    for i in range(C):
        x.append((b[:, i] - sum((L[:, i, k] * x[k] for k in range(i)), jnp.zeros(len(b)))) / L[:, i, i])
    return jnp.stack(x, axis=-1)


def _solve_transposed(L: Float[Array, "N C C"], b: Latents) -> Latents:
    """L⁻ᵀ b, row by row: the same with rows and columns counted from the end."""
    return _solve(jnp.swapaxes(L, 1, 2)[:, ::-1, ::-1], b[:, ::-1])[:, ::-1]


def _with_slopes(decode: Callable, z: Latents) -> tuple[Cells, Float[Array, "N P C"]]:
    """η and ∂η/∂z; rows do not see each other, so one tangent per latent serves all rows."""
    C = z.shape[1]

    def along(c):
        return jax.jvp(decode, (z,), (jnp.broadcast_to(jnp.eye(C, dtype=z.dtype)[c], z.shape),))

    etas, slopes = jax.vmap(along)(jnp.arange(C))
    return etas[0], jnp.moveaxis(slopes, 0, -1)


def _derivatives(
    log_prob: Callable, eta: Float[Array, "N Q"], slopes: Float[Array, "N Q C"], prior: Float[Array, "N C C"]
) -> tuple[Float[Array, "N Q"], Float[Array, "N C C"]]:
    """∂ log p/∂η of every output, and the precision of z: the prior's, and what the cells add by Gauss–Newton.

    Outputs of one cell bend together (of a class, only differences count), so the products are with the whole of
    ∂² log p/∂η².  Where that leaves no precision, because a density is not concave in η, each output bends alone, and
    only where it bends down.
    """
    gradient = jax.grad(lambda e: jnp.sum(log_prob(e)))

    def bent(direction):
        return jax.jvp(gradient, (eta,), (direction,))

    slope, alone = bent(jnp.ones_like(eta))
    along = jax.vmap(lambda s: bent(s)[1], in_axes=-1, out_axes=-1)(slopes)
    slopes, along, alone = (a.astype(jnp.float64) for a in (slopes, along, alone))
    together = prior - jnp.einsum("npc,npd->ncd", slopes, along)
    together = 0.5 * (together + jnp.swapaxes(together, 1, 2))
    apart = prior + jnp.einsum("npc,np,npd->ncd", slopes, jnp.maximum(-alone, 0.0), slopes)
    sound = jnp.all(jnp.isfinite(_cholesky(together)), axis=(1, 2))
    return slope.astype(jnp.float64), jnp.where(sound[:, None, None], together, apart)


def is_possible(num_rows: int, num_cells: int, latent_dim: int, largest: int = 30_000_000) -> bool:
    """Whether the slopes of all rows fit in memory."""
    return num_rows * num_cells * latent_dim <= largest
