"""Priors on the decoder's weights φ, on the scale on which they are sampled.

Every prior draws standardised weights w̃ and a map to the weights themselves, w = scale · w̃, so that one step size
suits layers of different width; `log_prob` is the density of what is sampled.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, PyTree

import gpbae.processes.runtime  # noqa: F401  (float64 before the first array)


class AbstractWeightPrior(eqx.Module):
    """p(φ) with φ = weights(sampled)."""

    @abc.abstractmethod
    def init(self, weights: PyTree) -> Any:
        """The sampled coordinates of given weights."""

    @abc.abstractmethod
    def weights(self, sampled: Any) -> PyTree:
        """The weights that sampled coordinates stand for."""

    @abc.abstractmethod
    def log_prob(self, sampled: Any) -> Array:
        """log density of the sampled coordinates."""


class Isotropic(AbstractWeightPrior):
    """Every weight N(0, scale²): the paper's choice, which drowns the data in wide networks."""

    scale: float = eqx.field(static=True, default=1.0)

    def init(self, weights):
        return _scaled(weights, lambda w: 1 / self.scale)

    def weights(self, sampled):
        return _scaled(sampled, lambda w: self.scale)

    def log_prob(self, sampled):
        return _standard_normal(sampled)


class FanIn(AbstractWeightPrior):
    """Weights N(0, gain²/fan-in), biases N(0, gain²): outputs keep their size whatever the width."""

    gain: float = eqx.field(static=True, default=1.0)

    def init(self, weights):
        return _scaled(weights, lambda w: 1 / (self.gain * _fan_in_scale(w)))

    def weights(self, sampled):
        return _scaled(sampled, lambda w: self.gain * _fan_in_scale(w))

    def log_prob(self, sampled):
        return _standard_normal(sampled)


class Laplace(AbstractWeightPrior):
    """Fan-in scaled Laplace weights with variance gain²/fan-in: few large, many small."""

    gain: float = eqx.field(static=True, default=1.0)

    def init(self, weights):
        return FanIn(self.gain).init(weights)

    def weights(self, sampled):
        return FanIn(self.gain).weights(sampled)

    def log_prob(self, sampled):
        root = math.sqrt(2)
        return _sum(sampled, lambda w: math.log(root / 2) - root * jnp.abs(w))


class Hierarchical(AbstractWeightPrior):
    """Fan-in scaled weights times a scale per array that is itself inferred: log scale ~ N(0, spread²)."""

    spread: float = eqx.field(static=True, default=1.0)

    def init(self, weights):
        log_scale = jax.tree.map(lambda w: jnp.zeros((), w.dtype), weights)
        return {"standard": FanIn().init(weights), "log_scale": log_scale}

    def weights(self, sampled):
        base = FanIn().weights(sampled["standard"])
        return jax.tree.map(lambda w, s: w * jnp.exp(s), base, sampled["log_scale"])

    def log_prob(self, sampled):
        scales = _sum(sampled["log_scale"], lambda s: norm.logpdf(s, 0, self.spread))
        return _standard_normal(sampled["standard"]) + scales


WORDS = {"fan-in": FanIn, "isotropic": Isotropic, "laplace": Laplace, "hierarchical": Hierarchical}


def _fan_in_scale(w: Array) -> float:
    return 1 / math.sqrt(math.prod(w.shape[1:])) if w.ndim > 1 else 1.0


def _scaled(tree, factor):
    return jax.tree.map(lambda w: w * factor(w), tree)


def _sum(tree, log_density):
    terms = [jnp.sum(log_density(w).astype(jnp.float64)) for w in jax.tree.leaves(tree)]
    return sum(terms, jnp.zeros(()))


def _standard_normal(tree):
    return _sum(tree, lambda w: -0.5 * w**2 - 0.5 * math.log(2 * math.pi))
