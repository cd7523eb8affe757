"""GP-VAE (Fortuin et al. 2020): a time-series posterior whose precision is tridiagonal, under a Cauchy kernel."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpbae import gp, networks
from gpbae.baselines.autoencoders import GPVAE
from gpbae.baselines.latents import AbstractLaw, Evidence, Law, _channels, _eyes, _which
from gpbae.baselines.variational import VariationalAutoencoder
from gpbae.gp import Kernels
from gpbae.kernels import Cauchy
from gpbae.linalg import cholesky, cholesky_solve, log_determinant, solve_triangular
from gpbae.sampling.batches import Table

LARGEST_LOG = 6.0


class Banded(AbstractLaw):
    """q(z) = N(m, Λ⁻¹) along each series, Λ = B Bᵀ with B lower bidiagonal; prior an exact Gaussian process.

    Rows without an observed cell are not part of q: they follow from the prior given the others, so the divergence is
    that of the informed rows.  The encoder's features of a row and its two neighbours say m and B.
    """

    couples_rows = True

    kernels: Kernels
    window: networks.Layer
    learn_kernel: bool = eqx.field(static=True)

    def read(self, outputs, informed):
        """m, and the logarithm of B's diagonal with what stands beside it: (G, n, C) and (G, n, 2C)."""
        features = jnp.where(informed[..., None], jnp.tanh(outputs), 0.0)
        before, after = (
            jnp.pad(features, ((0, 0), (1, 1), (0, 0)))[:, :-2],
            jnp.pad(features, ((0, 0), (1, 1), (0, 0)))[:, 2:],
        )
        joined = jnp.concatenate([before, features, after], axis=-1).astype(jnp.float32)
        found = self.window(joined).astype(jnp.float64)
        mean, rest = found[..., : found.shape[-1] // 3], found[..., found.shape[-1] // 3 :]
        return mean, rest

    def factor(self, evidence: Evidence) -> Float[Array, "G C n n"]:
        """B; a row without an observed cell stands alone with precision one."""
        log_diagonal, beside = jnp.split(evidence.variance, 2, axis=-1)
        told = evidence.informed[..., None]
        main = jnp.where(told, jnp.exp(jnp.clip(log_diagonal, -LARGEST_LOG, LARGEST_LOG)), 1.0)
        linked = told[:, 1:] & told[:, :-1]
        below = jnp.where(linked, beside[:, 1:], 0.0)
        place = lambda values, offset: jax.vmap(jax.vmap(lambda v: jnp.diag(v, offset)))(jnp.swapaxes(values, 1, 2))  # noqa: E731
        return place(main, 0) + place(below, -1)

    def alone(self, evidence: Evidence) -> tuple[Array, Array]:
        """The mean, and the variance of a row when the one after it is known."""
        log_diagonal, _ = jnp.split(evidence.variance, 2, axis=-1)
        return evidence.mean, jnp.exp(-2 * jnp.clip(log_diagonal, -LARGEST_LOG, LARGEST_LOG))

    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        x, informed = evidence.x, evidence.informed
        m = jnp.where(informed[..., None], evidence.mean, 0.0).swapaxes(1, 2)[..., None]
        C = m.shape[1]
        B = self.factor(evidence)
        root = solve_triangular(B, _eyes(B))
        L = _channels(cholesky(gp.block_covariance(self.kernels, x, informed, jnp.zeros(()))), C)
        cross = jax.vmap(lambda a, b: gp.cross_covariance(self.kernels, a, b))(x, query.x)
        cross = _channels(jnp.where(informed[:, None, :, None], cross, 0.0), C)
        W = cholesky_solve(L, cross)
        prior = jax.vmap(lambda a: gp.self_variance(self.kernels, a))(query.x)
        residual = jnp.maximum(_channels(prior, C) - jnp.sum(W * cross, axis=-2), 0.0)
        variance = residual + jnp.sum((root @ W) ** 2, axis=-2)
        mean = jnp.sum(W * m, axis=-2)
        return Law(mean.swapaxes(1, 2), jnp.maximum(variance, 1e-10).swapaxes(1, 2), self._divergence(L, B, root, m))

    def _divergence(self, L, B, root, m) -> Array:
        """½ (tr K⁻¹Σ + mᵀK⁻¹m − n + log |K| + log |Λ|), which is zero for rows that are padding."""
        trace = jnp.sum(solve_triangular(L, root.swapaxes(-1, -2)) ** 2)
        square = jnp.sum(solve_triangular(L, m) ** 2)
        size = m.size
        return 0.5 * (trace + square - size + jnp.sum(log_determinant(L)) + jnp.sum(log_determinant(B)))

    def trained(self) -> "Banded":
        learned = _which(self.kernels, self.learn_kernel), jax.tree.map(lambda _: True, self.window)
        return eqx.tree_at(lambda q: (q.kernels, q.window), self, learned)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class BandedGPVAE(GPVAE):
    """GP-VAE for time series (Fortuin et al. 2020): Cauchy kernel, and q along time with a tridiagonal precision.

    Rows of a group are a series in the order of the first input; gaps are zeros that the mask explains.
    kernel : "auto" is a Cauchy kernel with a lengthscale set from the data.
    """

    def _given_kernels(self, latent_dim: int | None = None):
        given = Cauchy() if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel
        return GPVAE._given_kernels(dataclasses.replace(self, kernel=given), latent_dim)

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        window = networks.Layer(jax.random.key(self.seed + 1), 3 * self._num_features(), 3 * self.latent_dim_)
        return Banded(self._chosen_kernels(table, latents, rng), window, self.learn_kernel)

    def _num_features(self) -> int:
        return 4 * self.latent_dim_

    def _build(self, key, table: Table, law: AbstractLaw) -> VariationalAutoencoder:
        key_encoder, key_decoder = jax.random.split(key)
        shape = self.frame_.event_shape
        encoder = networks.build_encoder(self.encoder, key_encoder, shape, self._num_features())
        decoder = networks.build_decoder(self.decoder, key_decoder, self.latent_dim_, shape)
        return VariationalAutoencoder(encoder, decoder, self.likelihood_, law)

    def _table(self, x, seen, codes, num_groups: int) -> Table:
        return _in_time(super()._table(x, seen, codes, num_groups))

    def _evidence(self, rows: Table) -> Table:
        return _in_time(super()._evidence(rows))


def _in_time(table: Table) -> Table:
    """Rows of every group in the order of the first input, padding last."""
    rows, time = np.asarray(table.group_rows), np.append(np.asarray(table.x)[:, 0], np.inf)
    order = np.argsort(time[rows], axis=1, kind="stable")
    return table._replace(group_rows=jnp.asarray(np.take_along_axis(rows, order, axis=1), jnp.int32))
