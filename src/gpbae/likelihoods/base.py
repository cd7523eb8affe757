"""What a likelihood is: the distribution of a cell given the decoder's outputs that speak of it, under one mask."""

import abc
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

import gpbae.processes.runtime  # noqa: F401  (float64 before the first array)

Cells = Float[Array, "*rows P"]
Mask = Bool[Array, "*rows P"]
Outputs = Float[Array, "*rows H"]
Kind = Literal["real", "truth", "class", "count"]
"""What the cells of a column are: numbers, 0 or 1, codes of classes, whole numbers from 0."""


class AbstractLikelihood(eqx.Module):
    """Distributions of P cells given H ≥ P outputs η of the decoder; sampled leaves have names that start with `log_`.

    Outputs that speak of the same cell stand next to each other, in the order of the cells.  Everything is computed
    cell by cell, and what is hidden is selected away before any arithmetic.
    """

    @abc.abstractmethod
    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        """log p(y | η) where observed, 0 elsewhere."""

    @abc.abstractmethod
    def mean(self, eta: Outputs) -> Cells:
        """E[y | η]."""

    @abc.abstractmethod
    def variance(self, eta: Outputs) -> Cells:
        """Var[y | η]."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        """A draw of y given η."""

    @abc.abstractmethod
    def link(self, y: Cells) -> Outputs:
        """Outputs whose mean is about y: where linear maps start from."""

    @abc.abstractmethod
    def kinds(self, num_columns: int) -> tuple[Kind, ...]:
        """What each column holds; columns of real numbers are standardised before they come here."""

    @abc.abstractmethod
    def supports(self, values: np.ndarray) -> np.ndarray:
        """Which cells (…, P) may occur at all.  `log_prob` is meant for these alone and does not look: the others have
        no probability, are refused by `check` before a fit, and get a density of zero where an answer is scored."""

    @abc.abstractmethod
    def check(self, values: np.ndarray, mask: np.ndarray, names: tuple[str, ...]) -> None:
        """Refuse cells that this likelihood gives no probability, in one sentence that names the column."""

    @abc.abstractmethod
    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "AbstractLikelihood":
        """The same likelihood with leaves shaped for, and constants taken from, the table at hand."""

    def sampled(self) -> Any:
        """A pytree of booleans: the leaves inferred along with everything else."""
        return jax.tree.map(lambda _: False, self)

    def natural(self) -> Any:
        """The same tree with leaves on the scale on which they are shown."""
        return jax.tree.map(jnp.exp, self)

    def owners(self, num_columns: int) -> np.ndarray:
        """The column that each output speaks of, in order."""
        return np.arange(num_columns)

    def expose(self, eta: Outputs, y: Cells, mask: Mask) -> Outputs:
        """η of rows some of whose cells are known, where the size of a row is taken from those cells."""
        return eta

    def features(self, y: Cells, mask: Mask) -> tuple[Outputs, Bool[Array, "*rows H"]]:
        """The table as an encoder, and principal components, should see it: on a scale where distances mean something.

        Hidden cells are zeros; the mask says which of the features are known.
        """
        return jnp.where(mask, y, jnp.zeros_like(y)), mask


def like(leaf: Array, cells: Array) -> Array:
    """A parameter of all columns or of each, as an array of the cells' shape and type."""
    return jnp.broadcast_to(leaf.astype(cells.dtype), cells.shape)


def column_means(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Mean of the observed cells of each column, NaN where there are none."""
    count = mask.sum(axis=0)
    total = np.where(mask, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def first_bad(good: np.ndarray, mask: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first observed cell that is not good."""
    bad = np.argwhere(mask & ~good)
    return (int(bad[0, 0]), int(bad[0, 1])) if len(bad) else None


def hyper_log_prior(likelihood: AbstractLikelihood, reference: AbstractLikelihood, scale: float = 1.0) -> Array:
    """Σ log N(log leaf; its starting value, scale²) over the sampled leaves: log-normal on the natural scale."""
    sampled = eqx.filter(likelihood, reference.sampled())
    centre = eqx.filter(reference, reference.sampled())
    terms = jax.tree.map(lambda a, b: jnp.sum(norm.logpdf(a, b, jnp.full_like(a, scale))), sampled, centre)
    return sum(jax.tree.leaves(terms), jnp.zeros(()))
