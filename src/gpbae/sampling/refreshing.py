"""Moves of hyper-parameters and values between sweeps, given the latents of the whole table.

Metropolis-corrected trajectories have no discretisation bias, and what moves only here is held by the sampler, so that
a sweep factorises nothing twice.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from gpbae.autoencoder import Autoencoder, Position
from gpbae.priors import Batch, Collapsing
from gpbae.sampling import hmc
from gpbae.sampling.batches import FullBatch, Table

LEAPFROG = 4
WARPING_LEAPFROG = 12
WOVEN_LEAPFROG = 4
RATE = 0.1
MOVED = ("kernel", "log_latent_noise", "inducing", "hidden")
WOVEN = ("kernel", "log_latent_noise")
ALWAYS_HELD = ("inducing", "hidden")


class Refresh(NamedTuple):
    """Scales of the hyper-parameters that are refreshed, and the logs of the two moves' steps in their units."""

    scale: dict[str, Any]
    log_step: Array
    log_woven_step: Array


def init(scale: dict[str, Any], step_size: float = 0.1) -> Refresh:
    log_step = jnp.log(jnp.asarray(step_size, jnp.float64))
    return Refresh(refreshed(scale), log_step, log_step)


def refreshed(hyper: dict[str, Any]) -> dict[str, Any]:
    """Of a prior's hyper-parameters, those that are moved here."""
    return {k: v for k, v in hyper.items() if k in MOVED}


def held(hyper: dict[str, Any], woven: bool) -> dict[str, Any]:
    """Of these, those that the sampler leaves alone: all if both kinds of trajectory move them, for one alone is slow
    where data are weak; but next to vectors of labels, and otherwise, inducing inputs and hidden layers only."""
    only = MOVED if woven and not has_vectors(hyper) else ALWAYS_HELD
    return {k: v for k, v in hyper.items() if k in only}


def has_vectors(hyper: dict[str, Any]) -> bool:
    """Vectors of labels are part of a kernel and latents of their own, too many for a few trajectories."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(hyper)]
    return any(getattr(k, "name", "") == "vectors" for path in paths for k in path)


def has_woven(refresh: Refresh) -> bool:
    """Whether there is anything that could move along with the latents."""
    return bool(jax.tree.leaves({k: v for k, v in refresh.scale.items() if k in WOVEN}))


def whole(table: Table) -> Batch:
    batching = FullBatch()
    return batching.batch(table, batching.select(jax.random.key(0), table))


def redraw(prior: Collapsing, table: Table, position: Position, temperature: Array, key: Key[Array, ""]):
    """Values drawn exactly given the latents of the whole table, and the temperature of the draw."""
    law = prior.law(position.shared["prior"], whole(table))
    return law.redraw_values(key, position.values, position.local, temperature)


def conjugate(model: Autoencoder, table: Table, p: Position, temperature: Array, key: Key[Array, ""]) -> Collapsing:
    """The model's prior given fresh auxiliary variables: values can be integrated out for as long as these are kept."""
    return model.prior.conjugate(key, p.shared["prior"], p.values, whole(table), p.local, temperature)


def given_latents(
    prior: Collapsing, table: Table, p: Position, refresh: Refresh, temperature: Array, adapting: Array,
    key: Key[Array, ""],
) -> tuple[Position, Refresh, hmc.Info]:  # fmt: skip
    """A trajectory of kernel, noise, S and hidden layers given the latents, with the values integrated out.

    Where it is used it is the only move of S: where two inducing inputs meet, K_SS is singular and the energy has a
    crack that no step size is small enough for.  Values that are part of the chain must be drawn anew after it.
    """
    hyper, batch, T = p.shared["prior"], whole(table), temperature
    unit = _unit(refresh, MOVED, T)

    def log_density(coordinates):
        theta = _at(hyper, coordinates, unit)
        return (prior.law(theta, batch).log_collapsed(p.local, T) + log_prior(prior, theta) / T)[None]

    num_leapfrog = WARPING_LEAPFROG if "hidden" in unit else LEAPFROG
    coordinates, log_step, info = _moved(key, hyper, unit, refresh.log_step, log_density, num_leapfrog, adapting)
    position = p._replace(shared={**p.shared, "prior": _at(hyper, coordinates, unit)})
    return position, refresh._replace(log_step=log_step), info


def given_seeds(
    model: Autoencoder, prior: Collapsing, table: Table, p: Position, refresh: Refresh, temperature: Array,
    adapting: Array, key: Key[Array, ""],
) -> tuple[Position, Refresh, hmc.Info]:  # fmt: skip
    """A trajectory of kernel and noise that carries the latents along, with their seeds held.

    Given latents, a lengthscale moves as far as they let it, which is little where the data leave them open; given
    their seeds, as far as the data let it.  Interwoven, the two cover both cases (Yu and Meng, 2011).
    """
    hyper, batch, T = p.shared["prior"], whole(table), temperature
    unit = _unit(refresh, WOVEN, T)
    key_values, key_move = jax.random.split(key)
    law = prior.law(hyper, batch)
    values, _ = law.redraw_values(key_values, p.values, p.local, T)
    seeds = law.seeds(values, p.local)

    def log_density(coordinates):
        theta = _at(hyper, coordinates, unit)
        law = prior.law(theta, batch)
        local, log_volume = law.placed(values, seeds)
        likelihood = model.total_log_likelihood(p.shared, law.latents(local), batch)
        return ((likelihood + log_prior(prior, theta)) / T + (1 - 1 / T) * log_volume)[None]

    coordinates, log_step, info = _moved(
        key_move, hyper, unit, refresh.log_woven_step, log_density, WOVEN_LEAPFROG, adapting
    )
    theta = _at(hyper, coordinates, unit)
    local, _ = prior.law(theta, batch).placed(values, seeds)
    position = p._replace(shared={**p.shared, "prior": theta}, local=local)
    return position, refresh._replace(log_woven_step=log_step), info


def _unit(refresh: Refresh, names: tuple[str, ...], temperature: Array) -> dict[str, Any]:
    chosen = {k: v for k, v in refresh.scale.items() if k in names}
    return jax.tree.map(lambda c: c * jnp.sqrt(temperature), chosen)


def _at(hyper: dict[str, Any], coordinates: Any, unit: dict[str, Any]) -> dict[str, Any]:
    return {**hyper, **jax.tree.map(lambda u, c: u[0] * c, coordinates, unit)}


def log_prior(prior: Collapsing, theta: dict[str, Any]) -> Array:
    return sum(prior.log_hyper(theta).values(), jnp.zeros(()))


def _moved(key, hyper, unit, log_step, log_density, num_leapfrog, adapting):
    begin = jax.tree.map(lambda h, c: (h / c)[None], {k: hyper[k] for k in unit}, unit)
    state, info = hmc.step(key, hmc.State(begin, log_step[None]), log_density, num_leapfrog)
    adapted = hmc.adapt(state, info.acceptance, RATE).log_step[0]
    return state.position, jnp.where(adapting, adapted, log_step), info
