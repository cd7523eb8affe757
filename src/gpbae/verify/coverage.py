"""Intervals of hidden cells on tables drawn from the model itself hold the truth as often as they say."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gpbae.estimators import BAE, SGPBAE
from gpbae.sampling import run
from gpbae.verify.calibration import Simulated, simulate
from gpbae.verify.worlds import Numbers, full_batch

LEVELS = (0.5, 0.8, 0.9, 0.95)
HIDDEN_SHARE = 0.2
NUM_BINS = 10
MANY_DRAWS = run.Budget(160, 31, 32, 300, 0.05, 1.0, "auto")


def interval_coverage(
    num_tables: int = 100, seed: int = 0, budget: run.Budget = MANY_DRAWS, kind: type[BAE] = SGPBAE
) -> Numbers:
    """Coverage of each level over all hidden cells, and how many standard errors it is off ("errors", the largest);
    also of the tenth of the cells' PIT that is furthest from a tenth of the cells ("PIT").

    Cells of one table share its chain and its hyper-parameters, so the error is that of the mean over tables, and at
    least the binomial one.
    """
    observed = np.random.default_rng(seed).random((20, 3)) >= HIDDEN_SHARE
    pit = hidden_pit(simulate(num_tables, observed, seed, budget, kind))
    found: Numbers = {}
    off = [0.0]
    for level in LEVELS:
        inside = np.abs(pit - 0.5) <= level / 2
        found[f"{level:.0%}"] = float(inside.mean())
        off.append(_errors(inside, level))
    tenths = [_errors(np.floor(NUM_BINS * pit) == i, 1 / NUM_BINS) for i in range(NUM_BINS)]
    return {**found, "errors": float(max(off)), "PIT": float(max(tenths))}


def _errors(hits: Bool[np.ndarray, "tables cells"], share: float) -> float:
    """How many standard errors the share of hits is off."""
    binomial = np.sqrt(share * (1 - share) / hits.size)
    clustered = hits.mean(axis=1).std() / np.sqrt(len(hits))
    return abs(hits.mean() - share) / max(binomial, clustered)


def hidden_pit(world: Simulated) -> Float[np.ndarray, "tables cells"]:
    """P(y ≤ truth) of every hidden cell under the predictive mixture of the draws."""
    model, table, _, cells, draws = world
    batch = full_batch(table)

    def one(y: Float[Array, "N P"], many) -> Float[Array, "N P"]:
        def cdf(draw):
            z = model.prior.law(draw.shared["prior"], batch).latents(draw.local)
            return model.observe(draw.shared).cdf(y, model.decode(draw.shared, z))

        return jnp.mean(jax.lax.map(cdf, many), axis=0)

    pit = jax.jit(jax.vmap(one))(cells, jax.tree.map(jnp.asarray, draws))
    return np.asarray(pit)[:, ~np.asarray(table.mask)]
