"""Variational laws q(Z) of the latents, by the prior they approximate: each gives marginals and KL(q ‖ p).

Rows come in blocks, one per group.  The encoder's outputs are Gaussian pseudo-observations N(m; z, s²) of the latents,
and q is the prior conditioned on them; rows without an observed cell have none.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float

from gpbae import gp, kernels
from gpbae.gp import Kernels, Projection, ValuesPosterior
from gpbae.linalg import cholesky, solve_triangular

LARGEST_LOG_VARIANCE = 12.0


class Evidence(NamedTuple):
    """Rows by group: inputs, which have something observed, and pseudo-observations of their latents."""

    x: Float[Array, "G n D"]
    informed: Bool[Array, "G n"]
    mean: Float[Array, "G n C"]
    variance: Float[Array, "G n _"]


class Law(NamedTuple):
    """Marginals of q at the rows asked for, and KL(q ‖ p) summed over groups and channels."""

    mean: Float[Array, "G q C"]
    variance: Float[Array, "G q C"]
    divergence: Float[Array, ""]


class AbstractLaw(eqx.Module):
    """`scale` is how many rows each row stands for (N/B on batches of rows, else 1)."""

    couples_rows: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        """q given the evidence, at a query; the divergence is that of the evidence's rows."""

    @abc.abstractmethod
    def trained(self) -> "AbstractLaw":
        """A pytree of booleans: the leaves that are optimised."""

    def read(self, outputs: Float[Array, "G n O"], informed: Bool[Array, "G n"]) -> tuple[Array, Array]:
        """What the encoder's outputs, by group, say of the latents."""
        return pseudo_observations(outputs)

    def alone(self, evidence: Evidence) -> tuple[Array, Array]:
        """Mean and variance that each row has by itself, (G, n, C): what a start can teach."""
        return evidence.mean, evidence.variance


def pseudo_observations(outputs: Float[Array, "*rows O"]) -> tuple[Array, Array]:
    """Mean and variance from an encoder's outputs."""
    mean, log_variance = jnp.split(outputs, 2, axis=-1)
    return mean, jnp.exp(jnp.clip(log_variance, -LARGEST_LOG_VARIANCE, LARGEST_LOG_VARIANCE))


class Independent(AbstractLaw):
    """Prior N(0, I); q is the encoder's own normal, row by row.

    With `shared` a row that has nothing observed has the mean of its group's codes, instead of the prior.
    """

    couples_rows = False

    shared: bool = eqx.field(static=True, default=False)

    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        kl = 0.5 * (evidence.mean**2 + evidence.variance - jnp.log(evidence.variance) - 1)
        told = query.informed[..., None]
        other_mean, other_variance = self._of_group(evidence) if self.shared else (0.0, 1.0)
        mean, variance = jnp.where(told, query.mean, other_mean), jnp.where(told, query.variance, other_variance)
        return Law(mean, variance, scale * jnp.sum(jnp.where(evidence.informed[..., None], kl, 0.0)))

    def _of_group(self, evidence: Evidence) -> tuple[Float[Array, "G 1 C"], Float[Array, "G 1 C"]]:
        """Mean and variance of the average of a group's codes; the prior where it has none."""
        told = evidence.informed[..., None]
        count = jnp.sum(told, axis=1, keepdims=True)
        mean, variance = (jnp.sum(jnp.where(told, a, 0.0), axis=1, keepdims=True) for a in evidence[2:])
        some = jnp.maximum(count, 1).astype(mean.dtype)
        return mean / some, jnp.where(count > 0, variance / some**2, 1.0)

    def trained(self) -> "Independent":
        return self


class Exact(AbstractLaw):
    """An exact Gaussian process per group; q ∝ p(z) Π N(mₙ; zₙ, sₙ²) is GP regression on the pseudo-observations."""

    couples_rows = True

    kernels: Kernels
    learn_kernel: bool = eqx.field(static=True)

    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        """KL(q ‖ p) = Σ E_q log N(m; z, s²) − log N(m; 0, K + diag s²)."""
        x, informed, m, s2 = evidence
        C = m.shape[-1]
        seen = informed[..., None]
        K = gp.block_covariance(self.kernels, x, informed, jnp.zeros(()))
        extra = jnp.where(seen, s2, 0.0).swapaxes(1, 2)
        L = cholesky(_channels(K, C) + extra[..., None] * jnp.eye(x.shape[1])[None, None])
        residual = jnp.where(seen, m, 0.0).swapaxes(1, 2)
        w = solve_triangular(L, residual[..., None])[..., 0]
        mean, variance = self._marginals(L, w, x, informed, query.x)
        own_mean, own_variance = self._marginals(L, w, x, informed, x)
        expected = norm.logpdf(m, own_mean, jnp.sqrt(s2)) - 0.5 * own_variance / s2
        kl = jnp.sum(jnp.where(seen, expected, 0.0)) - gp.exact_log_density(L, m, informed)
        return Law(mean, variance, kl)

    def _marginals(self, L, w, x, informed, query):
        C = w.shape[1]
        cross = jax.vmap(lambda a, b: gp.cross_covariance(self.kernels, a, b))(x, query)
        A = solve_triangular(L, _channels(jnp.where(informed[:, None, :, None], cross, 0.0), C))
        prior = jax.vmap(lambda a: gp.self_variance(self.kernels, a))(query)
        variance = _channels(prior, C) - jnp.sum(A**2, axis=-2)
        mean = jnp.einsum("gcnq,gcn->gqc", A, w)
        return mean, jnp.maximum(variance, 1e-10).swapaxes(1, 2)

    def trained(self) -> "Exact":
        return eqx.tree_at(lambda q: q.kernels, self, _which(self.kernels, self.learn_kernel))


class Sparse(AbstractLaw):
    """A sparse process; q(v) ∝ p(v) Π N(mₙ; aₙᵀv, sₙ²) per group, q(zₙ | v) = p(zₙ | v).

    On a batch of rows every pseudo-observation counts N/B times, which estimates the precision of q(v) without bias.
    """

    couples_rows = False

    kernels: Kernels
    inducing: Float[Array, "M E"]
    learn_kernel: bool = eqx.field(static=True)

    def values(self, evidence: Evidence, scale: Array) -> ValuesPosterior:
        """q(v) of every group."""
        G, n, C = evidence.mean.shape
        projection = gp.sparse_projection(self.kernels, evidence.x.reshape(G * n, -1), self.inducing)
        A = _channels(projection.weights[None], C)[0]
        told = evidence.informed.reshape(-1)
        blocks = jnp.where(told, jnp.arange(G * n), G * n).reshape(G, n)
        noise = jnp.where(told[:, None], evidence.variance.reshape(G * n, C), 1.0) / scale
        mean = jnp.where(told[:, None], evidence.mean.reshape(G * n, C), 0.0)
        return gp.values_posterior(Projection(A, jnp.zeros((C, G * n))), mean, noise, blocks)

    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        law = self.values(evidence, scale)
        root = solve_triangular(law.factor, _eyes(law.factor))
        mean, variance = sparse_marginals(self.kernels, self.inducing, query.x, law.mean, root)
        return Law(mean, variance, divergence(law.mean, root, 0.5 * law.log_determinant))

    def trained(self) -> "Sparse":
        return eqx.tree_at(lambda q: (q.kernels, q.inducing), self, (_which(self.kernels, self.learn_kernel), True))


class FreeSparse(AbstractLaw):
    """A sparse process whose q(v) = N(m, R Rᵀ) are parameters, one per group and channel: nothing is amortised."""

    couples_rows = False

    kernels: Kernels
    inducing: Float[Array, "M E"]
    mean: Float[Array, "G C M"]
    root: Float[Array, "G C M M"]
    learn_kernel: bool = eqx.field(static=True)

    def factor(self) -> Float[Array, "G C M M"]:
        """R: lower triangular, the diagonal on the log scale."""
        lower = jnp.tril(self.root, -1)
        return lower + _eyes(self.root) * jnp.exp(jnp.diagonal(self.root, axis1=-2, axis2=-1))[..., None]

    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        R = self.factor()
        mean, variance = sparse_marginals(self.kernels, self.inducing, query.x, self.mean, R.swapaxes(-1, -2))
        log_spread = -jnp.sum(jnp.diagonal(self.root, axis1=-2, axis2=-1))
        return Law(mean, variance, divergence(self.mean, R, log_spread))

    def alone(self, evidence: Evidence) -> tuple[Array, Array]:
        """Marginals of q, whose kernel stays as it is."""
        held = eqx.tree_at(
            lambda q: (q.kernels, q.inducing), self, jax.lax.stop_gradient((self.kernels, self.inducing))
        )
        return held.at(evidence, evidence, jnp.ones(()))[:2]

    def trained(self) -> "FreeSparse":
        leaves = lambda q: (q.kernels, q.inducing, q.mean, q.root)  # noqa: E731
        return eqx.tree_at(leaves, self, (_which(self.kernels, self.learn_kernel), True, True, True))


def sparse_marginals(
    kernels: Kernels, inducing: Float[Array, "M E"], query: Float[Array, "G q D"], mean: Float[Array, "G C M"],
    root: Float[Array, "G C M M"],
) -> tuple[Float[Array, "G q C"], Float[Array, "G q C"]]:  # fmt: skip
    """E and Var of f at the query when v ~ N(mean, rootᵀ root), group by group."""
    G, q, D = query.shape
    C = mean.shape[1]
    projection = gp.sparse_projection(kernels, query.reshape(G * q, D), inducing)
    k, M = projection.weights.shape[:2]
    A = _channels(jnp.moveaxis(projection.weights.reshape(k, M, G, q), 2, 0), C)
    residual = _channels(jnp.moveaxis(projection.residual.reshape(k, G, q), 1, 0), C)
    variance = residual + jnp.sum((root @ A) ** 2, axis=-2)
    return jnp.einsum("gcmq,gcm->gqc", A, mean), jnp.maximum(variance, 1e-10).swapaxes(1, 2)


def divergence(mean: Float[Array, "G C M"], root: Float[Array, "G C M M"], log_spread: Array) -> Array:
    """KL(N(m, Σ) ‖ N(0, I)) = ½ (tr Σ + mᵀm − M) − ½ log |Σ|, with Σ = rootᵀ root and log_spread = −½ log |Σ|."""
    return 0.5 * (jnp.sum(root**2) + jnp.sum(mean**2) - mean.size) + log_spread


def _channels(a: Float[Array, "G k *rest"], num: int) -> Float[Array, "G C *rest"]:
    return jnp.broadcast_to(a, (a.shape[0], num, *a.shape[2:]))


def _eyes(like: Float[Array, "*batch M M"]) -> Float[Array, "*batch M M"]:
    return jnp.broadcast_to(jnp.eye(like.shape[-1]), like.shape)


def _which(given: Kernels, learned: bool) -> Kernels:
    """True at the hyper-parameters that are optimised."""
    return kernels.sampled(given) if learned else jax.tree.map(lambda _: False, given)
