"""Priors on the inducing inputs S, each with the unconstrained coordinates on which S is sampled."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from gpbae.errors import InputError
from gpbae.kernels import AbstractKernel, gram
from gpbae.linalg import cholesky, log_determinant

Inputs = Float[Array, "M D"]


class AbstractInducingPrior(eqx.Module):
    """p(S), stated on the coordinates r with S = inputs(r)."""

    low: eqx.AbstractVar[Float[Array, " D"]]
    high: eqx.AbstractVar[Float[Array, " D"]]

    @abc.abstractmethod
    def inputs(self, coordinates: Inputs) -> Inputs: ...

    @abc.abstractmethod
    def coordinates(self, inputs: Inputs) -> Inputs: ...

    @abc.abstractmethod
    def log_prob(self, coordinates: Inputs) -> Array: ...


class Uniform(AbstractInducingPrior):
    """Uniform over the data's box: S = low + (high − low) · sigmoid(r), so r is logistic and cannot drift away."""

    low: Float[Array, " D"]
    high: Float[Array, " D"]

    def inputs(self, coordinates: Inputs) -> Inputs:
        return self.low[None] + (self.high - self.low)[None] * jax.nn.sigmoid(coordinates)

    def coordinates(self, inputs: Inputs) -> Inputs:
        p = jnp.clip((inputs - self.low[None]) / (self.high - self.low)[None], 0.01, 0.99)
        return jnp.log(p) - jnp.log1p(-p)

    def log_prob(self, coordinates: Inputs) -> Array:
        return jnp.sum(jax.nn.log_sigmoid(coordinates) + jax.nn.log_sigmoid(-coordinates))


class Normal(AbstractInducingPrior):
    """Normal around the middle of the data's box, with a quarter of its width as standard deviation."""

    low: Float[Array, " D"]
    high: Float[Array, " D"]

    def inputs(self, coordinates: Inputs) -> Inputs:
        return 0.5 * (self.low + self.high)[None] + 0.25 * (self.high - self.low)[None] * coordinates

    def coordinates(self, inputs: Inputs) -> Inputs:
        return (inputs - 0.5 * (self.low + self.high)[None]) / (0.25 * (self.high - self.low)[None])

    def log_prob(self, coordinates: Inputs) -> Array:
        return jnp.sum(norm.logpdf(coordinates))


class Determinantal(AbstractInducingPrior):
    """Uniform times det K_SS under a kernel that stays fixed, so that the normaliser is a constant."""

    low: Float[Array, " D"]
    high: Float[Array, " D"]
    kernel: AbstractKernel

    def inputs(self, coordinates: Inputs) -> Inputs:
        return Uniform(self.low, self.high).inputs(coordinates)

    def coordinates(self, inputs: Inputs) -> Inputs:
        return Uniform(self.low, self.high).coordinates(inputs)

    def log_prob(self, coordinates: Inputs) -> Array:
        S = self.inputs(coordinates)
        repulsion = log_determinant(cholesky(gram(self.kernel, S, S)))
        return Uniform(self.low, self.high).log_prob(coordinates) + repulsion


class Strauss(AbstractInducingPrior):
    """Uniform times a smooth penalty on pairs closer than a radius: γ^(number of close pairs)."""

    low: Float[Array, " D"]
    high: Float[Array, " D"]
    radius: float = eqx.field(static=True, default=0.05)
    log_penalty: float = eqx.field(static=True, default=-2.0)

    def inputs(self, coordinates: Inputs) -> Inputs:
        return Uniform(self.low, self.high).inputs(coordinates)

    def coordinates(self, inputs: Inputs) -> Inputs:
        return Uniform(self.low, self.high).coordinates(inputs)

    def log_prob(self, coordinates: Inputs) -> Array:
        r = jax.nn.sigmoid(coordinates)
        squared = jnp.sum((r[:, None] - r[None]) ** 2, axis=-1)
        close = jnp.exp(-0.5 * squared / self.radius**2)
        pairs = 0.5 * (jnp.sum(close) - r.shape[0])
        return Uniform(self.low, self.high).log_prob(coordinates) + self.log_penalty * pairs


def make(name: str, features: Any, kernel: AbstractKernel) -> AbstractInducingPrior:
    """The prior a word stands for, over the box of the data widened by a tenth on each side."""
    low, high = features.min(axis=0), features.max(axis=0)
    width = jnp.where(high > low, high - low, 1.0)
    box = (low - 0.1 * width, high + 0.1 * width)
    families = {"uniform": Uniform, "normal": Normal, "strauss": Strauss}
    if name == "determinantal":
        return Determinantal(*box, kernel)
    if name not in families:
        raise InputError(f"inducing_prior must be one of {', '.join([*families, 'determinantal'])}; got {name!r}.")
    return families[name](*box)
