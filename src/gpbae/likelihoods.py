"""Masked likelihoods p(y | η) with η the decoder's output, cell by cell."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

import gpbae.runtime  # noqa: F401  (float64 before the first array)
from gpbae.errors import InputError

Cells = Float[Array, "*rows P"]
Mask = Bool[Array, "*rows P"]


class AbstractLikelihood(eqx.Module):
    """One cell's distribution given the decoder's output η; sampled leaves have names that start with `log_`."""

    standardises: eqx.AbstractClassVar[bool]
    """Whether real-valued y should be standardised before it meets this likelihood."""

    @abc.abstractmethod
    def log_prob(self, y: Cells, mask: Mask, eta: Cells) -> Cells:
        """log p(y | η) where observed, 0 elsewhere."""

    @abc.abstractmethod
    def mean(self, eta: Cells) -> Cells:
        """E[y | η]."""

    @abc.abstractmethod
    def variance(self, eta: Cells) -> Cells:
        """Var[y | η]."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], eta: Cells) -> Cells:
        """A draw of y given η."""

    @abc.abstractmethod
    def sampled(self) -> Any:
        """A pytree of booleans: the leaves inferred along with everything else."""

    @abc.abstractmethod
    def initialise(self, num_columns: int) -> "AbstractLikelihood":
        """The same likelihood with leaves shaped for the table at hand."""

    @abc.abstractmethod
    def link(self, y: Cells) -> Cells:
        """A decoder output whose mean is about y: where latents and linear maps start from."""


class Gaussian(AbstractLikelihood):
    """y = η + noise · ξ.  The noise is in units of the standardised column, shared by all columns by default.

    A separately learned noise per column can copy one column exactly and ignore the rest, so `per_column` is
    off unless asked for.
    """

    log_noise: Float[Array, "..."]
    learn_noise: bool = eqx.field(static=True)
    per_column: bool = eqx.field(static=True)
    standardises = True

    def __init__(self, noise: float = 0.3, learn_noise: bool = True, per_column: bool = False):
        if not noise > 0:
            raise InputError(f"Gaussian noise is a standard deviation above 0; got {noise}. Try Gaussian(noise=0.3).")
        self.log_noise = jnp.log(jnp.asarray(noise, jnp.float64))
        self.learn_noise = bool(learn_noise)
        self.per_column = bool(per_column)

    def initialise(self, num_columns: int) -> "Gaussian":
        if not self.per_column:
            return self
        return eqx.tree_at(lambda g: g.log_noise, self, jnp.broadcast_to(self.log_noise, (num_columns,)))

    def sampled(self) -> "Gaussian":
        return eqx.tree_at(lambda g: g.log_noise, self, self.learn_noise)

    def _noise(self, eta: Array) -> Array:
        return jnp.broadcast_to(jnp.exp(self.log_noise).astype(eta.dtype), eta.shape)

    def log_prob(self, y: Cells, mask: Mask, eta: Cells) -> Cells:
        residual = jnp.where(mask, y, eta) - eta
        return jnp.where(mask, norm.logpdf(residual, scale=self._noise(eta)), 0)

    def mean(self, eta: Cells) -> Cells:
        return eta

    def variance(self, eta: Cells) -> Cells:
        return self._noise(eta) ** 2

    def sample(self, key: Key[Array, ""], eta: Cells) -> Cells:
        return eta + self._noise(eta) * jax.random.normal(key, eta.shape, eta.dtype)

    def cdf(self, y: Cells, eta: Cells) -> Cells:
        return ndtr((y - eta) / self._noise(eta))

    def link(self, y: Cells) -> Cells:
        return y


class Bernoulli(AbstractLikelihood):
    """y ∈ {0, 1} with log-odds η."""

    standardises = False

    def initialise(self, num_columns: int) -> "Bernoulli":
        return self

    def sampled(self) -> "Bernoulli":
        return self

    def log_prob(self, y: Cells, mask: Mask, eta: Cells) -> Cells:
        y = jnp.where(mask, y, 0)
        return jnp.where(mask, y * eta - jax.nn.softplus(eta), 0)

    def mean(self, eta: Cells) -> Cells:
        return jax.nn.sigmoid(eta)

    def variance(self, eta: Cells) -> Cells:
        p = jax.nn.sigmoid(eta)
        return p * (1 - p)

    def sample(self, key: Key[Array, ""], eta: Cells) -> Cells:
        return jax.random.bernoulli(key, jax.nn.sigmoid(eta)).astype(eta.dtype)

    def link(self, y: Cells) -> Cells:
        return 4 * (y - 0.5)


def hyper_log_prior(likelihood: AbstractLikelihood, reference: AbstractLikelihood, scale: float = 1.0) -> Array:
    """Σ log N(log leaf; its starting value, scale²) over the sampled leaves: log-normal on the natural scale."""
    sampled = eqx.filter(likelihood, reference.sampled())
    centre = eqx.filter(reference, reference.sampled())
    terms = jax.tree.map(lambda a, b: jnp.sum(norm.logpdf(a, b, jnp.full_like(a, scale))), sampled, centre)
    return sum(jax.tree.leaves(terms), jnp.zeros(()))
