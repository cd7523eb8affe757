"""What a kernel is, and the algebra of kernels: sums, products, held values, and a choice of columns."""

import abc
import dataclasses
import functools
import numbers
from collections.abc import Iterator, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gpbae.errors import InputError
from gpbae.kernels.arrays import (
    Diagonal,
    Elementwise,
    Gram,
    Number,
    Others,
    Point,
    Points,
    Rows,
    Scalar,
    arguments,
    log_scalar,
)


class AbstractKernel(eqx.Module):
    """A covariance function; `__call__` on two points is its definition."""

    reads_labels: ClassVar[bool] = False

    @abc.abstractmethod
    def __call__(self, x: Point, y: Point) -> Scalar:
        """k(x, y)."""

    def features(self, inputs: Points) -> Float[Array, "N E"]:
        """The space in which the kernel (and inducing inputs) live: the inputs themselves, unless there are labels."""
        return inputs

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> "AbstractKernel":
        """The same kernel with every lengthscale left open set to `lengthscale_scale` times the median distance."""
        return self

    def on(self, *columns: int) -> "Select":
        """This kernel on some columns of the input only."""
        return Select(self, columns)

    def _gram(self, X: Points, Y: Others) -> Gram:
        return jax.vmap(lambda x: jax.vmap(lambda y: self(x, y))(Y))(X)

    def _diagonal(self, X: Points) -> Diagonal:
        return jax.vmap(lambda x: self(x, x))(X)

    def __add__(self, other: "AbstractKernel | Number") -> "Sum":
        return Sum((*_terms(self, Sum), *_terms(_as_kernel(other), Sum)))

    def __mul__(self, other: "AbstractKernel | Number") -> "Product":
        return Product((*_terms(self, Product), *_terms(_as_kernel(other), Product)))

    def __radd__(self, other: Number) -> "Sum":
        return _as_kernel(other) + self

    def __rmul__(self, other: Number) -> "Product":
        return _as_kernel(other) * self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(arguments(self))})"


def gram(kernel: AbstractKernel, inputs: Points, others: Others) -> Gram:
    """K with K_nm = k(x_n, y_m), for rows in the kernel's feature space."""
    return kernel._gram(inputs, others)


def diagonal(kernel: AbstractKernel, inputs: Points) -> Diagonal:
    """k(x_n, x_n), without the matrix around it."""
    return kernel._diagonal(inputs)


def parts(kernel: AbstractKernel, stop: type | tuple = ()) -> Iterator[AbstractKernel]:
    """A kernel and all kernels inside it, outermost first, without those of type `stop`."""
    if isinstance(kernel, stop):
        return
    yield kernel
    values = [getattr(kernel, field.name) for field in dataclasses.fields(kernel)]
    for part in jax.tree.leaves(values, is_leaf=lambda value: isinstance(value, AbstractKernel)):
        if isinstance(part, AbstractKernel):
            yield from parts(part, stop)


class AbstractCombination(AbstractKernel):
    """Kernels joined by an operation; a plain number stands for a constant that is not sampled."""

    terms: tuple[AbstractKernel, ...]

    def __init__(self, terms: Sequence[AbstractKernel]):
        self.terms = _without_labels(terms)

    @abc.abstractmethod
    def _join(self, left: Elementwise, right: Elementwise) -> Elementwise:
        """The operation, elementwise."""

    def __call__(self, x: Point, y: Point) -> Scalar:
        return functools.reduce(self._join, [k(x, y) for k in self.terms])

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> AbstractKernel:
        return type(self)([k.initialise(inputs, lengthscale_scale) for k in self.terms])

    def _gram(self, X: Points, Y: Others) -> Gram:
        return functools.reduce(self._join, [k._gram(X, Y) for k in self.terms])

    def _diagonal(self, X: Points) -> Diagonal:
        return functools.reduce(self._join, [k._diagonal(X) for k in self.terms])


class Sum(AbstractCombination):
    """k₁ + k₂ + …, written with `+`."""

    def _join(self, left: Elementwise, right: Elementwise) -> Elementwise:
        return left + right

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


class Product(AbstractCombination):
    """k₁ · k₂ · …, written with `*`."""

    def _join(self, left: Elementwise, right: Elementwise) -> Elementwise:
        return left * right

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self.terms)


class Constant(AbstractKernel):
    """σ² everywhere: an unknown common level."""

    log_variance: Scalar

    def __init__(self, variance: Number = 1.0):
        self.log_variance = log_scalar("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return jnp.exp(self.log_variance)


class Frozen(AbstractKernel):
    """A kernel whose hyper-parameters are held: `sampled` passes over whatever lies below a field named `frozen`."""

    frozen: AbstractKernel

    def __call__(self, x: Point, y: Point) -> Scalar:
        return self.frozen(x, y)

    def features(self, inputs: Points) -> Float[Array, "N E"]:
        return self.frozen.features(inputs)

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> AbstractKernel:
        return Frozen(self.frozen.initialise(inputs, lengthscale_scale))

    def _gram(self, X: Points, Y: Others) -> Gram:
        return self.frozen._gram(X, Y)

    def _diagonal(self, X: Points) -> Diagonal:
        return self.frozen._diagonal(X)

    def __repr__(self) -> str:
        return f"Frozen({self.frozen!r})"


class Select(AbstractKernel):
    """A kernel on some columns of the input: `RBF().on(0, 2)`."""

    kernel: AbstractKernel
    columns: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, kernel: AbstractKernel, columns: Sequence[int]):
        (self.kernel,) = _without_labels([kernel])
        self.columns = tuple(map(int, columns))
        if not self.columns:
            raise InputError("A kernel acts on at least one column, got none; name them, as in RBF().on(0, 2).")

    def __call__(self, x: Point, y: Point) -> Scalar:
        return self.kernel(x[np.array(self.columns)], y[np.array(self.columns)])

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> AbstractKernel:
        picked = np.asarray(inputs)[:, np.array(self.columns)]
        return Select(self.kernel.initialise(picked, lengthscale_scale), self.columns)

    def _pick(self, X: Points) -> Float[Array, "N S"]:
        return X[:, np.array(self.columns)]

    def _gram(self, X: Points, Y: Others) -> Gram:
        return self.kernel._gram(self._pick(X), self._pick(Y))

    def _diagonal(self, X: Points) -> Diagonal:
        return self.kernel._diagonal(self._pick(X))

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Sum | Product) else repr(self.kernel)
        return f"{inner}.on({', '.join(map(str, self.columns))})"


def _as_kernel(value: AbstractKernel | Number) -> AbstractKernel:
    if isinstance(value, AbstractKernel):
        return value
    if isinstance(value, numbers.Real) and value > 0:
        return Frozen(Constant(float(value)))
    raise InputError(f"A kernel combines with another kernel or a positive number, got {value!r}.")


def _terms(kernel: AbstractKernel, family: type[AbstractCombination]) -> tuple[AbstractKernel, ...]:
    return kernel.terms if isinstance(kernel, family) else (kernel,)


def _without_labels(kernels: Sequence[AbstractKernel]) -> tuple[AbstractKernel, ...]:
    """Labels become vectors once, at the outside, so that inducing inputs have one feature space to live in."""
    if any(part.reads_labels for k in kernels for part in parts(k)):
        raise InputError("Embed must be the outermost kernel: write Embed(a * b, ...) instead of a * Embed(b, ...).")
    return tuple(kernels)
