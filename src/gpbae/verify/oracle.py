"""Another sampler as oracle: a long NUTS run of the same log joint, compared in function space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpbae.autoencoder import Autoencoder, Position
from gpbae.sampling.batches import Table
from gpbae.verify.worlds import Numbers, full_batch, small_model, small_table


def against_nuts(num_samples: int = 1000, nuts_samples: int = 3000, num_rows: int = 30, **arguments: Any) -> Numbers:
    """A tiny SGP-BAE sampled by this package and by NUTS."""
    settings = {"num_warmup": 300, "num_samples": num_samples, "thinning": 20}
    model = small_model(**(settings | arguments)).fit(*small_table(num_rows))
    starts = jax.tree.map(lambda a: jnp.asarray(a[:, 0]), model.draws_)
    reference = nuts(model.model_, model.table_, starts, 1, max(300, nuts_samples // 3), nuts_samples)
    return agreement(*(functionals(model.model_, model.table_, d) for d in (model.draws_, reference)))


def nuts(model: Autoencoder, table: Table, starts: Position, seed: int, num_warmup: int, num_samples: int) -> Position:
    """A BlackJAX NUTS run of the same log joint, one chain per start: (chain, draw)."""
    import blackjax

    batch = full_batch(table)

    def log_density(position):
        return -model.energy(position, batch)[0]

    def one_chain(key, position):
        key_warm, key_run = jax.random.split(key)
        warm = blackjax.window_adaptation(blackjax.nuts, log_density, target_acceptance_rate=0.9)
        (state, parameters), _ = warm.run(key_warm, position, num_steps=num_warmup)
        kernel = blackjax.nuts(log_density, **parameters)

        def body(state, k):
            state, _ = kernel.step(k, state)
            return state, state.position

        return jax.lax.scan(body, state, jax.random.split(key_run, num_samples))[1]

    num_chains = jax.tree.leaves(starts)[0].shape[0]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        keys = jax.random.split(jax.random.key(seed), num_chains)
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(one_chain))(keys, starts))


def functionals(model: Autoencoder, table: Table, draws: Position) -> dict[str, np.ndarray]:
    """What symmetries of the network leave alone, each (chain, draw): outputs at every row, lengthscale, noise."""
    batch = full_batch(table)

    def outputs(d):
        return model.decode(d.shared, model.prior.law(d.shared["prior"], batch).latents(d.local))

    eta = np.asarray(jax.jit(jax.vmap(jax.vmap(outputs)))(jax.tree.map(jnp.asarray, draws)))
    named = {f"output[{n},{p}]": eta[:, :, n, p] for n in range(eta.shape[2]) for p in range(eta.shape[3])}
    kernel = draws.shared["prior"]["kernel"][0]
    named["log lengthscale"] = np.asarray(kernel.log_lengthscale)[:, :, 0]
    named["log noise"] = np.asarray(draws.shared["likelihood"].log_noise)
    return named


def agreement(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> Numbers:
    """Largest differences of means and of sds in combined Monte-Carlo errors, range of sd ratios, least ESS."""
    from arviz_stats.base import array_stats

    def ess(a):
        return float(array_stats.ess(a, chain_axis=0, draw_axis=1, method="mean"))

    def error(a, b):
        """|E a − E b| in standard errors, and the effective sizes behind it."""
        sizes = ess(a), ess(b)
        return abs(a.mean() - b.mean()) / np.sqrt(a.var() / sizes[0] + b.var() / sizes[1]), sizes

    means = {name: error(a, theirs[name]) for name, a in ours.items()}
    squares = [error((a - a.mean()) ** 2, (theirs[name] - theirs[name].mean()) ** 2)[0] for name, a in ours.items()]
    ratios = [a.std() / theirs[name].std() for name, a in ours.items()]
    least = np.min([sizes for _, sizes in means.values()], axis=0)
    return {"errors": max(e for e, _ in means.values()), "sd errors": max(squares), "low": min(ratios),
            "high": max(ratios), "ess": float(least[0]), "ess of NUTS": float(least[1])}  # fmt: skip
