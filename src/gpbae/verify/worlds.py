"""Small models and tables on which theorems are checked."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import networks
from gpbae.autoencoder import Autoencoder, Position
from gpbae.estimators import BAE, SGPBAE
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian
from gpbae.priors import Batch
from gpbae.sampling import sghmc
from gpbae.sampling.batches import FullBatch, Table
from gpbae.sampling.starting import start_chain

Numbers = dict[str, float]


def small_table(num_rows: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three columns that bend around one smooth function of x, with a tenth of the cells missing."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=num_rows))
    f = np.sin(5 * x)[:, None]
    y = np.concatenate([f, np.tanh(2 * f), 0.5 * f**2 + f], axis=1) + 0.4 * rng.standard_normal((num_rows, 3))
    return x[:, None], np.where(rng.random(y.shape) < 0.1, np.nan, y)


def in_double(network: Any) -> Any:
    """A network with float64 weights."""
    return jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, network)


def small_model(decoder: Any = None, kind: type[BAE] = SGPBAE, **arguments: Any) -> Any:
    """One latent, six inducing inputs, a decoder of five hidden units in float64; all that can be is sampled."""
    if decoder is None:
        decoder = networks.MLP(widths=(5,)).decoder(jax.random.key(3), 1, (3,))
    defaults = {"latent_dim": 1, "num_inducing": 6, "kernel": RBF(lengthscale=0.3), "likelihood": Gaussian(noise=0.4),
                "encoder_steps": 1, "progress": False}  # fmt: skip
    known = {field.name for field in dataclasses.fields(kind)}
    taken = {name: value for name, value in (defaults | arguments).items() if kind is SGPBAE or name in known}
    return kind(decoder=in_double(decoder), **taken)


def prepared(estimator, num_rows: int = 12, seed: int = 0) -> tuple[Autoencoder, Table, Position]:
    """A model, its table (with gaps) and a position off the start."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=num_rows))[:, None]
    y = np.sin(5 * x + np.arange(3)) + 0.3 * rng.standard_normal((num_rows, 3))
    y[rng.random(y.shape) < 0.2] = np.nan
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, None)
    key_decoder, key_encoder, key_chain = jax.random.split(jax.random.key(seed), 3)
    latents = jnp.asarray(latents)
    chain = start_chain(model, plan, table, decoder_of(key_decoder), encoder_of(key_encoder), latents, key_chain)
    position = chain.sampler.position._replace(values=chain.values if plan.collapsed else chain.sampler.position.values)
    noise = sghmc.normal_like(jax.random.key(seed + 1), position)
    return model, table, jax.tree.map(lambda a, b: a + jnp.asarray(0.2, a.dtype) * b, position, noise)


def full_batch(table: Table) -> Batch:
    return FullBatch().batch(table, FullBatch().select(jax.random.key(0), table))
