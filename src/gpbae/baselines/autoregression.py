"""GPAR: Gaussian processes in a row, each with the outputs before it among its inputs (Requeima et al. 2019)."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from gpbae.baselines import regression
from gpbae.baselines.base import normal_scores
from gpbae.baselines.mixtures import Drawn
from gpbae.baselines.regression import GaussianProcesses, Regression, blocked, columns, unblocked
from gpbae.errors import InputError
from gpbae.kernels import RBF, AbstractKernel, Linear, Select
from gpbae.sampling.batches import Table
from gpbae.tabular import tables


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class GPAR(GaussianProcesses):
    """yᵖ = fᵖ(x, y¹, …, yᵖ⁻¹) + noise, fᵖ ~ GP(0, k(x, x′) + k′(y¹…ᵖ⁻¹, y′¹…ᵖ⁻¹)), columns by share of known cells.

    A missing output among the inputs is at its predictive mean while fitting and a draw of it when answering.

    kernel : over the inputs, a value of `gpbae.kernels` or "auto", an RBF with a lengthscale per input.
    linear, nonlinear : how an output depends on those before it: a linear kernel, an RBF, or their sum.
    denoise : earlier outputs enter as their latent functions, without the noise of their cells.
    noise : where the noise's standard deviation starts, in units of the standardised column.
    num_steps : most iterations of L-BFGS per column.
    """

    linear: bool = False
    nonlinear: bool = True
    denoise: bool = False
    noise: float = 0.1

    def _check(self) -> None:
        super()._check()
        if not (self.linear or self.nonlinear):
            raise InputError(
                "GPAR needs linear=True or nonlinear=True; with neither, columns are independent: use IGP."
            )

    def _train(self, table: Table, say) -> None:
        regression.check_size(self, table)
        known = np.asarray(table.mask).sum(axis=0)
        self.order_ = np.argsort(-known, kind="stable")
        chain = _Conditioning(table, self.order_, self.denoise)
        fitted = []
        for p in range(len(self.order_)):
            model = Regression(self._kernel(chain, p), jnp.log(jnp.asarray(float(self.noise))))
            fitted.append(regression.maximise(model, *chain.data(p), self.num_steps))
            chain.learn(fitted[-1], p)
            say({"phase": "columns", "done": p + 1, "total": len(self.order_)})
        self.models_ = tuple(fitted)
        back = np.argsort(self.order_)
        self.likelihood_ = regression.noisy(tuple(fitted[i] for i in back))

    def _kernel(self, chain: "_Conditioning", p: int) -> AbstractKernel:
        given = RBF() if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel
        if not isinstance(given, AbstractKernel):
            raise InputError(f"kernel must be 'auto' or a value of gpbae.kernels; got {self.kernel!r}.")
        D, P = chain.x.shape[1], len(self.order_)
        seen = chain.mask[:, self.order_[p]]
        start = given.initialise(chain.x) if not seen.any() else regression.starting_kernel(
            given, chain.x[seen], chain.y[seen, self.order_[p]], chain.group[seen], self.seed)  # fmt: skip
        total: AbstractKernel = Select(start, range(D))
        if p > 0:  # outputs not yet reached are zero in every row, so they do not matter
            earlier = range(D, D + P)
            total = total + Select(RBF(lengthscale=np.ones(P)), earlier) if self.nonlinear else total
            total = total + Select(Linear(), earlier) if self.linear else total
        return total

    def _drawn(self, rows: Table, num_draws: int) -> Drawn:
        """Draws along the row of outputs, each fed to those after it; observed cells enter as they are."""
        evidence = self._evidence(rows)
        chain = _Conditioning(evidence, self.order_, self.denoise)
        asked = tables.arrange(np.asarray(rows.group), chain.blocks.shape[0])
        S, (N, P) = num_draws, rows.y.shape
        scores, noises = normal_scores(S, (N, P), self.seed), normal_scores(S, (N, P), self.seed + 2**16)
        inputs = np.zeros((S, N, P))
        eta, means, sds = np.empty((3, S, N, P))
        y, mask = np.asarray(rows.y, np.float64), np.asarray(rows.mask)
        for p, (column, model) in enumerate(zip(self.order_, self.models_, strict=True)):
            mean, sd = self._moments(chain, model, p, np.asarray(rows.x), inputs, asked)
            means[:, :, column], sds[:, :, column] = mean, sd
            eta[:, :, column] = mean + sd * scores[:, :, column]
            noise = 0.0 if self.denoise else float(np.sqrt(model.variance)) * noises[:, :, column]
            drawn = eta[:, :, column] + noise
            enters = mean if self.denoise else np.broadcast_to(y[:, column], (S, N))
            inputs[:, :, column] = np.where(mask[:, column], enters, drawn)
            chain.learn(model, p)
        return Drawn(eta, means, sds)

    def _moments(self, chain, model, p, x, inputs, asked) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the p-th latent function at every row of every draw, (S, N) each."""
        S, N, P = inputs.shape
        if p == 0:
            mean, variance = regression.marginals(model, *chain.data(0), blocked(chain.pad(x, np.zeros((N, P))), asked))
            mean, variance = unblocked(mean, asked, N)[None], unblocked(variance, asked, N)[None]
            return np.repeat(mean, S, axis=0), np.sqrt(np.repeat(variance, S, axis=0))
        queries = np.stack([blocked(chain.pad(x, inputs[s]), asked) for s in range(S)])
        G, q = asked.shape
        flat = np.moveaxis(queries, 0, 1).reshape(G, S * q, -1)
        found = [a.reshape(G, S, q) for a in regression.marginals(model, *chain.data(p), flat)]
        mean, variance = (np.stack([unblocked(a[:, s], asked, N) for s in range(S)]) for a in found)
        return mean, np.sqrt(variance)


class _Conditioning:
    """The rows conditioned on, with earlier outputs filled in as columns are worked through."""

    def __init__(self, table: Table, order: np.ndarray, denoise: bool):
        _, self.y, self.mask, self.blocks, self.inside = columns(table)
        self.x, self.group, self.order, self.denoise = np.asarray(table.x), np.asarray(table.group), order, denoise
        self.inputs: Float[np.ndarray, "N P"] = np.zeros(self.y.shape)

    def pad(self, x: np.ndarray, outputs: Float[np.ndarray, "N P"]) -> np.ndarray:
        return np.concatenate([x, outputs], axis=1)

    def data(self, p: int):
        """Inputs, which are known, and cells of the p-th output, by group."""
        column = self.order[p]
        known: Bool[np.ndarray, "G n"] = self.inside & blocked(self.mask[:, column], self.blocks)
        x = blocked(self.pad(self.x, self.inputs), self.blocks)
        return jnp.asarray(x), jnp.asarray(known), jnp.asarray(blocked(self.y[:, column], self.blocks))

    def learn(self, model: Regression, p: int) -> None:
        """Fill the p-th output in, for the outputs after it."""
        column, (x, known, y) = self.order[p], self.data(p)
        mean, _ = regression.marginals(model, x, known, y, np.asarray(x))
        filled = unblocked(mean, self.blocks, len(self.x))
        seen = self.mask[:, column] & (not self.denoise)
        self.inputs[:, column] = np.where(seen, self.y[:, column], filled)
