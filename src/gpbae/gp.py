"""Gaussian-process conditionals as pure functions: exact, sparse (FITC) and their posteriors.

Channels share one kernel or have one each: `kernels` is a tuple of one or C kernels, and every matrix below has a
leading axis of that length.  Rows of different groups meet in *blocks*: (G, n) positions, padded, with a validity mask.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from gpbae.kernels import AbstractKernel, diagonal, gram
from gpbae.linalg import cholesky, gaussian_log_density, solve_triangular

Kernels = tuple[AbstractKernel, ...]


class Projection(NamedTuple):
    """A = L⁻¹ K_Sx and the FITC residual diag K_xx − colsum A²."""

    weights: Float[Array, "k M B"]
    residual: Float[Array, "k B"]


def sparse_projection(kernels: Kernels, inputs: Float[Array, "B D"], inducing: Float[Array, "M E"]) -> Projection:
    """What a sparse conditional needs of the inputs, with u = L v and L = chol K_SS."""
    L = cholesky(inducing_covariance(kernels, inducing))
    A = solve_triangular(L, _each(kernels, lambda k: gram(k, inducing, k.features(inputs))))
    return Projection(A, jnp.maximum(self_variance(kernels, inputs) - jnp.sum(A**2, axis=-2), 0.0))


def inducing_covariance(kernels: Kernels, inducing: Float[Array, "M E"]) -> Float[Array, "k M M"]:
    """K_SS, kernel by kernel; S are features already."""
    return _each(kernels, lambda k: gram(k, inducing, inducing))


def sparse_mean(projection: Projection, values: Float[Array, "G C M"], slot: Int[Array, " B"]) -> Float[Array, "B C"]:
    """E[fₙ | v] = aₙᵀ v of the row's own group."""
    A = _per_channel(projection.weights, values.shape[1])
    if values.shape[0] == 1:
        return jnp.einsum("cmb,cm->bc", A, values[0])
    return jnp.einsum("cmb,bcm->bc", A, values[slot])


def sparse_variance(projection: Projection, num_channels: int) -> Float[Array, "B C"]:
    """Var[fₙ | v], never negative."""
    return _per_channel(projection.residual, num_channels).T


class Conjugate(NamedTuple):
    """What integrating v out of a sparse prior needs before the latents are known, group by group: A / (σ̃² + σ²),
    σ̃² + σ² (one where padded), chol Λ of the precision Λ = I + A diag(σ̃² + σ²)⁻¹ Aᵀ of v, and the number of rows."""

    weighted: Float[Array, "G k M n"]
    variance: Float[Array, "G k n"]
    factor: Float[Array, "G k M M"]
    num_rows: Float[Array, ""]


class ValuesPosterior(NamedTuple):
    """p(v | Z), Gaussian with precision Λ: its mean, chol Λ, log p(Z) and log |Λ|, the logs summed over groups and
    channels."""

    mean: Float[Array, "G C M"]
    factor: Float[Array, "G k M M"]
    log_marginal: Float[Array, ""]
    log_determinant: Float[Array, ""]


def conjugate(projection: Projection, noise_variance: Array, blocks: Int[Array, "G n"]) -> Conjugate:
    """O(n M²) per group and kernel."""
    A = jnp.moveaxis(gather(jnp.moveaxis(projection.weights, 2, 0), blocks), 1, 3)
    inside = gather(jnp.ones(projection.residual.shape[1], bool), blocks)[:, None]
    variance = jnp.where(inside, jnp.moveaxis(gather(projection.residual.T + noise_variance, blocks), 1, 2), 1.0)
    weighted = A / variance[:, :, None]
    L = cholesky(weighted @ jnp.swapaxes(A, -1, -2) + jnp.eye(A.shape[2])[None, None])
    return Conjugate(weighted, variance, L, jnp.sum(inside, dtype=A.dtype))


def given_latents(law: Conjugate, latents: Float[Array, "B C"], blocks: Int[Array, "G n"]) -> ValuesPosterior:
    """log p(Z) = Σ log N(z; 0, AᵀA + diag(σ̃² + σ²)) by Woodbury, and p(v | Z): O(n M) per group and channel."""
    L, variance, C = law.factor, law.variance, latents.shape[1]
    k = L.shape[1]
    z = _by_kernel(gather(latents, blocks), k)
    half = solve_triangular(L, law.weighted @ z)
    mean = solve_triangular(L, half, transpose=True)
    log_determinant = 2 * (C // k) * jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)))
    spread = (C // k) * jnp.sum(jnp.log(variance)) + C * law.num_rows * jnp.log(2 * jnp.pi)
    square = jnp.sum(z**2 / variance[..., None]) - jnp.sum(half**2)
    log_marginal = -0.5 * (square + spread + log_determinant)
    return ValuesPosterior(_by_channel(mean), L, log_marginal, log_determinant)


def values_posterior(
    projection: Projection, latents: Float[Array, "B C"], noise_variance: Array, blocks: Int[Array, "G n"]
) -> ValuesPosterior:
    """Both at once."""
    return given_latents(conjugate(projection, noise_variance, blocks), latents, blocks)


def draw_values(key: Key[Array, ""], law: ValuesPosterior, temperature: Array) -> tuple[Float[Array, "G C M"], Array]:
    """A draw of v from its conditional, and its temperature: the mean over coordinates of (v − E v)ᵀ Λ (v − E v)."""
    shape = law.mean.shape
    xi = jnp.sqrt(temperature) * jax.random.normal(key, shape, law.mean.dtype)
    columns = _by_kernel(jnp.swapaxes(xi, 1, 2), law.factor.shape[1])
    return law.mean + _by_channel(solve_triangular(law.factor, columns, transpose=True)), jnp.mean(xi**2)


def _by_kernel(rows: Float[Array, "G n C"], num_kernels: int) -> Float[Array, "G k n r"]:
    """Channels that share a kernel side by side, as columns of one right-hand side."""
    return jnp.moveaxis(rows.reshape(*rows.shape[:2], num_kernels, -1), 1, 2)


def _by_channel(columns: Float[Array, "G k M r"]) -> Float[Array, "G C M"]:
    """The inverse of `_by_kernel`, channel first."""
    return jnp.swapaxes(columns, 2, 3).reshape(columns.shape[0], -1, columns.shape[2])


def sparse_joint_covariance(
    kernels: Kernels, inputs: Float[Array, "B D"], inducing: Float[Array, "M E"]
) -> Float[Array, "k B B"]:
    """Cov[f | v] between the inputs, of which FITC keeps the diagonal: for joint draws along a path."""
    A = sparse_projection(kernels, inputs, inducing).weights
    return self_covariance(kernels, inputs) - jnp.swapaxes(A, -1, -2) @ A


def self_covariance(kernels: Kernels, inputs: Float[Array, "B D"]) -> Float[Array, "k B B"]:
    """K_xx, kernel by kernel."""
    return _each(kernels, lambda k: gram(k, k.features(inputs), k.features(inputs)))


def self_variance(kernels: Kernels, inputs: Float[Array, "B D"]) -> Float[Array, "k B"]:
    """The diagonal of K_xx, kernel by kernel, without the matrix."""
    return _each(kernels, lambda k: diagonal(k, k.features(inputs)))


def cross_covariance(
    kernels: Kernels, inputs: Float[Array, "A D"], others: Float[Array, "B D"]
) -> Float[Array, "k A B"]:
    """K_xx′, kernel by kernel."""
    return _each(kernels, lambda k: gram(k, k.features(inputs), k.features(others)))


def block_covariance(
    kernels: Kernels, inputs: Float[Array, "G n D"], valid: Bool[Array, "G n"], noise_variance: Array
) -> Float[Array, "G k n n"]:
    """K + σ²I of every group; padding is an independent unit-variance row."""
    K = jax.vmap(lambda x: self_covariance(kernels, x))(inputs)
    pair = (valid[:, :, None] & valid[:, None, :])[:, None]
    extra = jnp.where(valid, noise_variance, 1.0)[:, None, :, None] * jnp.eye(valid.shape[1])[None, None]
    return jnp.where(pair, K, 0.0) + extra


def exact_log_density(
    factor: Float[Array, "G k n n"], latents: Float[Array, "G n C"], valid: Bool[Array, "G n"]
) -> Array:
    """Σ over groups and channels of log N(z; 0, K + σ²I), padding left out."""
    C = latents.shape[-1]
    z = jnp.swapaxes(jnp.where(valid[..., None], latents, 0.0), 1, 2)
    padding = C * jnp.sum(~valid, dtype=jnp.float64) * norm.logpdf(0.0)
    L = jnp.broadcast_to(factor, (factor.shape[0], C, *factor.shape[2:]))
    return jnp.sum(gaussian_log_density(z, L)) - padding


def exact_conditional(
    kernels: Kernels,
    train: tuple[Float[Array, "G n D"], Bool[Array, "G n"], Float[Array, "G n C"]],
    query: Float[Array, "G q D"],
    noise_variance: Array,
) -> tuple[Float[Array, "G q C"], Float[Array, "G k q q"]]:
    """Mean and covariance of f at the query given the latents of each group's training rows."""
    mean, A = _exact_projection(kernels, train, query, noise_variance)
    prior = jax.vmap(lambda a: self_covariance(kernels, a))(query)
    return mean, prior - jnp.swapaxes(A, -1, -2) @ A


def exact_marginals(
    kernels: Kernels,
    train: tuple[Float[Array, "G n D"], Bool[Array, "G n"], Float[Array, "G n C"]],
    query: Float[Array, "G q D"],
    noise_variance: Array,
) -> tuple[Float[Array, "G q C"], Float[Array, "G k q"]]:
    """Mean and variance of f at every query on its own, in memory linear in their number; never negative."""
    mean, A = _exact_projection(kernels, train, query, noise_variance)
    prior = jax.vmap(lambda a: self_variance(kernels, a))(query)
    return mean, jnp.maximum(prior - jnp.sum(A**2, axis=-2), 0.0)


def _exact_projection(kernels, train, query, noise_variance) -> tuple[Float[Array, "G q C"], Float[Array, "G k n q"]]:
    """Means at the query and L⁻¹ K_xq, group by group."""
    x, valid, z = train
    L = cholesky(block_covariance(kernels, x, valid, noise_variance))
    cross = jax.vmap(lambda a, b: cross_covariance(kernels, a, b))(x, query)
    cross = jnp.where(valid[:, None, :, None], cross, 0.0)
    A = solve_triangular(L, cross)
    C = z.shape[-1]
    rhs = jnp.swapaxes(jnp.where(valid[..., None], z, 0.0), 1, 2)[..., None]
    w = solve_triangular(jnp.broadcast_to(L, (L.shape[0], C, *L.shape[2:])), rhs)[..., 0]
    return jnp.einsum("gcnq,gcn->gqc", jnp.broadcast_to(A, (A.shape[0], C, *A.shape[2:])), w), A


def gather(rows: Shaped[Array, "B *rest"], blocks: Int[Array, "G n"]) -> Shaped[Array, "G n *rest"]:
    """Rows arranged by group; padding (a position beyond the last row) becomes zero."""
    return rows.at[blocks].get(mode="fill", fill_value=0)


def scatter(blocked: Float[Array, "G n *rest"], blocks: Int[Array, "G n"], num_rows: int) -> Float[Array, "B *rest"]:
    """The inverse of `gather`."""
    out = jnp.zeros((num_rows, *blocked.shape[2:]), blocked.dtype)
    return out.at[blocks].set(blocked, mode="drop")


def _each(kernels: Kernels, of: Callable[[AbstractKernel], Array]) -> Float[Array, "k ..."]:
    """Something of every kernel; kernels of one kind go side by side, so that ten of them compile as fast as one."""
    kinds = {(jax.tree.structure(k), tuple(jnp.shape(a) for a in jax.tree.leaves(k))) for k in kernels}
    if len(kernels) == 1 or len(kinds) > 1:
        return jnp.stack([of(k) for k in kernels])
    return jax.vmap(of)(jax.tree.map(lambda *a: jnp.stack(a), *kernels))


def _per_channel(a: Float[Array, "k ..."], num_channels: int) -> Float[Array, "C ..."]:
    return jnp.broadcast_to(a, (num_channels, *a.shape[1:]))
