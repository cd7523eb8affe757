"""Likelihoods of real numbers: Gaussian, Student-t, and Gaussian with a noise that changes from cell to cell."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, ndtr
from jax.scipy.stats import norm, t
from jaxtyping import Array, Float, Key

from gpbae.errors import InputError
from gpbae.likelihoods.base import AbstractLikelihood, Cells, Kind, Mask, Outputs, like


class AbstractReal(AbstractLikelihood):
    """Any number will do."""

    def kinds(self, num_columns: int) -> tuple[Kind, ...]:
        return ("real",) * num_columns

    def supports(self, values: np.ndarray) -> np.ndarray:
        return np.isfinite(values)

    def check(self, values: np.ndarray, mask: np.ndarray, names: tuple[str, ...]) -> None:
        return None


class Gaussian(AbstractReal):
    """y = η + noise · ξ.  The noise is in units of the standardised column, shared by all columns by default.

    A separately learned noise per column can copy one column exactly and ignore the rest, so `per_column` is
    off unless asked for.  A `floor` forbids it: the noise is √(floor² + exp(2 log_noise)), and columns that follow
    from each other do not make the posterior as stiff as they are exact.
    """

    log_noise: Float[Array, "..."]
    learn_noise: bool = eqx.field(static=True)
    per_column: bool = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    def __init__(self, noise: float = 0.3, learn_noise: bool = True, per_column: bool = False, floor: float = 0.0):
        self.log_noise = _log_excess_over(floor, noise, "Gaussian")
        self.learn_noise = bool(learn_noise)
        self.per_column = bool(per_column)
        self.floor = float(floor)

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "Gaussian":
        if not self.per_column:
            return self
        return eqx.tree_at(lambda g: g.log_noise, self, jnp.broadcast_to(self.log_noise, values.shape[1:]))

    def sampled(self) -> "Gaussian":
        return eqx.tree_at(lambda g: g.log_noise, self, self.learn_noise)

    def natural(self) -> "Gaussian":
        return jax.tree.map(lambda a: _above(self.floor, a), self)

    def _noise(self, eta: Array) -> Array:
        return like(_above(self.floor, self.log_noise), eta)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        residual = jnp.where(mask, y, eta) - eta
        return jnp.where(mask, norm.logpdf(residual, scale=self._noise(eta)), 0)

    def mean(self, eta: Outputs) -> Cells:
        return eta

    def variance(self, eta: Outputs) -> Cells:
        return self._noise(eta) ** 2

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        return eta + self._noise(eta) * jax.random.normal(key, eta.shape, eta.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        return ndtr((y - eta) / self._noise(eta))

    def link(self, y: Cells) -> Outputs:
        return y


class StudentT(AbstractReal):
    """y = η + scale · t_ν: outlying cells pull less than under a Gaussian.

    The scale is in units of the standardised column; `per_column` and `floor` are Gaussian's.  ν > 2 keeps the variance
    finite; when learned, log(ν − 2) is sampled, one for all columns.
    """

    log_scale: Float[Array, "..."]
    log_excess: Float[Array, ""]
    learn_scale: bool = eqx.field(static=True)
    learn_freedom: bool = eqx.field(static=True)
    per_column: bool = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    def __init__(self, scale: float = 0.3, freedom: float = 4.0, learn_scale: bool = True, learn_freedom: bool = True,
                 per_column: bool = False, floor: float = 0.0):  # fmt: skip
        if not freedom > 2:
            raise InputError(f"StudentT needs degrees of freedom above 2, for a finite variance; got {freedom}. Try 4.")
        self.log_scale = _log_excess_over(floor, scale, "StudentT")
        self.log_excess = jnp.log(jnp.asarray(freedom - 2.0, jnp.float64))
        self.learn_scale, self.learn_freedom = bool(learn_scale), bool(learn_freedom)
        self.per_column, self.floor = bool(per_column), float(floor)

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "StudentT":
        if not self.per_column:
            return self
        return eqx.tree_at(lambda s: s.log_scale, self, jnp.broadcast_to(self.log_scale, values.shape[1:]))

    def sampled(self) -> "StudentT":
        return eqx.tree_at(lambda s: (s.log_scale, s.log_excess), self, (self.learn_scale, self.learn_freedom))

    def natural(self) -> "StudentT":
        shown = jax.tree.map(lambda a: _above(self.floor, a), self.log_scale)
        freedom = jax.tree.map(jnp.exp, self.log_excess)
        return eqx.tree_at(lambda s: (s.log_scale, s.log_excess), self, (shown, freedom), is_leaf=lambda a: a is None)

    def _parameters(self, eta: Array) -> tuple[Array, Array]:
        return like(_above(self.floor, self.log_scale), eta), like(2.0 + jnp.exp(self.log_excess), eta)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        scale, freedom = self._parameters(eta)
        residual = jnp.where(mask, y, eta) - eta
        return jnp.where(mask, t.logpdf(residual / scale, freedom) - jnp.log(scale), 0)

    def mean(self, eta: Outputs) -> Cells:
        return eta

    def variance(self, eta: Outputs) -> Cells:
        scale, freedom = self._parameters(eta)
        return scale**2 * freedom / (freedom - 2)

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        scale, freedom = self._parameters(eta)
        return eta + scale * jax.random.t(key, freedom, eta.shape, eta.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        """½ I(ν/(ν + r²); ν/2, ½) below the centre, by symmetry above."""
        scale, freedom = self._parameters(eta)
        r = (y - eta) / scale
        tail = 0.5 * betainc(freedom / 2, jnp.full_like(r, 0.5), freedom / (freedom + r**2))
        return jnp.where(r < 0, tail, 1 - tail)

    def link(self, y: Cells) -> Outputs:
        return y


class HeteroscedasticGaussian(AbstractReal):
    """y = m + s · ξ with (m, λ) two outputs of the decoder per cell and s² = floor² + noise² exp(2λ).

    Where λ is free a decoder can copy single cells and claim to be certain of them; the floor, in units of the
    standardised column, is the least noise it may claim.
    """

    noise: float = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    def __init__(self, noise: float = 0.3, floor: float = 0.05):
        if not (noise > 0 and floor > 0):
            raise InputError(
                f"HeteroscedasticGaussian needs noise and floor above 0; got {noise} and {floor}. Try 0.3 and 0.05."
            )
        self.noise, self.floor = float(noise), float(floor)

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "HeteroscedasticGaussian":
        return self

    def owners(self, num_columns: int) -> np.ndarray:
        return np.repeat(np.arange(num_columns), 2)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        m, s2 = self.mean(eta), self.variance(eta)
        residual = jnp.where(mask, y, m) - m
        return jnp.where(mask, norm.logpdf(residual, scale=jnp.sqrt(s2)), 0)

    def mean(self, eta: Outputs) -> Cells:
        return eta[..., 0::2]

    def variance(self, eta: Outputs) -> Cells:
        return self.floor**2 + self.noise**2 * jnp.exp(2 * eta[..., 1::2])

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        m, s2 = self.mean(eta), self.variance(eta)
        return m + jnp.sqrt(s2) * jax.random.normal(key, m.shape, m.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        return ndtr((y - self.mean(eta)) / jnp.sqrt(self.variance(eta)))

    def link(self, y: Cells) -> Outputs:
        return jnp.stack([y, jnp.zeros_like(y)], axis=-1).reshape(*y.shape[:-1], -1)


def _log_noise(noise: float, name: str) -> Array:
    if not noise > 0:
        raise InputError(f"{name} noise is a standard deviation above 0; got {noise}. Try {name}(0.3).")
    return jnp.log(jnp.asarray(noise, jnp.float64))


def _log_excess_over(floor: float, noise: float, name: str) -> Array:
    """log s with noise² = floor² + s²."""
    log_noise = _log_noise(noise, name)
    if not 0 <= floor < noise:
        raise InputError(f"{name} floor must be at least 0 and below its noise {noise}; got {floor}. Try 0.05.")
    return log_noise + 0.5 * jnp.log1p(-(jnp.asarray(floor / noise, jnp.float64) ** 2))


def _above(floor: float, log_excess: Array) -> Array:
    """√(floor² + s²) of log s."""
    return jnp.sqrt(floor**2 + jnp.exp(2 * log_excess)) if floor else jnp.exp(log_excess)
