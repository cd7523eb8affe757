"""Blocks of sweeps over rows from outside that keep their latents: at every step other rows come, as they were left.

A row that was never seen is born near its law given all else.  Whoever comes is first moved by a Metropolis–Hastings
step that leaves p(z | y, all else) as it is and, where that is normal, forgets where z stood; then it takes part in
the sampler's steps, with a momentum drawn from its stationary law, so that none has to be kept.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from gpbae.autoencoder import Autoencoder
from gpbae.processes import distributed
from gpbae.sampling import inference, redraw, sghmc
from gpbae.sampling.batches import Selection, Table
from gpbae.sampling.inference import Chain, Plan, Report
from gpbae.sampling.streamed import given_rows
from gpbae.tabular.ondisk import Rows

NEWBORN_AT_A_TIME = 32
Latents = Float[Array, "B C"]


def run_block(
    model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, settings: sghmc.Settings,
    temperatures: Float[Array, " sweeps"], adapting: Array, rows: Rows, slots: Int[Array, "chains sweeps visits B"],
    latents: Float[Array, "chains rows C"],
) -> tuple[Chain, Report, Float[Array, "chains rows C"]]:  # fmt: skip
    """As `streamed.run_block`, rows with one more axis, (chain, sweep, visit, row): a row is a slot of the latents that
    a block carries through, so that those who come again find what they were left with."""
    plan = dataclasses.replace(plan, batching=dataclasses.replace(plan.batching, is_given=True))
    return _run(model, plan, table.group_rows[:, :1], static, chains, settings, temperatures, adapting,
                given_rows(rows, table), slots, latents)  # fmt: skip


@distributed.together
@eqx.filter_jit
def _run(model, plan, group_rows, static, chains, settings, temperatures, adapting, given, slots, latents):
    def one_chain(chain, step_size, noise, own_rows, own_slots, latents):
        def body(carry, item):
            temperature, *visits = item
            own = settings._replace(step_size=step_size, temperature=temperature, noise=noise)
            return _sweep(model, plan, group_rows, static, own, adapting, carry, visits)

        (chain, latents), reports = jax.lax.scan(body, (chain, latents), (temperatures, own_rows, own_slots))
        return chain, jax.tree.map(lambda a: jnp.mean(a, axis=0), reports), latents

    return inference.over_chains(one_chain)(chains, settings.step_size, settings.noise, given, slots, latents)


def _sweep(model, plan: Plan, group_rows, static, settings, adapting, carry, visits):
    """K steps, the rows of each visit staying for some of them; then J encoder steps with those that came last."""
    chain, latents = carry
    key_visits, key_encoder = jax.random.split(jax.random.fold_in(chain.key, chain.sweep))
    encoder = eqx.combine(chain.encoder, static)
    selection = plan.batching.select(key_encoder, Table(*(rows[0] for rows in visits[0]), group_rows))

    def visit(carry, item):
        state, latents = carry
        number, own_rows, slots = item
        here = Table(*own_rows, group_rows)
        key_arrival, key_steps = jax.random.split(jax.random.fold_in(key_visits, number))
        state, moved = _arrived(model, plan, here, encoder, state, settings, latents[slots], selection, key_arrival)
        (state, _), told = jax.lax.scan(
            lambda c, i: inference.sampler_step(
                model, plan, here, settings, adapting, None, c, jax.random.fold_in(key_steps, i)
            ),
            (state, selection),
            jnp.arange(plan.stay),
        )
        return (state, latents.at[slots].set(state.position.local.astype(latents.dtype))), (*told, moved)

    (state, latents), (terms, info, moved) = jax.lax.scan(
        visit, (chain.sampler, latents), (jnp.arange(plan.visits), *visits)
    )
    told = jax.tree.map(lambda a: jnp.mean(a, axis=(0, 1)), (terms, *info))
    chain = chain._replace(sampler=state, sweep=chain.sweep + 1)
    last = Table(*(rows[-1] for rows in visits[0]), group_rows)
    chain, loss = inference.train_encoder(model, plan, last, static, chain, selection, key_encoder)
    return (chain, latents), Report(*told, jnp.asarray(jnp.nan), loss, jnp.mean(moved))


def _arrived(model, plan: Plan, table: Table, encoder, state: sghmc.State, settings, kept, selection, key):
    """Rows of a batch at a draw of their law given all else, with fresh momentum, and the share of them that moved."""
    key_birth, key_move, key_momentum = jax.random.split(key, 3)
    position, z = state.position, kept.astype(jnp.float64)
    z = _born(model, plan, table, encoder, position, settings.temperature, z, jnp.all(kept == 0, axis=1), key_birth)
    batch = plan.batching.batch(table, selection)
    law = model.prior.law(position.shared["prior"], batch)
    given = inference.given_all_else(model, law, position, batch, settings.temperature)
    z, slope, accepted = redraw.move(key_move, z, given)
    fresh = _momentum(key_momentum, state, settings, -settings.temperature * slope)
    state = state._replace(position=position._replace(local=z), momentum=state.momentum._replace(local=fresh))
    return state, jnp.mean(accepted)


def _momentum(key: Key[Array, ""], state: sghmc.State, settings, gradient: Latents) -> Latents:
    """A draw of the stationary law of the momentum where the gradient is this one.  The chain moves z by the momentum
    that the gradient has just changed, so that the two are correlated, by half a kick: drawn without, one step from a
    draw of z's law would leave a spread that is too small by the share η² V^{-1/2} k."""
    fresh = sghmc.refresh_momentum(key, gradient, state.preconditioner.local, settings)
    kick = settings.step_size**2 * state.scale.local * gradient / jnp.sqrt(state.preconditioner.local)
    return fresh + 0.5 * kick


def _born(
    model, plan: Plan, table: Table, encoder, position, temperature, z: Latents, is_new: Bool[Array, " B"],
    key: Key[Array, ""],
) -> Latents:  # fmt: skip
    """Latents for the rows that have none, some rows at a time: in a table that has been seen they are few, and a birth
    takes ten times as long as a move."""
    size = NEWBORN_AT_A_TIME if z.shape[0] % NEWBORN_AT_A_TIME == 0 else z.shape[0]
    batching = dataclasses.replace(plan.batching, size=size)
    first = jnp.argsort(~is_new, stable=True)
    groups = jnp.arange(table.group_rows.shape[0])

    def some(number, z):
        rows = jax.lax.dynamic_slice_in_dim(first, number * size, size)
        batch = batching.batch(table, Selection(rows, groups))
        k = jax.random.fold_in(key, number)
        born = inference.newborn(model, plan, encoder, position, batch, temperature, k)
        return z.at[rows].set(jnp.where(is_new[rows][:, None], born, z[rows]))

    return jax.lax.fori_loop(0, (jnp.sum(is_new) + size - 1) // size, some, z)
