"""Hamiltonian Monte Carlo on many independent blocks at once, each with its own step size and acceptance.

Used to refine latents of given rows under a fixed draw of everything else: the density is exact and cheap, so a
Metropolis test is affordable and leaves no discretisation bias.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from gpbae.sghmc import normal_like

TARGET_ACCEPTANCE = 0.8


class State(NamedTuple):
    """Block positions (leading axis: blocks) and the logs of their step sizes."""

    position: PyTree
    log_step: Float[Array, " G"]


def init(position: PyTree, num_blocks: int, step_size: float = 0.1) -> State:
    return State(position, jnp.full((num_blocks,), jnp.log(step_size)))


def step(
    key: Key[Array, ""], state: State, log_density: Callable[[Any], Float[Array, " G"]], num_leapfrog: int = 8
) -> tuple[State, Float[Array, " G"]]:
    """One trajectory per block; returns the acceptance probabilities."""
    key_momentum, key_accept, key_step = jax.random.split(key, 3)
    gradient = jax.grad(lambda p: jnp.sum(log_density(p)))
    momentum = normal_like(key_momentum, state.position)
    step_size = jnp.exp(state.log_step) * jax.random.uniform(key_step, state.log_step.shape, minval=0.7, maxval=1.3)

    def leapfrog(carry, _):
        q, p, g = carry
        p = jax.tree.map(lambda p, g: p + 0.5 * _widen(step_size, g) * g, p, g)
        q = jax.tree.map(lambda q, p: q + _widen(step_size, p) * p, q, p)
        g = gradient(q)
        p = jax.tree.map(lambda p, g: p + 0.5 * _widen(step_size, g) * g, p, g)
        return (q, p, g), None

    start = (state.position, momentum, gradient(state.position))
    (proposal, final, _), _ = jax.lax.scan(leapfrog, start, None, length=num_leapfrog)
    before = log_density(state.position) - _kinetic(momentum)
    after = log_density(proposal) - _kinetic(final)
    acceptance = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(after), after - before, -jnp.inf), 0.0))
    accepted = jax.random.uniform(key_accept, acceptance.shape) < acceptance
    position = jax.tree.map(lambda a, b: jnp.where(_widen(accepted, a), a, b), proposal, state.position)
    return state._replace(position=position), acceptance


def adapt(state: State, acceptance: Float[Array, " G"], rate: Array | float) -> State:
    """Move each block's step size towards the target acceptance."""
    return state._replace(log_step=state.log_step + rate * (acceptance - TARGET_ACCEPTANCE))


def _widen(a, like):
    return a.reshape(a.shape[0], *(1,) * (like.ndim - 1))


def _kinetic(momentum):
    terms = [0.5 * jnp.sum(p**2, axis=tuple(range(1, p.ndim))) for p in jax.tree.leaves(momentum)]
    return sum(terms[1:], terms[0])
