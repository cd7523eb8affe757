"""GP-BAE: an exact Gaussian process per group."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int

from gpbae import gp
from gpbae.linalg import cholesky, cholesky_solve, solve_triangular
from gpbae.priors import hyper as hyperparameters
from gpbae.priors.base import AbstractLatentPrior, AbstractLaw, Marginals

START_NOISE = 0.1


class FullLaw(AbstractLaw):
    """chol(K + σ²I) of every group, and which of its rows are not padding."""

    factor: Float[Array, "G k n n"]
    valid: Bool[Array, "G n"]
    blocks: Int[Array, "G n"]

    def log_latents(self, values, local):
        return gp.exact_log_density(self.factor, gp.gather(local, self.blocks), self.valid)

    def latents(self, local):
        return local

    def coordinates(self, latents):
        return latents

    def log_collapsed(self, local, temperature):
        return self.log_latents(None, local) / temperature

    def redraw_values(self, key, values, local, temperature):
        return values, temperature

    def seeds(self, values, local):
        solved = _solved(self.factor, gp.gather(local, self.blocks))
        return gp.scatter(solved, self.blocks, local.shape[0])

    def placed(self, values, seeds):
        blocked = _times(self.factor, gp.gather(seeds, self.blocks))
        logs = jnp.log(jnp.diagonal(self.factor, axis1=-2, axis2=-1))
        log_volume = jnp.sum(jnp.where(self.valid[:, None], logs, 0.0)) * (seeds.shape[1] // self.factor.shape[1])
        return gp.scatter(blocked, self.blocks, seeds.shape[0]), log_volume


class WhitenedLaw(FullLaw):
    """Local coordinates are ε with z = L ε."""

    def log_latents(self, values, local):
        return jnp.sum(jnp.where(self.valid[..., None], norm.logpdf(gp.gather(local, self.blocks)), 0.0))

    def latents(self, local):
        return gp.scatter(_times(self.factor, gp.gather(local, self.blocks)), self.blocks, local.shape[0])

    def coordinates(self, latents):
        seeds = _smoothed_seed(self.factor, gp.gather(latents, self.blocks))
        return gp.scatter(seeds, self.blocks, latents.shape[0])

    def seeds(self, values, local):
        return local

    def placed(self, values, seeds):
        return seeds, jnp.zeros(())


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

    def law(self, hyper, batch):
        valid = gp.gather(batch.valid, batch.blocks)
        kernels, noise = self.hyper_reference.resolve(hyper)
        factor = cholesky(gp.block_covariance(kernels, gp.gather(batch.x, batch.blocks), valid, noise**2))
        return (WhitenedLaw if self.is_whitened else FullLaw)(factor, valid, batch.blocks)

    @property
    def collapses(self):
        """There are no values, and in whitened coordinates the latents say nothing of the hyper-parameters."""
        return not self.is_whitened

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
        told = query.valid[:, None, :, None]
        return None, jnp.clip(_smoothed_seed(jnp.where(told, L, 0.0), z - mean), -3.0, 3.0)

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


def _solved(factor, z):
    """L⁻¹ z, block by block and channel by channel."""
    L = jnp.broadcast_to(factor, (factor.shape[0], z.shape[-1], *factor.shape[2:]))
    return jnp.swapaxes(solve_triangular(L, jnp.swapaxes(z, 1, 2)[..., None])[..., 0], 1, 2)


def _smoothed_seed(factor, z):
    """ε = Lᵀ (L Lᵀ + δI)⁻¹ z: the seed of a smoothed z, for L⁻¹ z of rough latents would be enormous.  Rows of L that
    are zero have no say."""
    L = jnp.broadcast_to(factor, (factor.shape[0], z.shape[-1], *factor.shape[2:]))
    K = L @ jnp.swapaxes(L, -1, -2) + START_NOISE * jnp.eye(L.shape[-1])[None, None]
    solved = cholesky_solve(cholesky(K), jnp.swapaxes(z, 1, 2)[..., None])
    return jnp.einsum("gcnm,gcn->gmc", L, solved[..., 0])
