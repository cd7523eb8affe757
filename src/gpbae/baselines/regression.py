"""Independent Gaussian processes, one per column, with hyper-parameters at the maximum of the marginal likelihood."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from gpbae import gp, kernels, likelihoods
from gpbae.answering.predictive import Predictive
from gpbae.baselines.base import Baseline, normal_scores
from gpbae.baselines.mixtures import Drawn, MixturePredictive, widened
from gpbae.errors import InputError
from gpbae.kernels import RBF, AbstractKernel
from gpbae.linalg import cholesky
from gpbae.sampling import start
from gpbae.sampling.batches import Table
from gpbae.tabular import tables

LARGEST_GROUP = 4000
SMALLEST_NOISE = 1e-3
NUM_QUERIES = 4000


class Regression(eqx.Module):
    """y = f(x) + noise · ξ with f ~ GP(0, k), one independent draw of f per group."""

    kernel: AbstractKernel
    log_noise: Float[Array, ""]

    @property
    def variance(self) -> Array:
        """Of the noise; a floor keeps the covariance of noiseless columns invertible."""
        return SMALLEST_NOISE**2 + jnp.exp(2 * self.log_noise)

    def log_marginal(self, x: Float[Array, "G n D"], valid: Bool[Array, "G n"], y: Float[Array, "G n"]) -> Array:
        """log N(y; 0, K + σ²I), over the valid rows of every group."""
        factor = cholesky(gp.block_covariance((self.kernel,), x, valid, self.variance))
        return gp.exact_log_density(factor, y[..., None], valid)


@eqx.filter_jit
def _value_and_gradient(vector, unravel, static, x, valid, y):
    loss = lambda v: -eqx.combine(unravel(v), static).log_marginal(x, valid, y)  # noqa: E731
    return jax.value_and_grad(loss)(vector)


def maximise(model: Regression, x: Array, valid: Array, y: Array, num_steps: int) -> Regression:
    """Hyper-parameters at a maximum of the marginal likelihood: L-BFGS from where the model stands."""
    if num_steps == 0:
        return model
    free = eqx.tree_at(lambda m: (m.kernel, m.log_noise), model, (kernels.sampled(model.kernel), True))
    moving, static = eqx.partition(model, free)
    vector, unravel = ravel_pytree(moving)

    def loss(v):
        value, gradient = _value_and_gradient(jnp.asarray(v), unravel, static, x, valid, y)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e25, np.zeros_like(v)
        return float(value), np.asarray(gradient)

    import scipy.optimize  # other models need not wait for it

    bounds = [(v - 8.0, v + 8.0) for v in np.asarray(vector)]  # factors of e⁸ either way
    found = scipy.optimize.minimize(loss, np.asarray(vector), jac=True, method="L-BFGS-B", bounds=bounds,
                                    options={"maxiter": num_steps})  # fmt: skip
    return eqx.combine(unravel(jnp.asarray(found.x)), static)


@eqx.filter_jit
def _marginals(model: Regression, x, valid, y, query):
    mean, variance = gp.exact_marginals((model.kernel,), (x, valid, y[..., None]), query, model.variance)
    return mean[..., 0], variance[:, 0]


def marginals(model: Regression, x, valid, y, query: Float[np.ndarray, "G q D"]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at the query, (G, q) each, a bounded number of them at a time."""
    size = max(1, NUM_QUERIES // query.shape[0])
    parts = [_marginals(model, x, valid, y, jnp.asarray(query[:, i : i + size]))
             for i in range(0, query.shape[1], size)]  # fmt: skip
    mean, variance = (np.concatenate([np.asarray(p[j]) for p in parts], axis=1) for j in (0, 1))
    return mean, variance


def blocked(rows: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Rows arranged by group; padding repeats the last row."""
    return np.asarray(rows)[np.minimum(blocks, len(rows) - 1)]


def unblocked(values: Float[np.ndarray, "G q"], blocks: np.ndarray, num_rows: int) -> np.ndarray:
    """Back to one per row."""
    out = np.empty(num_rows)
    out[blocks[blocks < num_rows]] = values[blocks < num_rows]
    return out


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcesses(Baseline):
    """Regressions on columns of numbers; an answer is a mixture of normals, one for each draw of what they are given.

    kernel : a value of `gpbae.kernels` or "auto", an RBF with a lengthscale per input.
    noise : where the noise's standard deviation starts, in units of the standardised column.
    num_steps : most iterations of L-BFGS per column.
    """

    kernel: Any = "auto"
    noise: float = 0.3
    num_steps: int = 200

    def _likelihood(self, seen):
        codings = seen.frame.codings or ()
        names = [str(n) for n, c in zip(seen.frame.names(), codings, strict=False) if c.holds in ("labels", "truth")]
        if names:
            raise InputError(
                f"{type(self).__name__} regresses on numbers; columns of labels, and of yes and no, need another "
                f"likelihood: {', '.join(names[:8])}. Leave such columns out, or use SGPBAE."
            )
        return likelihoods.Gaussian(noise=self.noise, per_column=True)

    def _drawn(self, rows: Table, num_draws: int) -> Drawn:
        raise NotImplementedError

    def _answer(self, rows: Table, index: Any, num_draws: int) -> Predictive:
        found = self._drawn(rows, num_draws)
        answer = self._predictive(found.eta, index, kind=MixturePredictive)
        answer.components = self._predictive(found.mean, index, widened(self.likelihood_, found.sd))
        return answer


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class IGP(GaussianProcesses):
    """Exact Gaussian-process regression of every column on its own: correlations between columns are not modelled.

    kernel : a value of `gpbae.kernels` or "auto", an RBF with a lengthscale per input.
    noise : where the noise's standard deviation starts, in units of the standardised column.
    num_steps : most iterations of L-BFGS per column.
    """

    def _train(self, table: Table, say) -> None:
        check_size(self, table)
        x, y, mask, blocks, inside = columns(table)
        fitted = []
        for p in range(y.shape[1]):
            model = Regression(self._starting_kernel(table, p), jnp.log(jnp.asarray(float(self.noise))))
            known = jnp.asarray(inside & blocked(mask[:, p], blocks))
            values = jnp.asarray(blocked(y[:, p], blocks))
            fitted.append(maximise(model, x, known, values, self.num_steps))
            say({"phase": "columns", "done": p + 1, "total": y.shape[1]})
        self.models_ = tuple(fitted)
        self.likelihood_ = noisy(self.models_)

    def _starting_kernel(self, table: Table, column: int) -> AbstractKernel:
        given = RBF() if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel
        if not isinstance(given, AbstractKernel):
            raise InputError(f"kernel must be 'auto' or a value of gpbae.kernels; got {self.kernel!r}.")
        seen = np.asarray(table.mask[:, column])
        if not seen.any():
            return given.initialise(np.asarray(table.x))
        return starting_kernel(given, np.asarray(table.x)[seen], np.asarray(table.y, float)[seen, column],
                               np.asarray(table.group)[seen], self.seed)  # fmt: skip

    def _drawn(self, rows: Table, num_draws: int) -> Drawn:
        x, y, mask, blocks, inside = columns(self._evidence(rows))
        asked = tables.arrange(np.asarray(rows.group), blocks.shape[0])
        query = blocked(np.asarray(rows.x), asked)
        shape = tuple(rows.y.shape)
        mean, sd = np.empty(shape), np.empty(shape)
        for p, model in enumerate(self.models_):
            known = jnp.asarray(inside & blocked(mask[:, p], blocks))
            m, v = marginals(model, x, known, jnp.asarray(blocked(y[:, p], blocks)), query)
            mean[:, p], sd[:, p] = unblocked(m, asked, shape[0]), np.sqrt(unblocked(v, asked, shape[0]))
        eta = mean + sd * normal_scores(num_draws, shape, self.seed)
        return Drawn(eta, mean[None], sd[None])


def columns(table: Table) -> tuple[Array, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs by group, cells, mask, rows of each group, and which of those are not padding."""
    blocks = np.asarray(table.group_rows)
    x = jnp.asarray(blocked(np.asarray(table.x), blocks))
    return x, np.asarray(table.y, np.float64), np.asarray(table.mask), blocks, blocks < table.x.shape[0]


def starting_kernel(given: AbstractKernel, x, y, codes, seed: int) -> AbstractKernel:
    """Open lengthscales where they explain this column best."""
    codes = np.unique(codes, return_inverse=True)[1]
    return start.choose_lengthscale(given, x, y[:, None], codes, np.random.default_rng(seed))


def noisy(models: tuple[Regression, ...]) -> likelihoods.Gaussian:
    """The noise of every column as one likelihood."""
    noise = jnp.stack([0.5 * jnp.log(m.variance) for m in models])
    return eqx.tree_at(lambda g: g.log_noise, likelihoods.Gaussian(per_column=True), noise)


def check_size(estimator: Baseline, table: Table) -> None:
    if table.group_rows.shape[1] > LARGEST_GROUP:
        raise InputError(
            f"{type(estimator).__name__} factorises the covariance of all rows of a group, at most {LARGEST_GROUP}; "
            f"got {table.group_rows.shape[1]}. Use SGPVAE or SGPBAE, which are sparse."
        )
