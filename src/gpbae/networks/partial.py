"""Partial inference networks (Ashman et al. 2020): encoders that look at observed cells only, whatever their number.

Values for `encoder=`.  A missing cell is not there at all, instead of a zero that the mask explains.
"""

import dataclasses
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae.networks.arguments import LARGEST_SEED, _activation
from gpbae.networks.layers import NETWORK_DTYPE, AbstractEncoder, Dense


@dataclasses.dataclass(frozen=True)
class PointNet:
    """z = ρ(mean over observed cells of h(cell's own vector, y), share observed): one network h for all cells, each
    with a learned vector.

    `features` is the size of the mean, `identity` that of a cell's vector, `widths` the hidden layers of h and of ρ.
    """

    features: int = 32
    identity: int = 8
    widths: tuple[int, ...] = (20,)
    activation: str = "tanh"

    def encoder(self, key, event_shape, latent_dim):
        key_vectors, key_inner, key_outer = jax.random.split(key, 3)
        num_cells = math.prod(event_shape)
        act = _activation(self.activation)
        vectors = jax.random.normal(key_vectors, (num_cells, self.identity), NETWORK_DTYPE)
        inner = Dense(key_inner, (self.identity + 1, *self.widths, self.features), act)
        seed = min(num_cells, LARGEST_SEED)
        outer = Dense(key_outer, (self.features + 1 + seed, *self.widths, latent_dim), act)
        return PointEncoder(vectors, inner, outer, seed, act)


@dataclasses.dataclass(frozen=True)
class IndexNet:
    """z = ρ(mean over observed cells p of h_p(y), share observed): every cell has a network h_p of its own."""

    features: int = 32
    widths: tuple[int, ...] = (20,)
    activation: str = "tanh"

    def encoder(self, key, event_shape, latent_dim):
        key_inner, key_outer = jax.random.split(key)
        num_cells = math.prod(event_shape)
        act = _activation(self.activation)
        inner = _one_per_cell(key_inner, num_cells, (1, *self.widths, self.features), act)
        seed = min(num_cells, LARGEST_SEED)
        outer = Dense(key_outer, (self.features + 1 + seed, *self.widths, latent_dim), act)
        return IndexEncoder(inner, outer, seed, act)


@dataclasses.dataclass(frozen=True)
class FactorNet:
    """Every observed cell says a mean and a precision of z on its own; z is their product, the weighted mean."""

    widths: tuple[int, ...] = (20,)
    activation: str = "tanh"

    def encoder(self, key, event_shape, latent_dim):
        """Means only."""
        return self._build(key, event_shape, latent_dim, False)

    def gaussian_encoder(self, key, event_shape, latent_dim):
        """Means, then log variances."""
        return self._build(key, event_shape, latent_dim, True)

    def _build(self, key, event_shape, latent_dim, tells_variance):
        num_cells = math.prod(event_shape)
        act = _activation(self.activation)
        inner = _one_per_cell(key, num_cells, (1, *self.widths, 2 * latent_dim), act)
        return FactorEncoder(inner, tells_variance, 0)


def _one_per_cell(key, num_cells, sizes, activation) -> Dense:
    """A network for each cell; leaves lead with the axis of cells."""
    return jax.vmap(lambda k: Dense(k, sizes, activation))(jax.random.split(key, num_cells))


def _each(networks: Dense, y: Float[Array, " P"]) -> Float[Array, "P F"]:
    return jax.vmap(lambda network, cell: network(cell[None]))(networks, y)


def _pooled(parts: Float[Array, "P F"], mask: Float[Array, " P"]) -> Float[Array, " F+1"]:
    """Mean over the observed cells, and their share: a sum would grow with the number of cells."""
    total = jnp.sum(jnp.where(mask[:, None] > 0, parts, 0), axis=0)
    return jnp.concatenate([total / jnp.maximum(jnp.sum(mask), 1), jnp.mean(mask)[None]])


class PointEncoder(AbstractEncoder):
    vectors: Float[Array, "P I"]
    inner: Dense
    outer: Dense
    seed_size: int = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)

    def __call__(self, y, mask, seed):
        parts = jax.vmap(lambda v, cell: self.inner(jnp.concatenate([v, cell[None]])))(self.vectors, y)
        return self.outer(jnp.concatenate([_pooled(self.activation(parts), mask), seed]))


class IndexEncoder(AbstractEncoder):
    inner: Dense
    outer: Dense
    seed_size: int = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)

    def __call__(self, y, mask, seed):
        return self.outer(jnp.concatenate([_pooled(self.activation(_each(self.inner, y)), mask), seed]))


class FactorEncoder(AbstractEncoder):
    """Without an observed cell there is no factor, and the answer is 0 with variance 1."""

    inner: Dense
    tells_variance: bool = eqx.field(static=True)
    seed_size: int = eqx.field(static=True)

    def __call__(self, y, mask, seed):
        mean, log_precision = jnp.split(_each(self.inner, y), 2, axis=1)
        precision = jnp.where(mask[:, None] > 0, jnp.exp(jnp.clip(log_precision, -10, 10)), 0)
        total = jnp.sum(precision, axis=0)
        safe = jnp.where(total > 0, total, jnp.ones_like(total))
        centre = jnp.sum(precision * mean, axis=0) / safe
        return jnp.concatenate([centre, -jnp.log(safe)]) if self.tells_variance else centre
