"""GP-BAE: an exact Gaussian process per group."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array

from gpbae import gp
from gpbae.linalg import cholesky, cholesky_solve
from gpbae.priors import hyper as hyperparameters
from gpbae.priors.base import AbstractLatentPrior, Marginals

START_NOISE = 0.1


class FullPrior(AbstractLatentPrior):
    """z of a group ~ N(0, K + σ²I).

    Without latent noise the precision of a smooth kernel is unbounded, so the chain moves in whitened coordinates
    z = L ε; with noise it moves in z itself, where informative data make the posterior round.
    """

    hyper_reference: hyperparameters.Hyper
    latent_dim: int = eqx.field(static=True)
    is_whitened: bool = eqx.field(static=True)

    @property
    def couples_rows(self):
        return True

    def init(self, key, num_groups):
        return self.hyper_reference.init(), None

    def log_hyper(self, hyper):
        return self.hyper_reference.log_prior(hyper)

    def log_values(self, values):
        return jnp.zeros(())

    def _factor(self, hyper, x, valid) -> Array:
        kernels, noise = self.hyper_reference.resolve(hyper)
        return cholesky(gp.block_covariance(kernels, x, valid, noise**2))

    def _blocks(self, hyper, batch):
        valid = gp.gather(batch.valid, batch.blocks)
        return self._factor(hyper, gp.gather(batch.x, batch.blocks), valid), valid

    def log_latents(self, hyper, values, local, batch):
        if self.is_whitened:
            return jnp.sum(jnp.where(batch.valid[:, None], norm.logpdf(local), 0.0))
        L, valid = self._blocks(hyper, batch)
        return gp.exact_log_density(L, gp.gather(local, batch.blocks), valid)

    def latents(self, hyper, local, batch):
        if not self.is_whitened:
            return local
        L, _ = self._blocks(hyper, batch)
        return gp.scatter(_times(L, gp.gather(local, batch.blocks)), batch.blocks, local.shape[0])

    def coordinates(self, hyper, latents, batch):
        if not self.is_whitened:
            return latents
        L, _ = self._blocks(hyper, batch)
        return gp.scatter(_smoothed_seed(L, gp.gather(latents, batch.blocks)), batch.blocks, latents.shape[0])

    @property
    def collapses(self):
        """There are no values, and in whitened coordinates the latents say nothing of the hyper-parameters."""
        return not self.is_whitened

    def log_collapsed(self, hyper, local, batch, temperature):
        return self.log_latents(hyper, None, local, batch) / temperature

    def redraw_values(self, key, hyper, values, local, batch, temperature):
        return values, temperature

    def _train(self, memory, query):
        """Latents that each query's group is conditioned on: none for a group never seen."""
        return memory.x[query.slot], memory.valid[query.slot] & query.known[:, None], memory.z[query.slot]

    def marginals(self, hyper, values, memory, query):
        kernels, noise = self.hyper_reference.resolve(hyper)
        mean, variance = gp.exact_marginals(kernels, self._train(memory, query), query.x, noise**2)
        variance = jnp.broadcast_to(jnp.swapaxes(variance, 1, 2) + noise**2, mean.shape)
        return Marginals(mean[None], variance[None])

    def _root(self, hyper, memory, query):
        kernels, noise = self.hyper_reference.resolve(hyper)
        mean, covariance = gp.exact_conditional(kernels, self._train(memory, query), query.x, noise**2)
        eye = jnp.eye(covariance.shape[-1])[None, None]
        return mean, cholesky(covariance + noise**2 * eye)

    def path(self, key, hyper, values, memory, query):
        mean, L = self._root(hyper, memory, query)
        return mean + _times(L, jax.random.normal(key, mean.shape, jnp.float64))

    def whitened(self, hyper, values, memory, query, seed):
        mean, L = self._root(hyper, memory, query)
        return mean + _times(L, seed), jnp.sum(norm.logpdf(seed), axis=(1, 2))

    def standardised(self, hyper, memory, query, z):
        mean, L = self._root(hyper, memory, query)
        return None, jnp.clip(_smoothed_seed(L, z - mean), -3.0, 3.0)

    def covariances(self, hyper, batch):
        kernels, noise = self.hyper_reference.resolve(hyper)
        valid = gp.gather(batch.valid, batch.blocks)
        return (gp.block_covariance(kernels, gp.gather(batch.x, batch.blocks), valid, noise**2),)

    def describe(self, hyper):
        return self.hyper_reference.describe(hyper)


def _times(factor, seed):
    """L ε, block by block and channel by channel."""
    L = jnp.broadcast_to(factor, (factor.shape[0], seed.shape[-1], *factor.shape[2:]))
    return jnp.einsum("gcnm,gmc->gnc", L, seed)


def _smoothed_seed(factor, z):
    """ε = Lᵀ (L Lᵀ + δI)⁻¹ z: the seed of a smoothed z, for L⁻¹ z of rough latents would be enormous."""
    L = jnp.broadcast_to(factor, (factor.shape[0], z.shape[-1], *factor.shape[2:]))
    K = L @ jnp.swapaxes(L, -1, -2) + START_NOISE * jnp.eye(L.shape[-1])[None, None]
    solved = cholesky_solve(cholesky(K), jnp.swapaxes(z, 1, 2)[..., None])
    return jnp.einsum("gcnm,gcn->gmc", L, solved[..., 0])
