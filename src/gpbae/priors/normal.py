"""BAE: independent standard normal latents; x is not needed."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool

from gpbae.priors.base import AbstractLatentPrior, AbstractLaw, Marginals


class NormalLaw(AbstractLaw):
    """Rows are independent of everything."""

    valid: Bool[Array, " B"]

    def log_latents(self, values, local):
        return jnp.sum(jnp.where(self.valid[:, None], norm.logpdf(local), 0.0))

    def log_rows(self, values, local):
        return jnp.sum(norm.logpdf(local), axis=1)

    def spread(self, values):
        return jnp.zeros(()), jnp.ones(())

    def latents(self, local):
        return local

    def coordinates(self, latents):
        return latents

    def log_collapsed(self, local, temperature):
        return self.log_latents(None, local) / temperature

    def redraw_values(self, key, values, local, temperature):
        return values, temperature

    def seeds(self, values, local):
        return local

    def placed(self, values, seeds):
        return seeds, jnp.zeros(())


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

    def law(self, hyper, batch):
        return NormalLaw(batch.valid)

    @property
    def collapses(self):
        return False

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
