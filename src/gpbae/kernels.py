"""Covariance functions: frozen pytrees on an unconstrained scale, combined with +, * and wrappers.

    RBF(lengthscale=0.2)                      one lengthscale; a sequence gives one per column, None sets it from data
    Periodic(period=24.0).on(0) * RBF().on(1, 2)
    Embed(Periodic(period=360.0).on(0) * Linear().on(1, 2, 3), column=1, num_labels=400, dim=3)

Leaves whose name starts with `log_`, and learned `vectors`, are sampled; every other array is a constant.
To add a kernel, write `__call__` on two points and a row in tests/test_kernels.py; the fast forms are optional.
"""

import abc
import collections
import dataclasses
import functools
import numbers
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.stats import norm
from jax.tree_util import GetAttrKey, tree_map_with_path
from jaxtyping import Array, Float, PyTree, Real

from gpbae import linalg
from gpbae.errors import InputError

Scalar = Float[Array, ""]
Point = Float[Array, " D"]
Points = Float[Array, "N D"]
Others = Float[Array, "M D"]
Gram = Float[Array, "N M"]
Diagonal = Float[Array, " N"]
Elementwise = Float[Array, "*shape"]
Rows = Real[Array | np.ndarray, "N D"]
Number = float | int | np.floating
Positive = Number | Sequence[Number] | np.ndarray

NUM_MEDIAN_ROWS = 1000


class AbstractKernel(eqx.Module):
    """A covariance function; `__call__` on two points is its definition."""

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
        return f"{type(self).__name__}({', '.join(_arguments(self))})"


def gram(kernel: AbstractKernel, inputs: Points, others: Others) -> Gram:
    """K with K_nm = k(x_n, y_m), for rows in the kernel's feature space."""
    return kernel._gram(inputs, others)


def diagonal(kernel: AbstractKernel, inputs: Points) -> Diagonal:
    """k(x_n, x_n), without the matrix around it."""
    return kernel._diagonal(inputs)


# Stationary kernels: σ² ρ(r²), r² = ‖(x − y)/ℓ‖²


@jax.custom_jvp
def squared_distances(X: Points, Y: Others) -> Gram:
    """‖x_n − y_m‖² from differences: exactly zero for equal rows, however short the lengthscale that divides them."""
    return jnp.sum((X[:, None, :] - Y[None, :, :]) ** 2, axis=-1)


@squared_distances.defjvp
def _squared_distances_jvp(primals, tangents):
    """2 (x − y)ᵀ(dx − dy) as matrix products, about a common centre to limit cancellation."""
    (X, Y), (dX, dY) = primals, tangents
    centre = jax.lax.stop_gradient(jnp.mean(Y, axis=0, keepdims=True))
    A, B = X - centre, Y - centre
    own = jnp.sum(A * dX, axis=1)[:, None] + jnp.sum(B * dY, axis=1)[None, :]
    return squared_distances(X, Y), 2.0 * (own - dX @ B.T - A @ dY.T)


class AbstractStationary(AbstractKernel):
    """k(x, y) = σ² ρ(‖(x − y)/ℓ‖²), with one lengthscale ℓ or one per column."""

    log_lengthscale: Float[Array, " L"] | None
    log_variance: Scalar

    def __init__(self, lengthscale: Positive | None = None, variance: Number = 1.0):
        self.log_lengthscale = None if lengthscale is None else _log_vector("lengthscale", lengthscale)
        self.log_variance = _log_scalar("variance", variance)

    @abc.abstractmethod
    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        """ρ(r²), elementwise; ρ(0) = 1."""

    def __call__(self, x: Point, y: Point) -> Scalar:
        r = (x - y) / _lengthscale(self)
        return jnp.exp(self.log_variance) * self.correlation(r @ r)

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> AbstractKernel:
        return _fill_lengthscale(self, lengthscale_scale * median_distance(np.asarray(inputs)))

    def _gram(self, X: Points, Y: Others) -> Gram:
        lengthscale = _lengthscale(self)[None, :]
        return jnp.exp(self.log_variance) * self.correlation(squared_distances(X / lengthscale, Y / lengthscale))

    def _diagonal(self, X: Points) -> Diagonal:
        return jnp.full(len(X), jnp.exp(self.log_variance))


class RBF(AbstractStationary):
    """Squared exponential, σ² exp(−½ r²)."""

    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        return jnp.exp(-0.5 * squared_distance)


class Matern12(AbstractStationary):
    """Matérn ν = ½ (exponential, Ornstein–Uhlenbeck), σ² exp(−r)."""

    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        return _matern12(squared_distance)


class Matern32(AbstractStationary):
    """Matérn ν = 3/2, σ² (1 + s) exp(−s) with s = √3 r."""

    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        return _matern32(3.0 * squared_distance)


class Matern52(AbstractStationary):
    """Matérn ν = 5/2, σ² (1 + s + s²/3) exp(−s) with s = √5 r."""

    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        return _matern52(5.0 * squared_distance)


class Cauchy(AbstractStationary):
    """σ² / (1 + r²)."""

    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        return 1.0 / (1.0 + squared_distance)


class RationalQuadratic(AbstractStationary):
    """σ² (1 + r²/(2α))^(−α): a mixture of RBFs over lengthscales; α → ∞ is the RBF."""

    log_mixture: Scalar

    def __init__(self, lengthscale: Positive | None = None, variance: Number = 1.0, mixture: Number = 1.0):
        self.log_lengthscale = None if lengthscale is None else _log_vector("lengthscale", lengthscale)
        self.log_variance = _log_scalar("variance", variance)
        self.log_mixture = _log_scalar("mixture", mixture)

    def correlation(self, squared_distance: Elementwise) -> Elementwise:
        alpha = jnp.exp(self.log_mixture)
        return jnp.exp(-alpha * jnp.log1p(squared_distance / (2.0 * alpha)))


def _matern12(u: Elementwise) -> Elementwise:
    """exp(−√u), with zero for the derivative at the kink u = 0, where the one in x is zero by symmetry."""
    positive = u > 0.0
    return jnp.exp(-jnp.where(positive, jnp.sqrt(jnp.where(positive, u, 1.0)), 0.0))


@jax.custom_jvp
def _matern32(u: Elementwise) -> Elementwise:
    """(1 + √u) exp(−√u), whose derivative −½ exp(−√u) is finite at 0, where that of √u is not."""
    s = jnp.sqrt(u)
    return (1.0 + s) * jnp.exp(-s)


@_matern32.defjvp
def _matern32_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return _matern32(u), -0.5 * _matern12(u) * du


@jax.custom_jvp
def _matern52(u: Elementwise) -> Elementwise:
    """(1 + √u + u/3) exp(−√u), whose derivative is −(1 + √u) exp(−√u)/6."""
    s = jnp.sqrt(u)
    return (1.0 + s + u / 3.0) * jnp.exp(-s)


@_matern52.defjvp
def _matern52_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return _matern52(u), -_matern32(u) / 6.0 * du


class Periodic(AbstractKernel):
    """σ² exp(−2 Σ_d sin²(π (x_d − y_d)/p_d)/ℓ_d²): an RBF between points on circles of circumference p.

    The lengthscale is measured on a unit circle. The period is held unless `learn_period`.
    """

    log_lengthscale: Float[Array, " L"] | None
    log_variance: Scalar
    period: Float[Array, " Q"] | None
    log_period: Float[Array, " Q"] | None

    def __init__(
        self, period: Positive, lengthscale: Positive | None = None, variance: Number = 1.0, learn_period: bool = False
    ):
        self.log_lengthscale = None if lengthscale is None else _log_vector("lengthscale", lengthscale)
        self.log_variance = _log_scalar("variance", variance)
        self.log_period = _log_vector("period", period) if learn_period else None
        self.period = None if learn_period else _positive_vector("period", period)

    def __call__(self, x: Point, y: Point) -> Scalar:
        s = jnp.sin(jnp.pi * (x - y) / self._period()) / _lengthscale(self)
        return jnp.exp(self.log_variance - 2.0 * (s @ s))

    def initialise(self, inputs: Rows, lengthscale_scale: float = 1.0) -> AbstractKernel:
        angle = np.pi * np.asarray(inputs) / np.asarray(self._period())
        distance = median_distance(angle, lambda difference: 2.0 * np.abs(np.sin(difference)))
        return _fill_lengthscale(self, lengthscale_scale * distance)

    def _period(self) -> Float[Array, " Q"]:
        learned = self.log_period is not None
        return jnp.exp(self.log_period) if learned else self.period  # pyright: ignore[reportArgumentType, reportReturnType]

    def _circles(self, X: Float[Array, "N D"]) -> Float[Array, "N 2*D"]:
        angle, lengthscale = 2.0 * jnp.pi * X / self._period()[None, :], _lengthscale(self)[None, :]
        return jnp.concatenate([jnp.cos(angle) / lengthscale, jnp.sin(angle) / lengthscale], axis=1)

    def _gram(self, X: Points, Y: Others) -> Gram:
        return jnp.exp(self.log_variance - 0.5 * squared_distances(self._circles(X), self._circles(Y)))

    def _diagonal(self, X: Points) -> Diagonal:
        return jnp.full(len(X), jnp.exp(self.log_variance))


# Kernels of finite rank, and noise


class Linear(AbstractKernel):
    """Σ_d σ_d² x_d y_d, with one variance or one per column."""

    log_variance: Float[Array, " L"]

    def __init__(self, variance: Positive = 1.0):
        self.log_variance = _log_vector("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return (x * jnp.exp(self.log_variance)) @ y

    def _gram(self, X: Points, Y: Others) -> Gram:
        return (X * jnp.exp(self.log_variance)[None, :]) @ Y.T


class Polynomial(AbstractKernel):
    """σ² (xᵀy + c)^degree."""

    degree: int = eqx.field(static=True)
    log_offset: Scalar
    log_variance: Scalar

    def __init__(self, degree: int, offset: Number = 1.0, variance: Number = 1.0):
        if degree < 1:
            raise InputError(f"degree must be a positive whole number, got {degree}; Constant() is degree 0.")
        self.degree = degree
        self.log_offset = _log_scalar("offset", offset)
        self.log_variance = _log_scalar("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return jnp.exp(self.log_variance) * (x @ y + jnp.exp(self.log_offset)) ** self.degree

    def _gram(self, X: Points, Y: Others) -> Gram:
        return jnp.exp(self.log_variance) * (X @ Y.T + jnp.exp(self.log_offset)) ** self.degree


class Constant(AbstractKernel):
    """σ² everywhere: an unknown common level."""

    log_variance: Scalar

    def __init__(self, variance: Number = 1.0):
        self.log_variance = _log_scalar("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return jnp.exp(self.log_variance)


class White(AbstractKernel):
    """σ² where the two inputs are equal, else 0: variation that no other input shares."""

    log_variance: Scalar

    def __init__(self, variance: Number = 1.0):
        self.log_variance = _log_scalar("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return jnp.where(jnp.all(x == y), jnp.exp(self.log_variance), 0.0)


# Combinations and wrappers


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


class Embed(AbstractKernel):
    """A kernel in whose input one column is a label 0, 1, …, replaced by a vector that is learned for each label.

    `features` turns rows into [other columns…, vector]; the inner kernel, and this one's `__call__`, act on those.
    Vectors not given start at fixed standard normal draws. A label outside the range gives NaN.
    """

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


# Hyper-parameters by name


def sampled(kernel: PyTree) -> PyTree:
    """The same tree with True at the leaves that are sampled, for `eqx.partition`."""
    return tree_map_with_path(lambda path, leaf: _is_sampled(_names(path)), kernel)


def hyper_log_prior(kernel: PyTree, reference: PyTree, scale: Scalar | float = 1.0) -> Scalar:
    """Σ log N(log θ; log θ_ref, sd²) over the sampled leaves, sd = scale for lengthscales and scale/2 for all else.

    Stated on the log scale on which the leaves are sampled, so it needs no Jacobian. Vectors are standard normal.
    """

    def term(path, leaf, centre):
        names = _names(path)
        if not _is_sampled(names):
            return jnp.zeros(())
        if names[-1] == "vectors":
            return jnp.sum(norm.logpdf(leaf))
        return jnp.sum(norm.logpdf(leaf, centre, scale if names[-1] == "log_lengthscale" else 0.5 * scale))

    return jax.tree.reduce(operator.add, tree_map_with_path(term, kernel, reference), jnp.zeros(()))


def describe(kernel: AbstractKernel) -> dict[str, Array]:
    """Sampled hyper-parameters on their natural scale, such as {"RBF.lengthscale": …, "RBF.variance": …}.

    A class that occurs several times is numbered, "RBF[0].lengthscale". Vectors are left out: they are known up to a
    rotation only.
    """
    return _natural_values(_parts(kernel, stop=Frozen))


def label_columns(kernel: AbstractKernel, num_columns: int) -> tuple[int, ...]:
    """Columns of the input that hold labels of an `Embed`, which must not be centred or scaled."""
    columns, found = list(range(num_columns)), []
    while isinstance(kernel, Embed | Frozen):
        if isinstance(kernel, Embed):
            found.append(columns.pop(kernel.column))
        kernel = kernel.kernel if isinstance(kernel, Embed) else kernel.frozen
    return tuple(found)


def explain_cholesky_failure(kernel: AbstractKernel) -> str:
    """One sentence for a covariance without a Cholesky factor: which kernel, which lengthscale, what to do."""
    values = {name: np.asarray(value) for name, value in _natural_values(_parts(kernel)).items()}
    runaway = [name for name, value in values.items() if not np.all((value > 0.0) & (value < np.inf))]
    lengthscales = [(np.max(value), name) for name, value in values.items() if name.endswith(".lengthscale")]
    largest = linalg.JITTER * 10 ** (linalg.NUM_LEVELS - 1)
    start = (
        f"The covariance of {kernel!r} has no Cholesky factor even with a jitter of {largest:g} of its mean diagonal"
    )
    if runaway:
        return f"{start}, because {', '.join(runaway)} ran away: use a smaller step_size or a longer warm-up."
    if lengthscales:
        value, name = max(lengthscales)
        reason = f"the longest lengthscale, {name} = {value:.3g}, may make inputs look alike"
        return f"{start}; {reason}: use a shorter one, fewer inducing inputs, or add White(1e-3)."
    return f"{start}; it has no lengthscale and a low rank: use fewer inducing inputs, or add White(1e-3)."


def median_distance(inputs: Rows, distance: Callable[[np.ndarray], np.ndarray] = np.abs) -> Float[np.ndarray, " D"]:
    """√D times the median over pairs of rows of |x_id − x_jd|, per column, from at most 1000 rows.

    A column of mostly equal values uses its unequal pairs, a constant one counts as having distance 1.
    """
    X = np.asarray(inputs, float)
    if len(X) > NUM_MEDIAN_ROWS:
        X = np.random.default_rng(0).choice(X, NUM_MEDIAN_ROWS, replace=False)
    i, j = np.triu_indices(len(X), 1)

    def typical(x):
        d = distance(x[i] - x[j])
        d = d if np.any(d > 0.0) else np.ones(1)
        return np.median(d) or np.median(d[d > 0.0])

    return np.sqrt(X.shape[1]) * np.array([typical(x) for x in X.T])


def _log_scalar(name: str, value: Number) -> Scalar:
    if np.ndim(value) > 0 or not 0.0 < value < np.inf:
        raise InputError(f"{name} must be one positive number, got {value}.")
    return jnp.asarray(np.log(value), float)


def _log_vector(name: str, value: Positive) -> Float[Array, " L"]:
    return jnp.asarray(np.log(_positive_vector(name, value)))


def _positive_vector(name: str, value: Positive) -> Float[Array, " L"]:
    """Shape (1,) for a number, (D,) for one value per column."""
    values = np.atleast_1d(np.asarray(value, float))
    if values.ndim > 1 or not np.all((values > 0.0) & (values < np.inf)):
        raise InputError(f"{name} must be a positive number, or a positive one per column; got {value}.")
    return jnp.asarray(values)


def _lengthscale(kernel: Any) -> Float[Array, " L"]:
    if kernel.log_lengthscale is None:
        name = type(kernel).__name__
        raise InputError(f"{name} has no lengthscale yet: give {name}(lengthscale=...) or call kernel.initialise(x).")
    return jnp.exp(kernel.log_lengthscale)


def _fill_lengthscale(kernel: Any, lengthscale: Float[np.ndarray, " D"]) -> Any:
    if kernel.log_lengthscale is not None:
        return kernel
    value = _log_vector("lengthscale", lengthscale)
    return eqx.tree_at(lambda k: k.log_lengthscale, kernel, value, is_leaf=lambda leaf: leaf is None)


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
    if any(isinstance(part, Embed) for k in kernels for part in _parts(k)):
        raise InputError("Embed must be the outermost kernel: write Embed(a * b, ...) instead of a * Embed(b, ...).")
    return tuple(kernels)


def _parts(kernel: AbstractKernel, stop: type | tuple = ()) -> Iterator[AbstractKernel]:
    """A kernel and all kernels inside it, outermost first, without those of type `stop`."""
    if isinstance(kernel, stop):
        return
    yield kernel
    values = [getattr(kernel, field.name) for field in dataclasses.fields(kernel)]
    for part in jax.tree.leaves(values, is_leaf=lambda value: isinstance(value, AbstractKernel)):
        if isinstance(part, AbstractKernel):
            yield from _parts(part, stop)


def _natural_values(kernels: Iterator[AbstractKernel]) -> dict[str, Array]:
    owners = [k for k in kernels if _log_fields(k)]
    total = collections.Counter(type(k).__name__ for k in owners)
    seen, values = collections.Counter(), {}
    for k in owners:
        name = type(k).__name__
        label = f"{name}[{seen[name]}]" if total[name] > 1 else name
        seen[name] += 1
        values |= {f"{label}.{field.removeprefix('log_')}": jnp.exp(v) for field, v in _log_fields(k).items()}
    return values


def _log_fields(kernel: AbstractKernel) -> dict[str, Any]:
    fields = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)}
    return {name: value for name, value in fields.items() if name.startswith("log_") and value is not None}


def _names(path: tuple) -> list[str]:
    return [key.name for key in path if isinstance(key, GetAttrKey)]


def _is_sampled(names: list[str]) -> bool:
    return "frozen" not in names and (names[-1].startswith("log_") or names[-1] == "vectors")


def _arguments(kernel: AbstractKernel) -> Iterator[str]:
    """The constructor's arguments as text, on their natural scale; what is None is left out."""
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        if value is not None:
            yield f"{field.name.removeprefix('log_')}={_show(value, field.name.startswith('log_'))}"
        if value is not None and field.name == "log_period":
            yield "learn_period=True"


def _show(value: Any, is_log: bool) -> str:
    if isinstance(value, bool | Tracer) or not isinstance(value, int | np.ndarray | jax.Array):
        return "..."
    with np.errstate(over="ignore"):
        values = np.exp(value) if is_log else np.asarray(value)
    if values.size > 8 or values.ndim > 1:
        return f"<array of shape {values.shape}>"
    texts = [f"{v:.6g}" for v in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
