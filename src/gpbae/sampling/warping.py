"""Where a deep prior begins: a warp of the inputs under which the last layer explains the starting latents."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from gpbae.priors import Batch, DeepPrior
from gpbae.sampling import refreshing
from gpbae.sampling.inference import update
from gpbae.tabular import tables

LARGEST_SUBSAMPLE = 800
NUM_STEPS = 400
FIRST_RATE = 0.05
LATENT_NOISE = 0.3
"""Of starting latents, before it is learned with the rest: a table's principal components are noisy."""


def started(
    prior: DeepPrior, x: Float[np.ndarray, "N D"], latents: Float[np.ndarray, "N C"], codes: np.ndarray,
    rng: np.random.Generator,
) -> DeepPrior:  # fmt: skip
    """The prior with layers that start where Adam ends on what the latents say of them, with values integrated out, one
    random component for each row, hidden kernels held and a latent noise of its own.

    From layers without a warp a chain finds one slowly if at all: everything above must move along.
    """
    if not prior.hidden:
        return prior
    rows = _rows(codes, rng)
    batch = _batch(x[rows], codes[rows])
    component = rng.integers(0, len(prior.seeds), len(rows))
    seeds = jnp.swapaxes(prior.seeds[jnp.asarray(component)], 0, 1)
    found, gained = _climb(_climbed(prior), batch, seeds, jnp.asarray(latents[rows]))
    start_at, _ = prior.init(jax.random.key(0), 1)
    if not gained > 0:
        return prior
    kept = {name: value if name == "log_latent_noise" else found[name] for name, value in start_at.items()}
    for layer, begun in zip(kept["hidden"], start_at["hidden"], strict=True):
        layer["hyper"] |= {k: v for k, v in begun["hyper"].items() if k in ("kernel", "log_latent_noise")}
    return dataclasses.replace(prior, hyper_start=kept)


def _rows(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whole groups as long as there is room; of a group that is longer, rows from all of it."""
    rows: list[np.intp] = []
    for g in rng.permutation(int(codes.max()) + 1):
        members = np.flatnonzero(codes == g)
        if len(rows) + len(members) > LARGEST_SUBSAMPLE and rows:
            break
        rows.extend(members[np.unique(np.linspace(0, len(members) - 1, LARGEST_SUBSAMPLE).astype(int))])
    return np.asarray(rows)


def _batch(x: np.ndarray, codes: np.ndarray) -> Batch:
    """Rows without cells: of these nothing is asked."""
    labels, slot = np.unique(codes, return_inverse=True)
    blocks = jnp.asarray(tables.arrange(slot, len(labels)), jnp.int32)
    nothing = jnp.zeros((len(x), 0))
    return Batch(jnp.asarray(x), nothing, nothing > 0, jnp.ones(len(x), bool), jnp.asarray(slot, jnp.int32), blocks,
                 jnp.ones(()))  # fmt: skip


def _climbed(prior: DeepPrior) -> DeepPrior:
    """With a latent noise to be learned, and hidden kernels that stay: a warp that may be rough folds up in gaps."""
    noisy = dataclasses.replace(prior.last.hyper_reference, noise=jnp.asarray(LATENT_NOISE), sample_noise=True)
    held = [dataclasses.replace(layer.hyper_reference, sample_kernel=False) for layer in prior.hidden]
    hidden = tuple(dataclasses.replace(a, hyper_reference=h) for a, h in zip(prior.hidden, held, strict=True))
    return dataclasses.replace(prior, hidden=hidden, last=dataclasses.replace(prior.last, hyper_reference=noisy))


@eqx.filter_jit
def _climb(prior: DeepPrior, batch: Batch, seeds, latents):
    """Adam with a rate that falls to zero; where it ends, and by how much that is better than where it began."""
    schedule = optax.cosine_decay_schedule(FIRST_RATE, NUM_STEPS)
    transform, one = optax.adam(schedule), jnp.ones(())
    given = prior.given(seeds)

    def energy(hyper):
        return -given.law(hyper, batch).log_collapsed(latents, one) - refreshing.log_prior(given, hyper)

    def step(carry, _):
        hyper, state = carry
        updates, state = update(transform, jax.grad(energy)(hyper), state)
        return (eqx.apply_updates(hyper, updates), state), None

    begin, _ = prior.init(jax.random.key(0), 1)
    (end, _), _ = jax.lax.scan(step, (begin, transform.init(begin)), length=NUM_STEPS)
    return end, energy(begin) - energy(end)
