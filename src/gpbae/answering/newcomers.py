"""Latents of groups never seen, given the rows they bring: (v, Z) jointly, under one draw of everything else.

A trajectory in standardised coordinates must take steps as small as the best known row allows, and then gets nowhere
where nothing was observed: a forecast would stay near where it began.  Here trajectories run in coordinates in which
the normal law at the mode is standard, which for a linear decoder and Gaussian noise is the posterior itself.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gpbae import autoencoder
from gpbae.answering import guessing
from gpbae.answering.posterior import Rows
from gpbae.autoencoder import Autoencoder, Position
from gpbae.linalg import solve_triangular
from gpbae.priors import Query, SparsePrior
from gpbae.sampling import hmc, redraw

NUM_CLIMBS_FROM_GUESS = 20
NUM_CLIMBS = 3
NUM_BURN_IN = 20
NUM_LEAPFROG = 6
FIRST_STEP = 0.3
STEPS = (1.0, 0.3, 0.05, 0.0)
LEAST_SHARE = 1e-6
"""Of the prior's precision, added to what the cells say: cells must not take any away, or the precision of all values
together could vanish and a Newton step lead nowhere."""
MOST_VALUES = 1_500
"""Values of a group, all latents together, whose precision is factorised for every draw."""
LARGEST_MATRICES = 30_000_000
"""Numbers in the slopes, or in the precisions and projections, of the groups that are refined at a time."""


class State(NamedTuple):
    """Values and latents of every group, in the model's coordinates or in those of a normal law."""

    values: Float[Array, "G C M"]
    latents: Float[Array, "G q C"]


class Link(NamedTuple):
    """zₙ = Aₙ v + √sₙ εₙ, channel by channel."""

    weights: Float[Array, "G q C M"]
    variance: Float[Array, "G q C"]

    def mean(self, values: Float[Array, "G C M"]) -> Float[Array, "G q C"]:
        return jnp.einsum("gqcm,gcm->gqc", self.weights, values)


class NormalLaw(NamedTuple):
    """p(v, Z | y) near its mode: chol Λ of the precision of v, Z integrated out; a root Rₙ Rₙᵀ = Hₙ⁻¹ of the covariance
    of zₙ given v, and Hₙ⁻¹ Sₙ⁻¹, by which zₙ follows the GP."""

    mode: State
    values_factor: Float[Array, "G V V"]
    latents_root: Float[Array, "G q C C"]
    follows: Float[Array, "G q C C"]


def can_refine(model: Autoencoder, rows: Rows) -> bool:
    """Whether `refine` is for this prior, and the matrices of one group fit in memory."""
    _, num_rows, num_cells = rows.y.shape
    if not isinstance(model.prior, SparsePrior) or not redraw.is_possible(num_rows, num_cells, model.prior.latent_dim):
        return False
    return _num_values(model) <= MOST_VALUES


def _num_values(model: Autoencoder) -> int:
    return model.prior.latent_dim * model.prior.inducing_start.shape[0]


def _groups_at_a_time(model: Autoencoder, rows: Rows) -> int:
    """How many groups have slopes, precisions and projections that fit in memory together."""
    _, num_rows, num_cells = rows.y.shape
    V, C = _num_values(model), model.prior.latent_dim
    return max(1, LARGEST_MATRICES // max(V * (V + num_rows), num_rows * num_cells * C))


def refine(
    model: Autoencoder, draws: Position, encoders: PyTree, query: Query, rows: Rows, key: Key[Array, ""],
    num_steps: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Latents of new groups under p(v, Z | y observed, x, draw), η, and the mean acceptance of each chain and group;
    draws have axes (chain, draw).  Groups are independent given a draw, so many are refined some at a time."""
    G, step = rows.y.shape[0], _groups_at_a_time(model, rows)
    starts = range(0, G, step)
    keys = jax.random.split(key, len(starts))
    parts = [jax.tree.map(lambda a, g=g: a[g : g + step], (query, rows)) for g in starts]
    found = [_refine_together(model, draws, encoders, *part, k, num_steps) for part, k in zip(parts, keys, strict=True)]
    z, eta = (np.concatenate([np.asarray(f[i]) for f in found], axis=2) for i in (0, 1))
    return z, eta, np.concatenate([np.asarray(f[2]) for f in found], axis=1)


@eqx.filter_jit
def _refine_together(model, draws, encoders, query, rows, key, num_steps):
    """Along each chain's draws one chain of trajectories follows, `num_steps` per draw, in the coordinates of the
    draw's own normal law, where it begins with a draw of it."""

    def one_chain(item):
        chain_draws, encoder, k = item
        key_guess, key_burn, key_rest = jax.random.split(k, 3)
        first = jax.tree.map(lambda a: a[0], chain_draws)
        seen = Seen(model, first, query, rows)
        mode = seen.climbed(seen.guessed(encoder, key_guess), NUM_CLIMBS_FROM_GUESS)
        state = _burn_in(seen, mode, key_burn)

        def follow(carry, item):
            (mode, state), (draw, k) = carry, item
            seen = Seen(model, draw, query, rows)
            mode = seen.climbed(mode, NUM_CLIMBS)
            state, z, acceptance = _moved(seen, mode, state, num_steps, k)
            eta = model.decode(draw.shared, z.reshape(-1, z.shape[-1])).reshape(*z.shape[:-1], -1)
            eta = seen.likelihood.expose(eta, rows.y.astype(eta.dtype), rows.mask)
            return (mode, state), (z, eta, acceptance)

        keys = jax.random.split(key_rest, jax.tree.leaves(chain_draws)[0].shape[0])
        _, (z, eta, acceptance) = jax.lax.scan(follow, (mode, state), (chain_draws, keys))
        return z, eta, jnp.mean(acceptance, axis=0)

    return jax.lax.map(one_chain, (draws, encoders, jax.random.split(key, jax.tree.leaves(draws)[0].shape[0])))


class Seen:
    """The rows of new groups under one draw of the model: their joint density with the values, and its normal law."""

    def __init__(self, model: Autoencoder, draw: Position, query: Query, rows: Rows):
        self.model, self.shared, self.query, self.rows = model, draw.shared, query, rows
        self.likelihood = model.observe(draw.shared)
        assert isinstance(model.prior, SparsePrior)
        self.prior = model.prior
        (G, q, D), C = query.x.shape, model.prior.latent_dim
        projection, variance = model.prior.project(draw.shared["prior"], query.x.reshape(G * q, D))
        weights = jnp.broadcast_to(projection.weights, (C, *projection.weights.shape[1:]))
        variance = jnp.broadcast_to(variance, (G * q, C)).reshape(G, q, C)
        self.link = Link(jnp.moveaxis(weights, 2, 0).reshape(G, q, C, -1), variance)

    def guessed(self, encoder: PyTree, key: Key[Array, ""]) -> State:
        """The encoder's latents, or where the path of rows that have cells passes if that explains a row better."""
        seen = self.model.presented(self.rows)
        G, q, F = seen.y.shape
        flat = (a.reshape(G * q, F) for a in (seen.y, seen.mask))
        guess = autoencoder.encode(encoder, *flat, key).reshape(G, q, -1)
        query = self.query._replace(valid=self.query.valid & jnp.any(self.rows.mask, axis=-1))
        prior, hyper = self.prior, self.shared["prior"]
        z = guessing.follow_paths(prior.hyper_reference.resolve(hyper)[0], query, guess, self._cells)
        return State(prior.standardised(hyper, None, query, z)[0], z)

    def _cells(self, z: Float[Array, "G q C"]) -> Float[Array, "G q"]:
        """log p(y observed | z), row by row."""
        log_prob = self._log_prob(self._decode(z.reshape(-1, z.shape[-1])))
        return jnp.sum(log_prob, axis=1).astype(jnp.float64).reshape(z.shape[:2])

    def _decode(self, z: Float[Array, "B C"]) -> Float[Array, "B H"]:
        return self.model.decode(self.shared, z)

    def _log_prob(self, eta: Float[Array, "B H"]) -> Float[Array, "B P"]:
        y, mask = (a.reshape(-1, a.shape[-1]) for a in self.rows)
        y = y.astype(eta.dtype)
        return self.likelihood.log_prob(y, mask, self.likelihood.expose(eta, y, mask))

    def log_density(self, at: State) -> Float[Array, " G"]:
        """log p(v) + log p(Z | v) + log p(y observed | Z) of every group, up to a constant."""
        misfit = (at.latents - self.link.mean(at.values)) ** 2 / self.link.variance
        squares = jnp.sum(at.values**2, axis=(1, 2)) + jnp.sum(misfit, axis=(1, 2))
        return jnp.sum(self._cells(at.latents), axis=1) - 0.5 * squares

    def normal_law(self, at: State) -> NormalLaw:
        """With log p(y | z) replaced by its second-order expansion in z (Gauss–Newton): its mode is a Newton step."""
        z = at.latents
        G, q, C = z.shape
        S = self.link.variance.reshape(-1, C)
        eta, slopes = redraw._with_slopes(self._decode, z.reshape(-1, C))
        prior = jax.vmap(jnp.diag)(1 / S)
        gradient, W = redraw._derivatives(self._log_prob, eta, slopes, LEAST_SHARE * prior)
        H = W + prior
        pull = jnp.einsum("npc,np->nc", slopes.astype(jnp.float64), gradient)
        pull = pull + jnp.einsum("ncd,nd->nc", W, z.reshape(-1, C))
        root = _inverse_root(H)
        inverse = root @ jnp.swapaxes(root, 1, 2)
        follows = inverse / S[:, None]
        root, W, pull, follows, inverse = (a.reshape(G, q, *a.shape[1:]) for a in (root, W, pull, follows, inverse))
        factor = jnp.linalg.cholesky(self._values_precision(W @ follows))
        b = jnp.einsum("gqcm,gqdc,gqd->gcm", self.link.weights, follows, pull).reshape(G, -1, 1)
        half = solve_triangular(factor, b)
        v = solve_triangular(factor, half, transpose=True).reshape(at.values.shape)
        z = jnp.einsum("gqcd,gqd->gqc", follows, self.link.mean(v)) + jnp.einsum("gqcd,gqd->gqc", inverse, pull)
        return NormalLaw(State(v, z), factor, root, follows)

    def _values_precision(self, informed: Float[Array, "G q C C"]) -> Float[Array, "G V V"]:
        """Λ = I + Σₙ Aₙᵀ (Sₙ + Wₙ⁻¹)⁻¹ Aₙ, Wₙ what the cells of row n say of zₙ; (S + W⁻¹)⁻¹ = W H⁻¹ S⁻¹."""
        A = self.link.weights
        G, _, C, M = A.shape
        informed = 0.5 * (informed + jnp.swapaxes(informed, 2, 3))
        total = jnp.einsum("gqcm,gqcd,gqdl->gcmdl", A, informed, A, optimize="optimal")
        return total.reshape(G, C * M, C * M) + jnp.eye(C * M)[None]

    def climbed(self, at: State, num_climbs: int) -> State:
        """Towards the mode by Newton steps, shortened where they lead down."""

        def climb(at: State, _: None) -> tuple[State, None]:
            aim = self.normal_law(at).mode
            candidates = [jax.tree.map(lambda a, b, s=s: a + s * (b - a), at, aim) for s in STEPS]
            heights = jnp.stack([self.log_density(c) for c in candidates])
            best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf), axis=0)
            stacked = jax.tree.map(lambda *a: jnp.stack(a), *candidates)
            return jax.tree.map(lambda a: a[best, jnp.arange(len(best))], stacked), None

        return jax.lax.scan(climb, at, None, length=num_climbs)[0]

    def placed(self, law: NormalLaw, coordinates: State) -> State:
        """Where standard coordinates of the normal law are."""
        G = coordinates.values.shape[0]
        shift = solve_triangular(law.values_factor, coordinates.values.reshape(G, -1, 1), transpose=True)
        shift = shift.reshape(coordinates.values.shape)
        along = jnp.einsum("gqcd,gqd->gqc", law.follows, self.link.mean(shift))
        own = jnp.einsum("gqcd,gqd->gqc", law.latents_root, coordinates.latents)
        return State(law.mode.values + shift, law.mode.latents + along + own)


def _inverse_root(H: Float[Array, "N C C"]) -> Float[Array, "N C C"]:
    """L⁻ᵀ of H = L Lᵀ, row by row: trajectories multiply by it many times."""
    N, C, _ = H.shape
    L = redraw._cholesky(H)
    return jnp.stack([redraw._solve_transposed(L, jnp.broadcast_to(e, (N, C))) for e in jnp.eye(C)], axis=-1)


def _target(seen: Seen, law: NormalLaw) -> Any:
    return lambda coordinates: seen.log_density(seen.placed(law, coordinates))


def _normal(key: Key[Array, ""], like: State) -> State:
    key_values, key_latents = jax.random.split(key)
    return State(jax.random.normal(key_values, like.values.shape), jax.random.normal(key_latents, like.latents.shape))


def _burn_in(seen: Seen, mode: State, key: Key[Array, ""]) -> hmc.State:
    """Coordinates after a few trajectories, and step sizes that are accepted as often as they should be."""
    law = seen.normal_law(mode)._replace(mode=mode)
    key_first, key_moves = jax.random.split(key)

    def move(state, item):
        index, rate = item
        state, info = hmc.step(jax.random.fold_in(key_moves, index), state, _target(seen, law), NUM_LEAPFROG)
        return hmc.adapt(state, info.acceptance, rate), None

    begin = hmc.init(_normal(key_first, mode), mode.latents.shape[0], FIRST_STEP)
    rates = 1.0 / jnp.sqrt(1.0 + jnp.arange(NUM_BURN_IN, dtype=jnp.float64))
    return jax.lax.scan(move, begin, (jnp.arange(NUM_BURN_IN), rates))[0]


def _moved(seen: Seen, mode: State, state: hmc.State, num_steps: int, key: Key[Array, ""]):
    """Coordinates after some trajectories, the latents they stand for, and each group's mean acceptance."""
    law = seen.normal_law(mode)._replace(mode=mode)

    def move(state, index):
        state, info = hmc.step(jax.random.fold_in(key, index), state, _target(seen, law), NUM_LEAPFROG)
        return state, info.acceptance

    state, acceptance = jax.lax.scan(move, state, jnp.arange(num_steps))
    return state, seen.placed(law, state.position).latents, jnp.mean(acceptance, axis=0)
