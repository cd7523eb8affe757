"""BAE: independent standard normal latents; x is not needed."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from gpbae.priors.base import AbstractLatentPrior, Marginals


class NormalPrior(AbstractLatentPrior):
    """zₙ ~ N(0, I)."""

    latent_dim: int = eqx.field(static=True)

    @property
    def couples_rows(self):
        return False

    def init(self, key, num_groups):
        return {}, None

    def log_hyper(self, hyper):
        return {}

    def log_values(self, values):
        return jnp.zeros(())

    def log_latents(self, hyper, values, local, batch):
        return jnp.sum(jnp.where(batch.valid[:, None], norm.logpdf(local), 0.0))

    def latents(self, hyper, local, batch):
        return local

    def coordinates(self, hyper, latents, batch):
        return latents

    @property
    def collapses(self):
        return False

    def log_collapsed(self, hyper, local, batch, temperature):
        return self.log_latents(hyper, None, local, batch) / temperature

    def redraw_values(self, key, hyper, values, local, batch, temperature):
        return values, temperature

    def marginals(self, hyper, values, memory, query):
        shape = (1, *query.valid.shape, self.latent_dim)
        return Marginals(jnp.zeros(shape), jnp.ones(shape))

    def path(self, key, hyper, values, memory, query):
        return jax.random.normal(key, (*query.valid.shape, self.latent_dim), jnp.float64)

    def whitened(self, hyper, values, memory, query, seed):
        return seed, jnp.sum(norm.logpdf(seed), axis=(1, 2))

    def standardised(self, hyper, memory, query, z):
        return None, z

    def covariances(self, hyper, batch):
        return ()

    def describe(self, hyper):
        return {}
