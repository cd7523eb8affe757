"""SGP-BAE: a sparse Gaussian process whose inducing inputs, values and hyper-parameters are all sampled."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int

from gpbae import gp
from gpbae.linalg import cholesky
from gpbae.priors import hyper as hyperparameters
from gpbae.priors.base import GUESS_VARIANCE, AbstractLatentPrior, AbstractLaw, Latents, Marginals
from gpbae.priors.inducing import AbstractInducingPrior


class SparseLaw(AbstractLaw):
    """Projection and marginal variances of the batch's rows, and what integrating the values out needs."""

    projection: gp.Projection
    variance: Latents
    valid: Bool[Array, " B"]
    slot: Int[Array, " B"]
    blocks: Int[Array, "G n"]
    conjugate: gp.Conjugate

    def log_latents(self, values, local):
        return jnp.sum(jnp.where(self.valid[:, None], norm.logpdf(local, *self.spread(values)), 0.0))

    def log_rows(self, values, local):
        return jnp.sum(norm.logpdf(local, *self.spread(values)), axis=1)

    def spread(self, values):
        return gp.sparse_mean(self.projection, values, self.slot), jnp.sqrt(self.variance)

    def latents(self, local):
        return local

    def coordinates(self, latents):
        return latents

    def _given(self, local) -> gp.ValuesPosterior:
        return gp.given_latents(self.conjugate, local, self.blocks)

    def log_collapsed(self, local, temperature):
        """At temperature T the integral is exp(−U(v̂)/T) |Λ|^{-1/2} up to a constant, v̂ the conditional mean."""
        law = self._given(local)
        return (law.log_marginal + 0.5 * law.log_determinant) / temperature - 0.5 * law.log_determinant

    def redraw_values(self, key, values, local, temperature):
        return gp.draw_values(key, self._given(local), temperature)

    def seeds(self, values, local):
        mean, sd = self.spread(values)
        return (local - mean) / sd

    def placed(self, values, seeds):
        mean, sd = self.spread(values)
        return mean + sd * seeds, jnp.sum(jnp.log(sd))


class SparsePrior(AbstractLatentPrior):
    """zₙ | v ~ N(aₙᵀ v, k_nn − aₙᵀ aₙ + σ²) independently (FITC), v ~ N(0, I) per group, aₙ = L⁻¹ k_Sn."""

    hyper_reference: hyperparameters.Hyper
    inducing_prior: AbstractInducingPrior
    inducing_start: Float[Array, "M E"]
    latent_dim: int = eqx.field(static=True)
    sample_inducing: bool = eqx.field(static=True)

    @property
    def couples_rows(self):
        return False

    def init(self, key, num_groups):
        hyper = self.hyper_reference.init()
        if self.sample_inducing:
            hyper["inducing"] = self.inducing_prior.coordinates(self.inducing_start)
        return hyper, jnp.zeros((num_groups, self.latent_dim, self.inducing_start.shape[0]))

    def inducing(self, hyper) -> Float[Array, "M E"]:
        """S in the units of the kernel's features."""
        return self.inducing_prior.inputs(hyper["inducing"]) if self.sample_inducing else self.inducing_start

    def log_hyper(self, hyper):
        terms = self.hyper_reference.log_prior(hyper)
        if self.sample_inducing:
            terms["inducing prior"] = self.inducing_prior.log_prob(hyper["inducing"])
        return terms

    def log_values(self, values):
        return jnp.sum(norm.logpdf(values))

    def project(self, hyper, x) -> tuple[gp.Projection, Array]:
        """The projection of the inputs onto the inducing values, and the marginal variance σ̃² + σ²."""
        kernels, noise = self.hyper_reference.resolve(hyper)
        projection = gp.sparse_projection(kernels, x, self.inducing(hyper))
        return projection, gp.sparse_variance(projection, self.latent_dim) + noise**2

    def law(self, hyper, batch):
        projection, variance = self.project(hyper, batch.x)
        _, noise = self.hyper_reference.resolve(hyper)
        conjugate = gp.conjugate(projection, noise**2, batch.blocks)
        return SparseLaw(projection, variance, batch.valid, batch.slot, batch.blocks, conjugate)

    @property
    def collapses(self):
        return True

    def _moments(self, hyper, values, query):
        """Mean and variance at a query with one value array per block, (G, q, C) each."""
        G, q, D = query.x.shape
        projection, variance = self.project(hyper, query.x.reshape(G * q, D))
        mean = gp.sparse_mean(projection, values, jnp.repeat(jnp.arange(G), q))
        return mean.reshape(G, q, -1), variance.reshape(G, q, -1)

    def marginals(self, hyper, values, memory, query):
        mean, variance = self._moments(hyper, values, query)
        return Marginals(mean[None], variance[None])

    def path(self, key, hyper, values, memory, query):
        kernels, noise = self.hyper_reference.resolve(hyper)
        mean, _ = self._moments(hyper, values, query)
        S = self.inducing(hyper)
        covariance = jax.vmap(lambda x: gp.sparse_joint_covariance(kernels, x, S))(query.x)
        L = cholesky(covariance + noise**2 * jnp.eye(covariance.shape[-1])[None, None])
        L = jnp.broadcast_to(L, (L.shape[0], self.latent_dim, *L.shape[2:]))
        return mean + jnp.einsum("gcnm,gmc->gnc", L, jax.random.normal(key, mean.shape, jnp.float64))

    def whitened(self, hyper, values, memory, query, seed):
        mean, variance = self._moments(hyper, values, query)
        return mean + jnp.sqrt(variance) * seed, jnp.sum(norm.logpdf(seed), axis=(1, 2))

    def standardised(self, hyper, memory, query, z):
        G, q, D = query.x.shape
        projection, variance = self.project(hyper, query.x.reshape(G * q, D))
        _, noise = self.hyper_reference.resolve(hyper)
        blocks = jnp.where(query.valid, jnp.arange(G * q).reshape(G, q), G * q)
        values = gp.values_posterior(projection, z.reshape(G * q, -1), noise**2 + GUESS_VARIANCE, blocks).mean
        mean = gp.sparse_mean(projection, values, jnp.repeat(jnp.arange(G), q)).reshape(z.shape)
        return values, jnp.clip((z - mean) / jnp.sqrt(variance).reshape(z.shape), -3.0, 3.0)

    def covariances(self, hyper, batch):
        kernels, _ = self.hyper_reference.resolve(hyper)
        return (gp.inducing_covariance(kernels, self.inducing(hyper)),)

    def describe(self, hyper):
        return {**self.hyper_reference.describe(hyper), "inducing": self.inducing(hyper)}
