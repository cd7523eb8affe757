"""Variational autoencoders: the evidence lower bound in its two terms, and a training loop in compiled chunks."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key, PyTree, Shaped

from gpbae import autoencoder, gp
from gpbae.baselines.latents import AbstractLaw, Evidence
from gpbae.likelihoods import AbstractLikelihood
from gpbae.networks import image_shape, is_image, network_dtype, over_rows, sum_over_rows
from gpbae.priors import Batch
from gpbae.sampling.batches import Batching, Table
from gpbae.sampling.inference import update

NUM_CHUNKS = 20
STARTING_SPREAD = 0.1


class Bound(NamedTuple):
    """E_q log p(y | z) and KL(q ‖ p), on the full-data scale; the bound is their difference."""

    likelihood: Array
    divergence: Array


class Condition(eqx.Module):
    """How networks are told x: in units, and for the encoder as more cells of a row, in images as more channels."""

    unit: Float[Array, " D"]
    event_shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def joined_shape(self) -> tuple[int, ...]:
        """The shape of a row with x beside its cells."""
        if is_image(self.event_shape):
            height, width, depth = image_shape(self.event_shape)
            return height, width, depth + len(self.unit)
        return (math.prod(self.event_shape) + len(self.unit),)

    def in_units(self, x: Float[Array, "B D"]) -> Float[Array, "B D"]:
        return x / self.unit[None]

    def beside_cells(self, x: Float[Array, "B D"], y: Float[Array, "B P"], mask: Bool[Array, "B P"]
                     ) -> tuple[Float[Array, "B _"], Bool[Array, "B _"]]:  # fmt: skip
        """Rows and masks as the encoder sees them; x is known everywhere."""
        told = self.in_units(x).astype(y.dtype)
        return self._joined(y, told), self._joined(mask, jnp.ones(told.shape, bool))

    def _joined(self, cells: Shaped[Array, "B P"], told: Shaped[Array, "B D"]) -> Shaped[Array, "B _"]:
        *pixels, _ = self.joined_shape
        channels = cells.reshape(len(cells), *pixels, -1)
        points = told.reshape(len(told), *(1 for _ in pixels), -1)
        planes = jnp.broadcast_to(points, (*channels.shape[:-1], points.shape[-1]))
        return jnp.concatenate([channels, planes], axis=-1).reshape(len(cells), -1)


class VariationalAutoencoder(eqx.Module):
    """Encoder (None where q is free), decoder, likelihood and the law of the latents.

    With a `condition` both networks are also told x: the decoder beside the latents, the encoder beside the cells.
    """

    encoder: Any
    decoder: Any
    likelihood: AbstractLikelihood
    latents: AbstractLaw
    condition: "Condition | None" = None

    def outputs(self, batch_x, y, mask) -> Float[Array, "B O"]:
        """What the encoder says of every row."""
        seeds = jnp.zeros((y.shape[0], self.encoder.seed_size), jnp.float32)
        if self.condition is not None:
            y, mask = self.condition.beside_cells(batch_x, y, mask)
        return autoencoder.encode_with(self.encoder, y, mask, seeds)

    def evidence(self, x, y, mask, valid, blocks) -> Evidence:
        """Rows by group with their pseudo-observations."""
        informed = valid & jnp.any(mask, axis=1)
        if self.encoder is None:
            nothing = jnp.zeros((*blocks.shape, 0))
            return Evidence(gp.gather(x, blocks), gp.gather(informed, blocks), nothing, nothing)
        told = gp.gather(informed, blocks)
        mean, variance = self.latents.read(gp.gather(self.outputs(x, y, mask), blocks), told)
        return Evidence(gp.gather(x, blocks), told, mean, jnp.where(told[..., None], variance, 1.0))

    def decode(self, z: Float[Array, "B C"], x: Float[Array, "B D"]) -> Float[Array, "B P"]:
        """η of every row."""
        return over_rows(self.decoder, self._told(z, x).astype(network_dtype(self.decoder)))

    def _told(self, z: Float[Array, "B C"], x: Float[Array, "B D"]) -> Float[Array, "B _"]:
        """What the decoder is told of every row."""
        return z if self.condition is None else jnp.concatenate([z, self.condition.in_units(x)], axis=1)

    def log_likelihood(self, z, batch: Batch) -> Array:
        """Σ log p(yₙ observed | zₙ) over valid rows."""
        learned, fixed = eqx.partition((self.decoder, self.likelihood), eqx.is_inexact_array)

        def total(learned, given, rows):
            decoder, likelihood = eqx.combine(learned, fixed)
            eta = over_rows(decoder, given.astype(network_dtype(decoder)))
            cells = likelihood.log_prob(rows["y"].astype(eta.dtype), rows["mask"], eta)
            return jnp.sum(jnp.where(rows["valid"], jnp.sum(cells, axis=-1).astype(jnp.float64), 0.0))

        rows = {name: getattr(batch, name) for name in ("y", "mask", "valid")}
        return sum_over_rows(self.decoder, total, learned, self._told(z, batch.x), rows)

    def bound(self, batch: Batch, whole_groups: bool, key: Key[Array, ""]) -> Bound:
        """One draw of z for the expectation; `whole_groups` says what a batch is a sample of."""
        evidence = self.evidence(batch.x, batch.y, batch.mask, batch.valid, batch.blocks)
        one = jnp.ones(())
        law = self.latents.at(evidence, evidence, one if whole_groups else batch.scale)
        z = law.mean + jnp.sqrt(law.variance) * jax.random.normal(key, law.mean.shape, law.mean.dtype)
        rows = gp.scatter(z, batch.blocks, batch.x.shape[0])
        groups = batch.scale if whole_groups else one
        return Bound(batch.scale * self.log_likelihood(rows, batch), groups * law.divergence)

    def trained(self) -> "VariationalAutoencoder":
        """True at the leaves that are optimised."""
        marked = jax.tree.map(eqx.is_inexact_array, self)
        if self.condition is not None:
            marked = eqx.tree_at(lambda m: m.condition.unit, marked, False)
        for part in ("likelihood", "latents"):
            given = getattr(self, part)
            if jax.tree.leaves(given):
                learned = self.likelihood.sampled() if part == "likelihood" else self.latents.trained()
                marked = eqx.tree_at(lambda m, part=part: getattr(m, part), marked, learned)
        return marked


Loss = Callable[[VariationalAutoencoder, Table, Batching, Any, Array], tuple[Array, Any]]


def negative_bound(model, table: Table, batching: Batching, memory: Any, key: Key[Array, ""]) -> tuple[Array, Any]:
    """Per row, so that a rate means the same for tables of any length."""
    key_rows, key_latents = jax.random.split(key)
    batch = batching.batch(table, batching.select(key_rows, table))
    whole_groups = batching.values_are_local or batching.is_exact
    found = model.bound(batch, whole_groups, key_latents)
    return (found.divergence - found.likelihood) / table.x.shape[0], memory


def bound_at_start(model, table: Table, batching: Batching, latents: Float[Array, "N C"], key: Key[Array, ""]):
    """As if the prior of every row were N(z⁰, 0.1²): encoder and decoder learn where the starting latents z⁰ are.

    From networks at random the bound may stay far below, with latents that are no affine image of what moves.
    """
    key_rows, key_latents = jax.random.split(key)
    selection = batching.select(key_rows, table)
    batch = batching.batch(table, selection)
    evidence = model.evidence(batch.x, batch.y, batch.mask, batch.valid, batch.blocks)
    mean, variance = (gp.scatter(a, batch.blocks, batch.x.shape[0]) for a in model.latents.alone(evidence))
    aim = latents[jnp.minimum(selection.rows, latents.shape[0] - 1)]
    told = (batch.valid & jnp.any(batch.mask, axis=1))[:, None]
    share = jnp.where(told, variance, STARTING_SPREAD**2) / STARTING_SPREAD**2
    away = jnp.where(told, (mean - aim) / STARTING_SPREAD, 0.0)
    divergence = 0.5 * jnp.sum(away**2 + share - 1 - jnp.log(share))
    z = mean + jnp.sqrt(jnp.where(told, variance, 0.0)) * jax.random.normal(key_latents, mean.shape, mean.dtype)
    loss = batch.scale * (divergence - model.log_likelihood(z, batch)) / table.x.shape[0]
    return loss, latents


class Training(NamedTuple):
    """Trained weights, the optimiser's state, what a loss carries from step to step."""

    weights: PyTree
    optimiser: Any
    memory: Any


@eqx.filter_jit
def _chunk(static, state: Training, table, batching, loss: Loss, rates: Float[Array, " steps"], first, key):
    transform = _transform()

    def step(state: Training, item):
        rate, index = item

        def objective(weights):
            return loss(eqx.combine(weights, static), table, batching, state.memory, jax.random.fold_in(key, index))

        (value, memory), gradient = jax.value_and_grad(objective, has_aux=True)(state.weights)
        updates, optimiser = update(transform, gradient, state.optimiser)
        weights = jax.tree.map(lambda w, u: w - rate.astype(w.dtype) * u, state.weights, updates)
        return Training(weights, optimiser, memory), value

    state, values = jax.lax.scan(step, state, (rates, first + jnp.arange(rates.shape[0])))
    return state, jnp.mean(values)


def _transform() -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(10.0), optax.scale_by_adam())


def train(
    model: VariationalAutoencoder, table: Table, batching: Batching, loss: Loss, num_steps: int, rate: float,
    key: Key[Array, ""], say: Callable[[dict[str, Any]], None], memory: Any = None,
    show: Callable[[VariationalAutoencoder], None] = lambda model: None,
) -> tuple[VariationalAutoencoder, Any]:  # fmt: skip
    """Adam for a fixed number of steps, the rate constant and then, over the last half, down to a tenth.

    After every chunk `say` is told of it, and `show` is shown the model.
    """
    weights, static = eqx.partition(model, model.trained())
    with jax.numpy_dtype_promotion("standard"):
        state = Training(weights, _transform().init(weights), memory)
    size = max(1, -(-num_steps // NUM_CHUNKS))
    progress = jnp.arange(num_steps) / max(num_steps, 1)
    rates = rate * jnp.minimum(1.0, 10.0 ** (1 - 2 * progress))
    for first in range(0, num_steps, size):
        some = rates[first : first + size]
        state, value = _chunk(static, state, table, batching, loss, some, jnp.asarray(first), key)
        say({"phase": "training", "done": first + len(some), "total": num_steps,
             "bound": -float(value) * table.x.shape[0]})  # fmt: skip
        show(eqx.combine(state.weights, static))
    return eqx.combine(state.weights, static), state.memory
