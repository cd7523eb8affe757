"""SGP-BAE in other coordinates: the chain moves in seeds ε with z = μ̃ + σ̃ ε, so that the data teach the GP directly."""

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float

from gpbae import gp
from gpbae.priors.base import AbstractLatentPrior, AbstractLaw, Latents
from gpbae.priors.sparse import SparsePrior


class SeededLaw(AbstractLaw):
    """z = mean + sd · ε, and ε ~ N(0, I)."""

    mean: Latents
    sd: Latents
    valid: Bool[Array, " B"]

    def log_latents(self, values, local):
        return jnp.sum(jnp.where(self.valid[:, None], norm.logpdf(local), 0.0))

    def latents(self, local):
        return self.mean + self.sd * local

    def coordinates(self, latents):
        """The GP already starts near the latents; what it misses is not worth keeping."""
        return jnp.zeros_like(latents)

    def log_collapsed(self, local, temperature):
        return jnp.zeros(())

    def redraw_values(self, key, values, local, temperature):
        return values, temperature

    def seeds(self, values, local):
        return local

    def placed(self, values, seeds):
        return seeds, jnp.zeros(())


class SeededPrior(AbstractLatentPrior):
    """The law of `SparsePrior` for one group, with zₙ = aₙᵀ v + √(σ̃ₙ² + σ²) εₙ and ε ~ N(0, I).

    Where the latent noise is small, latents that move by themselves are tied to the GP and drag it along slowly; seeds
    leave the tie to arithmetic, and the decoder learns through v.  v is global and part of the hyper-parameters.
    """

    sparse: SparsePrior
    values_start: Float[Array, "1 C M"]
    latent_dim: int = eqx.field(static=True)

    @property
    def couples_rows(self):
        return False

    @property
    def collapses(self):
        return False

    def init(self, key, num_groups):
        hyper, _ = self.sparse.init(key, num_groups)
        return {**hyper, "values": self.values_start}, None

    def log_hyper(self, hyper):
        return {**self.sparse.log_hyper(hyper), "values": self.sparse.log_values(hyper["values"])}

    def log_values(self, values):
        return jnp.zeros(())

    def law(self, hyper, batch):
        projection, variance = self.sparse.project(hyper, batch.x)
        return SeededLaw(gp.sparse_mean(projection, hyper["values"], batch.slot), jnp.sqrt(variance), batch.valid)

    def _values(self, hyper, query):
        return jnp.broadcast_to(hyper["values"], (query.x.shape[0], *hyper["values"].shape[1:]))

    def marginals(self, hyper, values, memory, query):
        return self.sparse.marginals(hyper, self._values(hyper, query), memory, query)

    def path(self, key, hyper, values, memory, query):
        return self.sparse.path(key, hyper, self._values(hyper, query), memory, query)

    def whitened(self, hyper, values, memory, query, seed):
        return self.sparse.whitened(hyper, self._values(hyper, query), memory, query, seed)

    def standardised(self, hyper, memory, query, z):
        law = self.marginals(hyper, None, memory, query)
        return None, jnp.clip((z - law.mean[0]) / jnp.sqrt(law.variance[0]), -3.0, 3.0)

    def covariances(self, hyper, batch):
        return self.sparse.covariances(hyper, batch)

    def describe(self, hyper):
        return self.sparse.describe(hyper)


def seeded(sparse: SparsePrior, inputs: Float[Array, "N D"], latents: Float[Array, "N C"]) -> SeededPrior:
    """With values that start where a GP explains the given latents best."""
    projection, _ = sparse.project(sparse.init(None, 1)[0], inputs)
    blocks = jnp.arange(inputs.shape[0])[None]
    law = gp.values_posterior(projection, latents, jnp.asarray(0.01), blocks)
    return SeededPrior(sparse, law.mean, sparse.latent_dim)
