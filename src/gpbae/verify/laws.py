"""The sampler's laws: stationary variances, kinetic temperatures, and what is left of a chain when it is cold."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

from gpbae import networks
from gpbae.sampling import sghmc
from gpbae.verify.worlds import Numbers, full_batch, small_model, small_table


def gaussian_law(num_chains: int = 4000, num_steps: int = 1200, friction: float = 0.05) -> Numbers:
    """On Gaussians of precision 1 to 1000: variances of position and momentum against those of the discretised chain,
    in Monte-Carlo errors; the largest over coordinates and temperatures 0.5 and 1."""
    k = jnp.asarray(np.geomspace(1.0, 1000.0, 12))
    step_size = float(np.sqrt(0.5 / 1000))
    s = step_size**2 * np.asarray(k)
    worst = {"position": 0.0, "momentum": 0.0}
    for temperature in (0.5, 1.0):
        settings = sghmc.Settings(jnp.asarray(step_size), jnp.asarray(friction), jnp.asarray(temperature))
        state = _simulate(k, settings, num_chains, num_steps)
        position = temperature * np.asarray(sghmc.gaussian_stationary_variance(k, jnp.ones(12), step_size, friction))
        momentum = temperature * step_size**2 * 4 / (2 * (2 - friction) - s)
        for name, draws, variance in (("position", state.position, position), ("momentum", state.momentum, momentum)):
            z = (np.mean(np.asarray(draws) ** 2, axis=0) / variance - 1) / np.sqrt(2 / num_chains)
            worst[name] = max(worst[name], float(np.max(np.abs(z))))
    return worst


def _simulate(k, settings, num_chains, num_steps):
    """Independent chains from the origin, at rest."""
    precision = jnp.broadcast_to(k, (num_chains, len(k)))

    @jax.jit
    def chain(state):
        def body(state, index):
            key = jax.random.fold_in(jax.random.key(0), index)
            return sghmc.step(key, state, precision * state.position, settings)[0], None

        return jax.lax.scan(body, state, jnp.arange(num_steps))[0]

    return chain(sghmc.init(jnp.zeros((num_chains, len(k)))))


def kinetic_temperatures() -> Numbers:
    """Kinetic temperature of every block after a small fit."""
    model = small_model(num_warmup=200, num_samples=100, thinning=20).fit(*small_table())
    return {name: float(np.ravel(t)[0]) for name, t in model.kinetic_temperatures_().items()}


def cold_is_map(temperature: float = 1e-3) -> Numbers:
    """A cold run with a linear decoder: mean energy above the minimum, in units of d T/2, what a harmonic well has."""
    linear = networks.Linear().decoder(jax.random.key(3), 1, (3,))
    model = small_model(linear, temperature=temperature, num_warmup=300, num_samples=100, thinning=20)
    model.fit(*small_table())
    settled = jax.tree.map(lambda a: jnp.asarray(a[:, 50:]), model.draws_)
    _, unravel = ravel_pytree(jax.tree.map(lambda a: a[0, -1], settled))
    energy = lambda q: model.model_.energy(unravel(q), full_batch(model.table_))[0]  # noqa: E731
    flat = jax.vmap(jax.vmap(lambda d: ravel_pytree(d)[0]))(settled)
    excess = np.asarray(jax.jit(jax.vmap(jax.vmap(energy)))(flat)) - minimum(energy, flat[0, -1])
    return {"ratio": float(np.mean(excess)) / (0.5 * temperature * flat.shape[-1]), "excess": float(np.mean(excess))}


def minimum(energy: Callable, begin: Any) -> float:
    """The energy at the bottom of the well a point lies in, by BFGS."""
    compiled = jax.jit(jax.value_and_grad(energy))
    both = lambda q: tuple(np.asarray(a) for a in compiled(jnp.asarray(q)))  # noqa: E731
    options = {"gtol": 1e-5, "maxiter": 5000}
    return float(scipy.optimize.minimize(both, np.asarray(begin), jac=True, method="BFGS", options=options).fun)
