"""How stiff the energy is, and how noisy its gradient: what coordinate scales and step sizes are made of."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from gpbae.autoencoder import Autoencoder, Position
from gpbae.processes import distributed
from gpbae.sampling import inference, redraw, refreshing, sghmc
from gpbae.sampling.batches import Table
from gpbae.sampling.inference import Chain, Plan, take

NUM_NOISE_BATCHES = 32
FINITE_DIFFERENCE = 1e-3
# A few dozen gradients in a whole run, so compiling fast is worth more than running fast.
QUICKLY_COMPILED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Stiffness(NamedTuple):
    """Largest preconditioned curvature, coordinate scales, gradient noise and its ratio to the injected noise."""

    curvature: Array
    scale: Position
    noise: Position | None
    noise_ratio: Array | None


def measured(
    model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, settings: sghmc.Settings,
    starting: Array,
) -> Stiffness:  # fmt: skip
    """How stiff the energy is around each chain, for the step size; `starting` also measures scales.

    Of the settings only friction and temperature matter, for gradient noise in units of injected noise.
    """
    return inference.over_chains(lambda c: _measure_chain(model, plan, table, static, c, settings, starting))(chains)


measure = distributed.together(eqx.filter_jit(measured, compiler_options=QUICKLY_COMPILED))


def _measure_chain(model, plan, table, static, chain, settings, starting):
    key_rows, key_birth, key_probe, key_power, key_noise = jax.random.split(
        jax.random.fold_in(chain.key, chain.sweep + 2**29), 5
    )
    selection = plan.batching.select(key_rows, table)
    batch = plan.batching.batch(table, selection)
    state = chain.sampler
    key_told = jax.random.fold_in(chain.key, chain.sweep + 2**25)
    model = inference.collapsing(model, plan, table, chain, settings.temperature, key_told)
    if plan.amortised:
        encoder = eqx.combine(chain.encoder, static)
        newborn = inference.newborn(model, plan, encoder, state.position, batch, settings.temperature, key_birth)
        state = state._replace(position=state.position._replace(local=newborn))
    part = take(state, selection, plan)

    @jax.jit
    def product(direction):
        return _hessian_product(lambda p: model.gradient(p, batch)[0], part.position, direction)

    def rescaled():
        return sghmc.init(part.position, sghmc.curvature_scale(key_probe, product, part.position, part.scale))

    part = jax.lax.cond(starting, rescaled, lambda: part)
    curvature = sghmc.largest_curvature(key_power, product, hold_refreshed(part, plan))
    if plan.batching.is_exact:
        return Stiffness(curvature, part.scale, None, None)
    noise = _gradient_noise(
        model, plan, table, eqx.combine(chain.encoder, static), state, settings.temperature, key_noise
    )
    moving = hold_refreshed(part, plan).scale.shared
    ratio = sghmc.noise_ratio(noise.shared, moving, part.preconditioner.shared, settings)
    if not plan.batching.values_are_local:
        values = sghmc.noise_ratio(noise.values, part.scale.values, part.preconditioner.values, settings)
        ratio = jnp.maximum(ratio, values)
    return Stiffness(curvature, _spread(part.scale, state.scale, plan), noise, ratio)


def hold_refreshed(state: sghmc.State, plan: Plan) -> sghmc.State:
    """A scale of zero keeps from the sampler what refreshing moves."""
    if not plan.refresh:
        return state
    prior = state.scale.shared["prior"]
    held = jax.tree.map(jnp.zeros_like, refreshing.held(prior, plan.weaves))
    return state._replace(scale=state.scale._replace(shared={**state.scale.shared, "prior": {**prior, **held}}))


def _hessian_product(gradient, position: Position, direction: Position) -> Position:
    """H u by central differences of the gradient, which is what the block compiles anyway; exact products would
    take several times as long to compile and the step size needs two digits."""
    size = jnp.sqrt(jnp.maximum(sum(jnp.mean(u.astype(jnp.float64) ** 2) for u in jax.tree.leaves(direction)), 1e-30))
    h = FINITE_DIFFERENCE / size

    both = jax.lax.map(
        lambda e: gradient(jax.tree.map(lambda p, u: p + e.astype(p.dtype) * u, position, direction)),
        jnp.stack([h, -h]),
    )
    return jax.tree.map(lambda g: (g[0] - g[1]) / (2 * h).astype(g.dtype), both)


def _spread(part: Position, whole: Position, plan: Plan) -> Position:
    """Scales measured on a batch, for all rows: each channel gets the batch's mean."""
    widen = lambda a, b: jnp.broadcast_to(jnp.mean(a, axis=0, keepdims=True), b.shape)  # noqa: E731
    values = jax.tree.map(widen, part.values, whole.values) if plan.batching.values_are_local else part.values
    return Position(part.shared, values, jax.tree.map(widen, part.local, whole.local))


def _gradient_noise(model, plan, table, encoder, state, temperature, key):
    """Variance of the gradient of global variables around its mean, at a fixed position, over fresh batches.

    Which rows are drawn adds `unseen` of what it would if they were independent; what latents add is new at every
    visit, and counts whole.  That part is 2 E δ² where a visit's move of the latents changes a batch's gradient by 2 δ.

    An amortised batch stays for some steps, K unless rows keep their latents, so the noise repeats: over longer times
    it acts like independent noise of so many times the variance.
    """
    pick = lambda p: (p.shared, () if plan.batching.values_are_local else p.values)  # noqa: E731

    def one(k):
        """Middle of a batch's gradients before and after such a move, and δ, zero where latents are not visited."""
        key_rows, key_latents = jax.random.split(k)
        key_birth, key_move = jax.random.split(key_latents)
        selection = plan.batching.select(key_rows, table)
        batch = plan.batching.batch(table, selection)
        part = take(state, selection, plan).position
        if plan.amortised:
            part = part._replace(local=inference.newborn(model, plan, encoder, part, batch, temperature, key_birth))
        gradient = lambda z: pick(model.gradient(part._replace(local=z), batch)[0])  # noqa: E731
        if plan.batching.unseen == 1:
            g = gradient(part.local)
            return g, jax.tree.map(jnp.zeros_like, g)
        law = model.prior.law(part.shared["prior"], batch)
        given = inference.given_all_else(model, law, part, batch, temperature)
        moved = redraw.move(key_move, part.local, given)[0]
        both = jax.lax.map(gradient, jnp.stack([part.local, moved]))
        return jax.tree.map(lambda g: (g[0] + g[1]) / 2, both), jax.tree.map(lambda g: (g[0] - g[1]) / 2, both)

    zeros = jax.tree.map(jnp.zeros_like, state.position._replace(local=state.preconditioner.local))
    count = NUM_NOISE_BATCHES

    def add(sums, index):
        middle, change = one(jax.random.fold_in(key, index))
        total, squares, changes = sums
        square = lambda s, a: s + a**2  # noqa: E731
        return (jax.tree.map(jnp.add, total, middle), jax.tree.map(square, squares, middle),
                jax.tree.map(square, changes, change)), None  # fmt: skip

    (total, squares, changes), _ = jax.lax.scan(add, (pick(zeros),) * 3, jnp.arange(count))
    repeats = plan.stay if plan.amortised else 1

    def variance(squares, total, changes):
        around, moved = jnp.maximum(squares - total**2 / count, 0) / (count - 1), changes / count
        return repeats * (plan.batching.unseen * jnp.maximum(around - moved, 0) + 2 * moved)

    shared, values = jax.tree.map(variance, squares, total, changes)
    return Position(shared, zeros.values if plan.batching.values_are_local else values, zeros.local)
