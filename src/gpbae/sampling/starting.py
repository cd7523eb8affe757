"""Where chains begin: given latents, decoder and encoder; the encoder taught, then MAP with hyper-parameters held."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from gpbae import autoencoder
from gpbae.autoencoder import Autoencoder, Position
from gpbae.processes import distributed
from gpbae.sampling import inference, refreshing, sghmc
from gpbae.sampling.batches import Table
from gpbae.sampling.inference import Chain, Plan, put_position, take_position, update
from gpbae.sampling.stiffness import hold_refreshed

NUM_RELEASED = 60
HELD_IN_MAP = ("kernel", "log_latent_noise", "likelihood", "inducing")


@eqx.filter_jit
def start_chain(
    model: Autoencoder, plan: Plan, table: Table, decoder: PyTree, encoder: PyTree, latents: Float[Array, "N C"],
    key: Key[Array, ""],
) -> Chain:  # fmt: skip
    """A chain at given latents, decoder and encoder."""
    key_init, key_chain = jax.random.split(key)
    shared, values = model.init(key_init, decoder, table.group_rows.shape[0])
    full = refreshing.whole(table)
    if plan.amortised:
        selection = plan.batching.select(key_init, table)
        local = jnp.zeros((selection.rows.shape[0], latents.shape[1]))
    else:
        local = model.prior.law(shared["prior"], full).coordinates(latents)
    weights = eqx.filter(encoder, eqx.is_inexact_array)
    position = Position(shared, None if plan.collapsed else values, local)
    drawn = values if plan.collapsed else None
    sampler = sghmc.init(position, unit_scale(position, plan))
    optimiser = inference.optimiser(plan).init(weights)
    refresh = refreshing.init(sampler.scale.shared["prior"] if plan.refresh else {})
    return Chain(sampler, weights, optimiser, refresh, drawn, key_chain, jnp.zeros((), jnp.int64))


@eqx.filter_jit
def side_by_side(chains: list[Chain]) -> Chain:
    """All chains as one, with an axis of chains in front."""
    return jax.tree.map(lambda *a: jnp.stack(a), *chains)


def unit_scale(position: Position, plan: Plan) -> Position:
    """Ones, one per coordinate but where coordinates trade places: amortised latents keep no row, and an inducing input
    may wander from where the energy is flat to where it is steep, so all of them take the pace of the steepest."""

    def ones(path, a):
        names = {str(getattr(k, "key", getattr(k, "name", ""))) for k in path}
        shared = "inducing" in names or ("local" in names and plan.amortised)
        return jnp.ones_like(a[:1] if shared else a)

    return jax.tree_util.tree_map_with_path(ones, position)


@eqx.filter_jit
def plain(position: Position, plan: Plan) -> sghmc.State:
    """Chains at rest in the coordinates they are given in."""
    return jax.vmap(lambda p: sghmc.init(p, unit_scale(p, plan)))(position)


@eqx.filter_jit
def with_scale(chains: Chain, scale: Position, plan: Plan) -> Chain:
    """Chains at rest in new coordinates."""
    refresh = chains.refresh
    if plan.refresh:
        refresh = refresh._replace(scale=refreshing.refreshed(scale.shared["prior"]))
    sampler = jax.vmap(lambda p, c: hold_refreshed(sghmc.init(p, c), plan))(chains.sampler.position, scale)
    return chains._replace(sampler=sampler, refresh=refresh)


@distributed.together
@eqx.filter_jit
def pretrain(plan: Plan, table: Table, static: PyTree, chains: Chain, latents: Float[Array, "N C"], num_steps: int):
    """Teach the encoder the starting latents: amortised latents are born from it from the first sweep on."""
    full = refreshing.whole(table)

    def one_chain(chain):
        def step(carry, index):
            weights, opt_state = carry
            key_rows, key_seed = jax.random.split(jax.random.fold_in(key, index))
            rows = jax.random.randint(key_rows, (min(128, latents.shape[0]),), 0, latents.shape[0])
            small = full._replace(y=full.y[rows], mask=full.mask[rows], valid=full.valid[rows])
            seeds = jax.random.normal(key_seed, (len(rows), eqx.combine(weights, static).seed_size), jnp.float32)
            g = jax.grad(lambda w: autoencoder.amortisation_loss(eqx.combine(w, static), small, latents[rows], seeds))(
                weights
            )
            updates, opt_state = update(inference.optimiser(plan), g, opt_state)
            return (eqx.apply_updates(weights, updates), opt_state), None

        key = jax.random.fold_in(chain.key, 2**28)
        (weights, opt_state), _ = jax.lax.scan(step, (chain.encoder, chain.optimiser), jnp.arange(num_steps))
        return chain._replace(encoder=weights, optimiser=opt_state)

    return inference.over_chains(one_chain)(chains)


@distributed.together
@eqx.filter_jit
def climb(model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, rates: Float[Array, " steps"]):
    """MAP by Adam with the hyper-parameters and the noise held: a start that is not "everything is noise".

    Latents stay where they start until its last steps: moved by a decoder that knows nothing yet, they would lose the
    structure they were given.
    """
    num_steps = rates.shape[0]
    released = jnp.arange(num_steps) >= num_steps - min(NUM_RELEASED, num_steps // 10)
    transform = optax.scale_by_adam()

    def one_chain(chain):
        encoder = eqx.combine(chain.encoder, static)
        told = inference.collapsing(model, plan, table, chain, jnp.ones(()), jax.random.fold_in(chain.key, 2**24))

        def step(carry, rate_and_index):
            position, opt_state = carry
            rate, index, free = rate_and_index
            key_rows, key_seed = jax.random.split(jax.random.fold_in(chain.key, index))
            gradient, terms = _map_gradient(told, plan, table, encoder, position, law, key_rows, key_seed)
            updates, opt_state = update(transform, gradient, opt_state)
            moved = jax.tree.map(lambda p, u: p - rate.astype(p.dtype) * u, position, updates)
            local = jax.tree.map(lambda a, b: jnp.where(free, a, b), moved.local, position.local)
            return (moved._replace(local=local), opt_state), terms

        position = chain.sampler.position
        law = inference.held_law(told, plan, table, position.shared)
        start = (position, transform.init(position))
        (position, _), terms = jax.lax.scan(step, start, (rates, jnp.arange(rates.shape[0]) + 2**30, released))
        last = jax.tree.map(lambda t: t[-1], terms)
        return chain._replace(sampler=sghmc.init(position)), last

    return inference.over_chains(one_chain)(chains)


def _map_gradient(model, plan, table, encoder, position, law, key_rows, key_seed):
    selection = plan.batching.select(key_rows, table)
    batch = plan.batching.batch(table, selection)
    if plan.amortised:
        one = jnp.ones(())
        position = position._replace(local=inference.newborn(model, plan, encoder, position, batch, one, key_seed))
    part = position if plan.batching.is_exact else take_position(position, selection, plan)
    gradient, terms = model.gradient(part, batch, law=law)
    gradient = gradient._replace(shared=_hold(gradient.shared))
    if plan.amortised:
        gradient = gradient._replace(local=jax.tree.map(jnp.zeros_like, gradient.local))
    if plan.batching.is_exact:
        return gradient, terms
    zeros = jax.tree.map(jnp.zeros_like, position)
    return put_position(zeros, gradient, selection, plan), terms


def _hold(shared):
    """Zero gradient for hyper-parameters and noise, wherever they stand; vectors of labels are latents of their own."""

    def zero(path, g):
        names = {str(getattr(k, "key", getattr(k, "name", ""))) for k in path}
        return jnp.zeros_like(g) if names & set(HELD_IN_MAP) and "vectors" not in names else g

    return jax.tree_util.tree_map_with_path(zero, shared)
