"""Stationary kernels: σ² ρ(r²), r² = ‖(x − y)/ℓ‖²; and the periodic kernel, which is one between points on circles."""

import abc
from collections.abc import Callable
from typing import Any

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
    Positive,
    Rows,
    Scalar,
    log_scalar,
    log_vector,
    positive_vector,
)
from gpbae.kernels.base import AbstractKernel

NUM_MEDIAN_ROWS = 1000


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
        self.log_lengthscale = None if lengthscale is None else log_vector("lengthscale", lengthscale)
        self.log_variance = log_scalar("variance", variance)

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
        self.log_lengthscale = None if lengthscale is None else log_vector("lengthscale", lengthscale)
        self.log_variance = log_scalar("variance", variance)
        self.log_mixture = log_scalar("mixture", mixture)

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
        self.log_lengthscale = None if lengthscale is None else log_vector("lengthscale", lengthscale)
        self.log_variance = log_scalar("variance", variance)
        self.log_period = log_vector("period", period) if learn_period else None
        self.period = None if learn_period else positive_vector("period", period)

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


def _lengthscale(kernel: Any) -> Float[Array, " L"]:
    if kernel.log_lengthscale is None:
        name = type(kernel).__name__
        raise InputError(f"{name} has no lengthscale yet: give {name}(lengthscale=...) or call kernel.initialise(x).")
    return jnp.exp(kernel.log_lengthscale)


def _fill_lengthscale(kernel: Any, lengthscale: Float[np.ndarray, " D"]) -> Any:
    if kernel.log_lengthscale is not None:
        return kernel
    value = log_vector("lengthscale", lengthscale)
    return eqx.tree_at(lambda k: k.log_lengthscale, kernel, value, is_leaf=lambda leaf: leaf is None)
