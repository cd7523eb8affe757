"""Hamiltonian Monte Carlo on many independent blocks at once, each with its own step size and acceptance.

Used to refine latents of given rows under a fixed draw of everything else: the density is exact and cheap, so a
Metropolis test is affordable and leaves no discretisation bias.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from gpbae.sampling.sghmc import normal_like

TARGET_ACCEPTANCE = 0.8


class Info(NamedTuple):
    """Acceptance probabilities by block, and the momenta trajectories end with, standard normal if all is well."""

    acceptance: Float[Array, " G"]
    momentum: PyTree


class State(NamedTuple):
    """Block positions (leading axis: blocks) and the logs of their step sizes."""

    position: PyTree
    log_step: Float[Array, " G"]


def init(position: PyTree, num_blocks: int, step_size: float = 0.1) -> State:
    return State(position, jnp.full((num_blocks,), jnp.log(step_size)))


def step(
    key: Key[Array, ""], state: State, log_density: Callable[[Any], Float[Array, " G"]], num_leapfrog: int = 8
) -> tuple[State, Info]:
    """One trajectory per block."""
    key_momentum, key_accept, key_step = jax.random.split(key, 3)
    value_and_gradient = jax.value_and_grad(_summed(log_density), has_aux=True)
    momentum = normal_like(key_momentum, state.position)
    step_size = jnp.exp(state.log_step) * jax.random.uniform(key_step, state.log_step.shape, minval=0.7, maxval=1.3)

    def leapfrog(carry, shares):
        """Drift, look, kick.  The first look has no drift before it and the outer kicks are halves, so that one
        compiled gradient serves the whole trajectory and both ends of the Metropolis test."""
        q, p = carry
        drift, kick = shares
        q = jax.tree.map(lambda q, p: q + drift * _widen(step_size, p) * p, q, p)
        (_, value), g = value_and_gradient(q)
        p = jax.tree.map(lambda p, g: p + kick * _widen(step_size, g) * g, p, g)
        return (q, p), value

    inner = jnp.ones(num_leapfrog + 1)
    shares = (inner.at[0].set(0.0), inner.at[0].set(0.5).at[-1].set(0.5))
    (proposal, final), values = jax.lax.scan(leapfrog, (state.position, momentum), shares)
    change = values[-1] - _kinetic(final) - values[0] + _kinetic(momentum)
    acceptance = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(change), change, -jnp.inf), 0.0))
    accepted = jax.random.uniform(key_accept, acceptance.shape) < acceptance
    choose = lambda new, old: jax.tree.map(lambda a, b: jnp.where(_widen(accepted, a), a, b), new, old)  # noqa: E731
    return state._replace(position=choose(proposal, state.position)), Info(acceptance, choose(final, momentum))


def _summed(log_density):
    def both(position):
        values = log_density(position)
        return jnp.sum(values), values

    return both


def adapt(state: State, acceptance: Float[Array, " G"], rate: Array | float) -> State:
    """Move each block's step size towards the target acceptance."""
    return state._replace(log_step=state.log_step + rate * (acceptance - TARGET_ACCEPTANCE))


def _widen(a, like):
    return a.reshape(a.shape[0], *(1,) * (like.ndim - 1))


def _kinetic(momentum):
    terms = [0.5 * jnp.sum(p**2, axis=tuple(range(1, p.ndim))) for p in jax.tree.leaves(momentum)]
    return sum(terms[1:], terms[0])
