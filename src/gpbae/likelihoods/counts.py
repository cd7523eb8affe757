"""Likelihoods of counts: Poisson, and negative binomial for counts that scatter more.

The decoder speaks of the logarithm of a rate relative to the column's mean, which plays the part of standardising.
Counts may be large and their log-densities cancel, so they are computed in float64 whatever the decoder's precision.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaincc, gammaln
from jaxtyping import Array, Float, Key

from gpbae.errors import InputError
from gpbae.likelihoods.base import AbstractLikelihood, Cells, Kind, Mask, Outputs, column_means, first_bad, like

LARGEST_RATE = 1e9
"""Of a draw: whole numbers are drawn in 32 bits."""
EXPOSURES = (None, "rows")


class AbstractCount(AbstractLikelihood):
    """y ∈ {0, 1, …} with mean exp(offset + η), offset the log of the column's mean.

    With `exposure="rows"` a row's rates are multiplied by its size: the sum of its observed counts over what that sum
    would be in an average row.  At new inputs, where nothing of a row is known, its size is that of the average row.
    """

    offset: eqx.AbstractVar[Float[Array, " P"] | None]
    exposure: eqx.AbstractVar[str | None]

    def kinds(self, num_columns: int) -> tuple[Kind, ...]:
        return ("count",) * num_columns

    def supports(self, values: np.ndarray) -> np.ndarray:
        return (values >= 0) & (values == np.round(values))

    def check(self, values: np.ndarray, mask: np.ndarray, names: tuple[str, ...]) -> None:
        if (bad := first_bad(self.supports(values), mask)) is not None:
            raise InputError(
                f"{type(self).__name__} needs whole numbers from 0; got {values[bad]:g} in column {names[bad[1]]}. "
                "Use Gaussian()."
            )

    def log_rate(self, eta: Outputs) -> Cells:
        """In float64."""
        offset = self.offset
        assert offset is not None, "initialise comes first"
        eta = eta.astype(jnp.float64)
        return eta + like(offset, eta)

    def mean(self, eta: Outputs) -> Cells:
        return jnp.exp(self.log_rate(eta)).astype(eta.dtype)

    def link(self, y: Cells) -> Outputs:
        return (jnp.log(y.astype(jnp.float64) + 0.1) - self.log_rate(jnp.zeros_like(y))).astype(y.dtype)

    def _size(self, y: Cells, mask: Mask) -> Float[Array, "*rows 1"]:
        """Of every row, from its observed cells; 1 where there are none."""
        expected = jnp.where(mask, jnp.exp(self.log_rate(jnp.zeros_like(y))), 0.0)
        seen = jnp.where(mask, y.astype(jnp.float64), 0.0)
        return (jnp.sum(seen, axis=-1, keepdims=True) + 1) / (jnp.sum(expected, axis=-1, keepdims=True) + 1)

    def expose(self, eta: Outputs, y: Cells, mask: Mask) -> Outputs:
        if self.exposure is None:
            return eta
        return eta + jnp.broadcast_to(jnp.log(self._size(y, mask)).astype(eta.dtype), eta.shape)

    def features(self, y: Cells, mask: Mask) -> tuple[Outputs, Mask]:
        """Logarithms of counts per size of row, about zero for an average cell."""
        size = jnp.ones(()) if self.exposure is None else self._size(y, mask)
        level = jnp.exp(self.log_rate(jnp.zeros_like(y)))
        counts = jnp.where(mask, y.astype(jnp.float64), level) / jnp.broadcast_to(size, y.shape)
        return jnp.where(mask, jnp.log((counts + 0.5) / (level + 0.5)), 0).astype(y.dtype), mask


class Poisson(AbstractCount):
    """Counts of independent events; the variance is the mean."""

    exposure: str | None = eqx.field(static=True)
    offset: Float[Array, " P"] | None

    def __init__(self, exposure: str | None = None):
        self.exposure = _exposure(exposure)
        self.offset = None

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "Poisson":
        return _with_offset(self, values, mask)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        log_rate = self.log_rate(eta)
        count = jnp.where(mask, y, 0).astype(log_rate.dtype)
        return jnp.where(mask, count * log_rate - jnp.exp(log_rate) - gammaln(count + 1), 0).astype(eta.dtype)

    def variance(self, eta: Outputs) -> Cells:
        return self.mean(eta)

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        rate = jnp.minimum(jnp.exp(self.log_rate(eta)), LARGEST_RATE)
        return jax.random.poisson(key, rate).astype(eta.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        count = jnp.floor(y.astype(jnp.float64))
        below = gammaincc(jnp.maximum(count, 0) + 1, jnp.exp(self.log_rate(eta)))
        return jnp.where(count < 0, 0, below).astype(eta.dtype)


class NegativeBinomial(AbstractCount):
    """Counts whose rate itself scatters: variance = mean + dispersion · mean², a dispersion per column by default.

    A column's dispersion cannot be used to copy it: the counts scatter at least as a Poisson does.
    """

    log_dispersion: Float[Array, "..."]
    learn_dispersion: bool = eqx.field(static=True)
    per_column: bool = eqx.field(static=True)
    exposure: str | None = eqx.field(static=True)
    offset: Float[Array, " P"] | None

    def __init__(self, dispersion: float = 0.3, learn_dispersion: bool = True, per_column: bool = True,
                 exposure: str | None = None):  # fmt: skip
        if not dispersion > 0:
            raise InputError(f"NegativeBinomial needs a dispersion above 0; got {dispersion}. Use Poisson().")
        self.log_dispersion = jnp.log(jnp.asarray(dispersion, jnp.float64))
        self.learn_dispersion, self.per_column = bool(learn_dispersion), bool(per_column)
        self.exposure = _exposure(exposure)
        self.offset = None

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "NegativeBinomial":
        sized = _with_offset(self, values, mask)
        if not self.per_column:
            return sized
        each = jnp.broadcast_to(self.log_dispersion, values.shape[1:])
        return eqx.tree_at(lambda n: n.log_dispersion, sized, each)

    def sampled(self) -> "NegativeBinomial":
        nothing = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda n: n.log_dispersion, nothing, self.learn_dispersion)

    def _parameters(self, eta: Outputs) -> tuple[Array, Array]:
        """log μ and log r, r = 1/dispersion."""
        log_rate = self.log_rate(eta)
        return log_rate, -like(self.log_dispersion, log_rate)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        """log Γ(y + r)/(Γ(r) y!) + r log r/(r + μ) + y log μ/(r + μ)."""
        log_rate, log_r = self._parameters(eta)
        r = jnp.exp(log_r)
        count = jnp.where(mask, y, 0).astype(log_rate.dtype)
        log_total = jnp.logaddexp(log_rate, log_r)
        ways = gammaln(count + r) - gammaln(r) - gammaln(count + 1)
        cells = ways + r * (log_r - log_total) + count * (log_rate - log_total)
        return jnp.where(mask, cells, 0).astype(eta.dtype)

    def variance(self, eta: Outputs) -> Cells:
        log_rate, log_r = self._parameters(eta)
        return (jnp.exp(log_rate) + jnp.exp(2 * log_rate - log_r)).astype(eta.dtype)

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        """A Poisson draw at a rate drawn from a gamma."""
        key_rate, key_count = jax.random.split(key)
        log_rate, log_r = self._parameters(eta)
        log_factor = jax.random.loggamma(key_rate, jnp.exp(log_r), log_rate.shape, log_rate.dtype) - log_r
        rate = jnp.minimum(jnp.exp(log_rate + log_factor), LARGEST_RATE)
        return jax.random.poisson(key_count, rate).astype(eta.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        log_rate, log_r = self._parameters(eta)
        count = jnp.floor(y.astype(jnp.float64))
        share = jnp.exp(log_r - jnp.logaddexp(log_rate, log_r))
        below = betainc(jnp.exp(log_r), jnp.maximum(count, 0) + 1, share)
        return jnp.where(count < 0, 0, below).astype(eta.dtype)


def _exposure(exposure: str | None) -> str | None:
    if exposure not in EXPOSURES:
        raise InputError(f'exposure must be None or "rows", the size of a row from its own counts; got {exposure!r}.')
    return exposure


def _with_offset(likelihood, values: np.ndarray, mask: np.ndarray):
    """A column of zeros is taken to hold half a count in a row that was not seen."""
    means = np.nan_to_num(column_means(values, mask), nan=1.0)
    offset = jnp.log(jnp.asarray(np.maximum(means, 0.5 / (mask.sum(axis=0) + 1))))
    return eqx.tree_at(lambda n: n.offset, likelihood, offset, is_leaf=lambda leaf: leaf is None)
