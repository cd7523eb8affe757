"""Labels among the inputs: a vector is learned for each, and kernels act on the vectors."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpbae.errors import InputError
from gpbae.kernels.arrays import Diagonal, Gram, Others, Point, Points, Rows, Scalar
from gpbae.kernels.base import AbstractKernel, Frozen


class Embed(AbstractKernel):
    """A kernel in whose input one column is a label 0, 1, …, replaced by a vector that is learned for each label.

    `features` turns rows into [other columns…, vector]; the inner kernel, and this one's `__call__`, act on those.
    Vectors not given start at fixed standard normal draws. A label outside the range gives NaN.
    """

    reads_labels: ClassVar[bool] = True

    kernel: AbstractKernel
    column: int = eqx.field(static=True)
    num_labels: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    vectors: Float[Array, "labels E"]

    def __init__(
        self,
        kernel: AbstractKernel,
        column: int,
        num_labels: int,
        dim: int,
        vectors: Float[Array | np.ndarray, "labels E"] | None = None,
    ):
        if vectors is None:
            vectors = np.random.default_rng(0).standard_normal((num_labels, dim))
        if vectors.shape != (num_labels, dim):
            raise InputError(f"vectors must have shape {(num_labels, dim)}, one row per label; got {vectors.shape}.")
        self.kernel, self.column, self.num_labels, self.dim = kernel, column, num_labels, dim
        self.vectors = jnp.asarray(vectors, float)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return self.kernel(x, y)

    def features(self, inputs: Points) -> Float[Array, "N E"]:
        others = np.delete(np.arange(inputs.shape[1]), self.column)
        labels = inputs[:, self.column].astype(int)
        vector = self.vectors.at[labels].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)
        return self.kernel.features(jnp.concatenate([inputs[:, others], vector], axis=1))

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> AbstractKernel:
        rows, vectors = np.asarray(inputs, float), np.asarray(self.vectors)
        labels = rows[:, self.column]
        wrong = labels[~np.isin(labels, np.arange(len(vectors)))]
        if wrong.size:
            raise InputError(
                f"Column {self.column} must hold labels 0 to {len(vectors) - 1}, got {wrong[0]:g}; "
                "number the labels from 0, leave that column unscaled, or raise num_labels."
            )
        inner = np.concatenate([np.delete(rows, self.column, axis=1), vectors[labels.astype(int)]], axis=1)
        return Embed(self.kernel.initialise(inner, lengthscale_scale), self.column, *vectors.shape, vectors=vectors)

    def _gram(self, X: Points, Y: Others) -> Gram:
        return self.kernel._gram(X, Y)

    def _diagonal(self, X: Points) -> Diagonal:
        return self.kernel._diagonal(X)

    def __repr__(self) -> str:
        return f"Embed({self.kernel!r}, column={self.column}, num_labels={self.num_labels}, dim={self.dim})"


def label_columns(kernel: AbstractKernel, num_columns: int) -> tuple[int, ...]:
    """Columns of the input that hold labels of an `Embed`, which must not be centred or scaled."""
    columns, found = list(range(num_columns)), []
    while isinstance(kernel, Embed | Frozen):
        if isinstance(kernel, Embed):
            found.append(columns.pop(kernel.column))
        kernel = kernel.kernel if isinstance(kernel, Embed) else kernel.frozen
    return tuple(found)
