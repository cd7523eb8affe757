"""Blocks of sweeps whose rows come from outside: the sweep of `inference`, with a small table of its own each time."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gpbae.autoencoder import Autoencoder
from gpbae.processes import distributed
from gpbae.sampling import inference, sghmc
from gpbae.sampling.batches import Table
from gpbae.sampling.inference import Chain, Plan, Report
from gpbae.tabular.ondisk import Rows


def run_block(
    model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, settings: sghmc.Settings,
    temperatures: Float[Array, " sweeps"], adapting: Array, rows: Rows,
) -> tuple[Chain, Report]:  # fmt: skip
    """As `inference.run_block`; every sweep sees its own rows, in the types of the table at hand."""
    given = given_rows(rows, table)
    plan = dataclasses.replace(plan, batching=dataclasses.replace(plan.batching, is_given=True))
    return _run(model, plan, table.group_rows[:, :1], static, chains, settings, temperatures, adapting, given)


def given_rows(rows: Rows, table: Table) -> tuple[Array, ...]:
    """In the types of the table at hand."""
    return (jnp.asarray(rows.x), jnp.asarray(rows.y, table.y.dtype), jnp.asarray(rows.mask),
            jnp.asarray(rows.group, jnp.int32))  # fmt: skip


@distributed.together
@eqx.filter_jit
def _run(model, plan, group_rows, static, chains, settings, temperatures, adapting, given):
    def one_chain(chain, step_size, noise, own_rows):
        def body(c, item):
            temperature, sweep_rows = item
            own = settings._replace(step_size=step_size, temperature=temperature, noise=noise)
            return inference._sweep(model, plan, Table(*sweep_rows, group_rows), static, own, adapting, c)

        chain, reports = jax.lax.scan(body, chain, (temperatures, own_rows))
        return chain, jax.tree.map(lambda a: jnp.mean(a, axis=0), reports)

    return inference.over_chains(one_chain)(chains, settings.step_size, settings.noise, given)
