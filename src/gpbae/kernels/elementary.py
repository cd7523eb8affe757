"""Kernels without a lengthscale: of finite rank, and noise."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae.errors import InputError
from gpbae.kernels.arrays import Gram, Number, Others, Point, Points, Positive, Scalar, log_scalar, log_vector
from gpbae.kernels.base import AbstractKernel


class Linear(AbstractKernel):
    """Σ_d σ_d² x_d y_d, with one variance or one per column."""

    log_variance: Float[Array, " L"]

    def __init__(self, variance: Positive = 1.0):
        self.log_variance = log_vector("variance", variance)

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
        self.log_offset = log_scalar("offset", offset)
        self.log_variance = log_scalar("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return jnp.exp(self.log_variance) * (x @ y + jnp.exp(self.log_offset)) ** self.degree

    def _gram(self, X: Points, Y: Others) -> Gram:
        return jnp.exp(self.log_variance) * (X @ Y.T + jnp.exp(self.log_offset)) ** self.degree


class White(AbstractKernel):
    """σ² where the two inputs are equal, else 0: variation that no other input shares."""

    log_variance: Scalar

    def __init__(self, variance: Number = 1.0):
        self.log_variance = log_scalar("variance", variance)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return jnp.where(jnp.all(x == y), jnp.exp(self.log_variance), 0.0)
