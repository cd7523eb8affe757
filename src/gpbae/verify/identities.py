"""Identities between densities: special cases of one model are another."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae.autoencoder import Autoencoder, Position
from gpbae.estimators import DSGPBAE, SGPBAE
from gpbae.kernels import RBF
from gpbae.priors import Batch, FullPrior, Hyper, NormalPrior
from gpbae.sampling.batches import RowBatch, Selection
from gpbae.verify.worlds import Numbers, full_batch, prepared


def sparse_is_exact(every: int = 1) -> Numbers:
    """log p(Z) of the exact GP against that of the sparse one with S = X and its values integrated out.

    With `every` = 2, S is every second row and the two differ: neighbours are correlated, so that there is something
    to get wrong.
    """
    rough = SGPBAE(latent_dim=2, num_inducing=12, sample_inducing=False, decoder="linear", latent_noise=1.0,
                   kernel=RBF(lengthscale=0.05))  # fmt: skip
    model, table, position = prepared(rough)
    sparse = eqx.tree_at(lambda p: p.inducing_start, model.prior, table.x[::every])
    exact, batch = FullPrior(sparse.hyper_reference, 2, False), full_batch(table)

    @jax.jit
    def both(hyper, z):
        return sparse.law(hyper, batch).log_collapsed(z, jnp.ones(())), exact.law(hyper, batch).log_latents(None, z)

    return _relative(*both(position.shared["prior"], position.local))


def one_layer_is_sparse() -> Numbers:
    """The energy of DSGPBAE(num_layers=1) against SGPBAE's at the same position."""
    arguments: dict[str, Any] = {"latent_dim": 2, "num_inducing": 5, "decoder": "linear"}
    sparse, table, position = prepared(SGPBAE(**arguments))
    deep, _, _ = prepared(DSGPBAE(num_layers=1, **arguments))
    hyper = {**position.shared["prior"], "hidden": ()}
    deep_position = position._replace(shared={**position.shared, "prior": hyper})
    return _relative(_energy(deep, deep_position, full_batch(table)), _energy(sparse, position, full_batch(table)))


def white_kernel_is_independent() -> Numbers:
    """log p(Z) of an exact GP whose inputs do not see each other against independent standard normals."""
    _, table, position = prepared(SGPBAE(latent_dim=2, num_inducing=5, decoder="linear"))
    hyper = Hyper((RBF(lengthscale=1e-6),), jnp.zeros(()), jnp.ones(()), False, False)
    exact, batch = FullPrior(hyper, 2, False), full_batch(table)
    independent = NormalPrior(2).law({}, batch).log_latents(None, position.local)
    return _relative(exact.law(hyper.init(), batch).log_latents(None, position.local), independent)


def minibatches_average() -> Numbers:
    """The mean energy over batches that visit every row once against the energy of all rows."""
    model, table, position = prepared(SGPBAE(latent_dim=2, num_inducing=5, decoder="linear"))
    batching, parts = RowBatch(3), []
    for rows in jnp.split(jnp.asarray(np.random.default_rng(0).permutation(12)), 4):
        selection = Selection(rows, jnp.arange(1))
        parts.append(_energy(model, position._replace(local=position.local[rows]), batching.batch(table, selection)))
    return _relative(jnp.mean(jnp.stack(parts)), _energy(model, position, full_batch(table)))


@eqx.filter_jit
def _energy(model: Autoencoder, position: Position, batch: Batch):
    return model.energy(position, batch)[0]


def _relative(a: Any, b: Any) -> Numbers:
    return {"difference": float(jnp.abs(a - b) / jnp.maximum(jnp.abs(b), 1e-300))}
