"""Intervals of hidden cells on tables drawn from the model itself hold the truth as often as they say."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpbae import run
from gpbae.verify.calibration import Simulated, simulate
from gpbae.verify.worlds import Numbers

LEVELS = (0.5, 0.8, 0.9, 0.95)
HIDDEN_SHARE = 0.2
MANY_DRAWS = run.Budget(160, 31, 32, 300, 0.05, 1.0, "auto")


def interval_coverage(num_tables: int = 100, seed: int = 0, budget: run.Budget = MANY_DRAWS) -> Numbers:
    """Coverage of each level over all hidden cells, and how many standard errors it is off ("errors", the largest).

    Cells of one table share its chain and its hyper-parameters, so the error is that of the mean over tables, and at
    least the binomial one.
    """
    observed = np.random.default_rng(seed).random((20, 3)) >= HIDDEN_SHARE
    pit = hidden_pit(simulate(num_tables, observed, seed, budget))
    found: Numbers = {}
    off = [0.0]
    for level in LEVELS:
        inside = np.abs(pit - 0.5) <= level / 2
        binomial = np.sqrt(level * (1 - level) / inside.size)
        clustered = inside.mean(axis=1).std() / np.sqrt(len(inside))
        found[f"{level:.0%}"] = float(inside.mean())
        off.append(abs(found[f"{level:.0%}"] - level) / max(binomial, clustered))
    return {**found, "errors": float(max(off))}


def hidden_pit(world: Simulated) -> Float[np.ndarray, "tables cells"]:
    """P(y ≤ truth) of every hidden cell under the predictive mixture of the draws."""
    model, table, _, cells, draws = world

    def one(y: Float[Array, "N P"], many) -> Float[Array, "N P"]:
        def cdf(draw):
            return model.observe(draw.shared).cdf(y, model.decode(draw.shared, draw.local))

        return jnp.mean(jax.lax.map(cdf, many), axis=0)

    pit = jax.jit(jax.vmap(one))(cells, jax.tree.map(jnp.asarray, draws))
    return np.asarray(pit)[:, ~np.asarray(table.mask)]
