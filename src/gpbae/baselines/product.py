"""GPPVAE (Casale et al. 2018): latents from a low-rank Gaussian process over objects × views, plus noise."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gpbae import gp
from gpbae.baselines.autoencoders import SGPVAE
from gpbae.baselines.latents import (
    AbstractLaw,
    Evidence,
    Law,
    _channels,
    _eyes,
    _which,
    pseudo_observations,
    sparse_marginals,
)
from gpbae.baselines.variational import VariationalAutoencoder, train
from gpbae.errors import InputError
from gpbae.gp import Kernels
from gpbae.kernels import Embed, label_columns
from gpbae.linalg import solve_triangular
from gpbae.sampling.batches import Batching, FullBatch, RowBatch, Table

LARGEST_GRID = 512


class LowRank(AbstractLaw):
    """Prior N(0, K) with K = AᵀA + diag(residual) + α², one kernel for all channels; q is the encoder's own normal, row
    by row.

    KL(q ‖ p) = −Σ log N(μ; 0, K) + ½ Σ (K⁻¹)ₙₙ σₙ² − ½ Σ log 2πe σₙ², by Woodbury in O(N M²).
    """

    couples_rows = False

    kernels: Kernels
    inducing: Float[Array, "M E"]
    log_noise: Float[Array, ""]
    learn_kernel: bool = eqx.field(static=True)

    def _values(self, evidence: Evidence):
        G, n, C = evidence.mean.shape
        projection = gp.sparse_projection(self.kernels, _flat(evidence.x), self.inducing)
        told = evidence.informed.reshape(-1)
        blocks = jnp.where(told, jnp.arange(G * n), G * n).reshape(G, n)
        mean = jnp.where(told[:, None], evidence.mean.reshape(G * n, C), 0.0)
        return projection, gp.values_posterior(projection, mean, jnp.exp(2 * self.log_noise), blocks)

    def at(self, evidence: Evidence, query: Evidence, scale: Array) -> Law:
        """Rows with something observed have the encoder's law; others follow from the process.

        Var z* = E_q Var[z* | z] + Var_q E[z* | z], the second being Σₙ sₙ² (bᵀ Λ⁻¹ aₙ / ownₙ)².
        """
        projection, law = self._values(evidence)
        root = solve_triangular(law.factor, _eyes(law.factor))
        C = evidence.mean.shape[-1]
        mean, variance = sparse_marginals(self.kernels, self.inducing, query.x, law.mean, _channels(root, C))
        variance = variance + jnp.exp(2 * self.log_noise) + self._of_encoder(evidence, query, projection, root)
        told = query.informed[..., None]
        found = self._divergence(evidence, projection, law, root)
        return Law(jnp.where(told, query.mean, mean), jnp.where(told, query.variance, variance), found)

    def divergence(self, evidence: Evidence) -> Array:
        """KL(q ‖ p) alone."""
        projection, law = self._values(evidence)
        return self._divergence(evidence, projection, law, solve_triangular(law.factor, _eyes(law.factor)))

    def _of_encoder(self, evidence: Evidence, query: Evidence, projection, root) -> Float[Array, "G q C"]:
        """Var_q E[z* | z]: what the encoder does not know of the rows conditioned on."""
        A, own = self._by_group(evidence, projection)
        B, _ = self._by_group(query, gp.sparse_projection(self.kernels, _flat(query.x), self.inducing))
        gain = jnp.swapaxes(root @ B, -1, -2) @ (root @ A) / own[:, :, None]
        return gain[:, 0] ** 2 @ jnp.where(evidence.informed[..., None], evidence.variance, 0.0)

    def _by_group(self, rows: Evidence, projection) -> tuple[Float[Array, "G k M n"], Float[Array, "G k n"]]:
        """Weights of every row, and the variance that is its own: residual + α²."""
        G, n = rows.informed.shape
        k, M = projection.weights.shape[:2]
        A = jnp.moveaxis(projection.weights.reshape(k, M, G, n), 2, 0)
        return A, jnp.moveaxis(projection.residual.reshape(k, G, n), 1, 0) + jnp.exp(2 * self.log_noise)

    def _divergence(self, evidence: Evidence, projection, law, root) -> Array:
        A, own = self._by_group(evidence, projection)
        precision = 1 / own - jnp.sum((root @ A) ** 2, axis=-2) / own**2
        told = evidence.informed[..., None]
        s2 = jnp.where(told, evidence.variance, 1.0)
        trace = 0.5 * jnp.sum(jnp.where(told, s2 * jnp.swapaxes(precision, 1, 2), 0.0))
        entropy = 0.5 * jnp.sum(jnp.where(told, jnp.log(2 * jnp.pi * jnp.e * s2), 0.0))
        return trace - entropy - law.log_marginal

    def trained(self) -> "LowRank":
        learned = _which(self.kernels, self.learn_kernel), False, True
        return eqx.tree_at(lambda q: (q.kernels, q.inducing, q.log_noise), self, learned)


def _flat(rows: Float[Array, "G n D"]) -> Float[Array, "_ D"]:
    return rows.reshape(-1, rows.shape[-1])


class Memory(NamedTuple):
    """What the encoder last said of every row."""

    mean: Float[Array, "N C"]
    variance: Float[Array, "N C"]


def recalled(memory: Memory, fresh: Memory, rows: Int[Array, " B"], scale: Array) -> Memory:
    """The table as last encoded, the batch's rows as now.

    Their gradients count N/B times, and as often as a row was drawn: so they are those of the whole table on average.
    """

    def written(old, new):
        value = jax.lax.stop_gradient(new)
        return old.at[rows].set(value) + jnp.zeros_like(old).at[rows].add(scale * (new - value))

    return jax.tree.map(written, memory, fresh)


def remembered_divergence(latents: LowRank, table: Table, memory: Memory) -> Array:
    """KL(q ‖ p) of all rows as remembered."""
    blocks = table.group_rows
    informed = gp.gather(jnp.any(table.mask, axis=1), blocks)
    spread = jnp.where(informed[..., None], gp.gather(memory.variance, blocks), 1.0)
    return latents.divergence(Evidence(gp.gather(table.x, blocks), informed, gp.gather(memory.mean, blocks), spread))


def remembered_bound(model: VariationalAutoencoder, table: Table, batching: Batching, memory: Memory, key):
    """The bound with the rows outside the batch as they were last encoded, so that the prior sees the whole table."""
    key_rows, key_latents = jax.random.split(key)
    selection = batching.select(key_rows, table)
    batch = batching.batch(table, selection)
    mean, variance = pseudo_observations(model.outputs(batch.x, batch.y, batch.mask))
    z = mean + jnp.sqrt(variance) * jax.random.normal(key_latents, mean.shape, mean.dtype)
    whole = recalled(memory, Memory(mean, variance), selection.rows, batch.scale)
    loss = remembered_divergence(model.latents, table, whole) - batch.scale * model.log_likelihood(z, batch)
    return loss / table.x.shape[0], jax.lax.stop_gradient(whole)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class GPPVAE(SGPVAE):
    """VAE with a Gaussian process over objects × views as latent prior (Casale et al. 2018).

    kernel : with `Embed` outermost, a product of a kernel on the views and a linear one on the objects' vectors: its
        low-rank form is then exact on all views × a basis of the vectors; else num_inducing inputs approximate it.
        One for all latents.
    latent_noise : where the standard deviation of the latents' own noise starts.
    """

    batch_size: int | None = 256
    latent_noise: float = 0.3

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        found = self._chosen_kernels(table, latents, rng)
        if len(found) != 1:
            raise InputError(
                f"GPPVAE has one kernel for all latents; got {len(found)}. Pass one, or use SGPVAE, which takes a list."
            )
        noise = jnp.log(jnp.asarray(float(self.latent_noise)))
        return LowRank(found, self._inducing(found[0], table, rng), noise, self.learn_kernel)

    def _inducing(self, kernel, table: Table, rng):
        if not isinstance(kernel, Embed):
            return super()._inducing(kernel, table, rng)
        views = np.unique(np.delete(np.asarray(table.x), kernel.column, axis=1), axis=0)
        if len(views) * kernel.dim > LARGEST_GRID or not _is_linear_in_vectors(kernel, views[0]):
            return super()._inducing(kernel, table, rng)
        grid = [np.concatenate([view, basis]) for view in views for basis in np.eye(kernel.dim)]
        return jnp.asarray(np.stack(grid))

    def _batching(self, law, table: Table) -> Batching:
        whole = self.batch_size is None or self.batch_size >= table.x.shape[0]
        return FullBatch() if whole else RowBatch(int(self.batch_size))

    def _optimise(self, model, table: Table, batching: Batching, key, say) -> None:
        memory = Memory(*_encoded(model, table))
        self.model_, _ = train(model, table, batching, remembered_bound, self.num_steps, self.learning_rate, key, say,
                               memory, self._show)  # fmt: skip


def _is_linear_in_vectors(kernel: Embed, view: np.ndarray) -> bool:
    """Whether k((x, v), ·) is linear in v: views × a basis of the vectors then carry the whole process."""
    if len(label_columns(kernel, len(view) + 1)) > 1:
        return False
    v, w, other = np.random.default_rng(0).standard_normal((3, kernel.dim))
    point = lambda vector: jnp.asarray(np.concatenate([view, vector]))  # noqa: E731
    k = lambda vector: float(kernel(point(vector), point(other)))  # noqa: E731
    return bool(np.isclose(k(v + 2 * w), k(v) + 2 * k(w), rtol=1e-6))


@eqx.filter_jit
def _encoded(model: VariationalAutoencoder, table: Table) -> tuple[Array, Array]:
    return pseudo_observations(model.outputs(table.x, table.y, table.mask))
