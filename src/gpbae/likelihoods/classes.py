"""Likelihoods of classes: yes or no, and one of several."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Bool, Float, Key

from gpbae.errors import InputError
from gpbae.likelihoods.base import AbstractLikelihood, Cells, Kind, Mask, Outputs, first_bad


@jax.custom_jvp
def softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 + eˣ) to within the rounding of 1, with one exponential for the value and its slope."""
    return _softplus_and_slope(x)[0]


@softplus.defjvp
def _softplus_jvp(primals, tangents):
    value, slope = _softplus_and_slope(primals[0])
    return value, slope * tangents[0]


def _softplus_and_slope(x):
    """Both from the exponential of −|x|, which cannot overflow."""
    e = jnp.exp(-jnp.abs(x))
    return jnp.maximum(x, 0) + jnp.log(1 + e), jnp.where(x >= 0, 1, e) / (1 + e)


class Bernoulli(AbstractLikelihood):
    """y ∈ {0, 1} with log-odds η + o, o those of the column in the table: what a decoder knows nothing of is as likely
    as in the other rows, not a coin's toss."""

    offset: Float[Array, " P"] | None

    def __init__(self) -> None:
        self.offset = None

    def kinds(self, num_columns: int) -> tuple[Kind, ...]:
        return ("truth",) * num_columns

    def supports(self, values: np.ndarray) -> np.ndarray:
        return np.isin(values, (0.0, 1.0))

    def check(self, values: np.ndarray, mask: np.ndarray, names: tuple[str, ...]) -> None:
        if (bad := first_bad(self.supports(values), mask)) is not None:
            raise InputError(
                f"Bernoulli needs cells that are 0, 1 or NaN; got {values[bad]:g} in column {names[bad[1]]}. "
                "Use Gaussian()."
            )

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "Bernoulli":
        share = (np.where(mask, values, 0).sum(axis=0) + 0.5) / (mask.sum(axis=0) + 1.0)
        log_odds = jnp.asarray(scipy.special.logit(share))
        return eqx.tree_at(lambda b: b.offset, self, log_odds, is_leaf=lambda leaf: leaf is None)

    def log_odds(self, eta: Outputs) -> Cells:
        """η itself before a table was seen."""
        return eta if self.offset is None else eta + jnp.broadcast_to(self.offset.astype(eta.dtype), eta.shape)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        y, odds = jnp.where(mask, y, 0), self.log_odds(eta)
        return jnp.where(mask, y * odds - softplus(odds), 0)

    def mean(self, eta: Outputs) -> Cells:
        return jax.nn.sigmoid(self.log_odds(eta))

    def variance(self, eta: Outputs) -> Cells:
        p = self.mean(eta)
        return p * (1 - p)

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        return jax.random.bernoulli(key, self.mean(eta)).astype(eta.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        return jnp.where(y < 0, 0, jnp.where(y < 1, jax.nn.sigmoid(-self.log_odds(eta)), 1)).astype(eta.dtype)

    def link(self, y: Cells) -> Outputs:
        y = 4 * (y - 0.5)
        return y - (self.log_odds(y) - y)


class Categorical(AbstractLikelihood):
    """y ∈ {0, …, k − 1} with p(y = c) ∝ f_c exp(η_c): k outputs per column, so that no class is special.

    f are the shares of the classes in the table.  The mean and variance are those of the code, which means something
    only where codes are in order.
    """

    num_classes: int | None = eqx.field(static=True)
    offset: Float[Array, "P k"] | None

    def __init__(self, num_classes: int | None = None):
        if num_classes is not None and not num_classes >= 2:
            raise InputError(f"Categorical needs at least 2 classes; got {num_classes}. Leave such a column out.")
        self.num_classes = None if num_classes is None else int(num_classes)
        self.offset = None

    def kinds(self, num_columns: int) -> tuple[Kind, ...]:
        return ("class",) * num_columns

    def supports(self, values: np.ndarray) -> np.ndarray:
        most = np.inf if self.num_classes is None else self.num_classes - 1
        return (values >= 0) & (values <= most) & (values == np.round(values))

    def check(self, values: np.ndarray, mask: np.ndarray, names: tuple[str, ...]) -> None:
        if (bad := first_bad(self.supports(values), mask)) is not None:
            upto = "up" if self.num_classes is None else f"to {self.num_classes - 1}"
            raise InputError(
                f"Categorical needs labels, or codes from 0 {upto}; got {values[bad]:g} in column {names[bad[1]]}. "
                "Pass that column as text."
            )

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "Categorical":
        k = self.num_classes or max(2, int(np.where(mask, values, 0).max()) + 1)
        observed = (values[..., None] == np.arange(k)) & mask[..., None]
        share = (observed.sum(axis=0) + 1.0) / (mask.sum(axis=0)[:, None] + k)
        sized = eqx.tree_at(lambda c: c.offset, self, jnp.asarray(np.log(share)), is_leaf=lambda leaf: leaf is None)
        return _with_classes(sized, k)

    def owners(self, num_columns: int) -> np.ndarray:
        return np.repeat(np.arange(num_columns), self.num_classes or 1)

    def log_probabilities(self, eta: Outputs) -> Float[Array, "*rows P k"]:
        offset = self.offset
        assert offset is not None, "initialise comes first"
        logits = eta.reshape(*eta.shape[:-1], *offset.shape)
        return jax.nn.log_softmax(logits + jnp.broadcast_to(offset.astype(eta.dtype), logits.shape), axis=-1)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        code = jnp.where(mask, y, 0).astype(jnp.int32)[..., None]
        return jnp.where(mask, jnp.take_along_axis(self.log_probabilities(eta), code, axis=-1)[..., 0], 0)

    def _moment(self, eta: Outputs, power: int) -> Cells:
        p = jnp.exp(self.log_probabilities(eta))
        return p @ jnp.arange(p.shape[-1], dtype=p.dtype) ** power

    def mean(self, eta: Outputs) -> Cells:
        return self._moment(eta, 1)

    def variance(self, eta: Outputs) -> Cells:
        return self._moment(eta, 2) - self._moment(eta, 1) ** 2

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        return jax.random.categorical(key, self.log_probabilities(eta)).astype(eta.dtype)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        p = jnp.exp(self.log_probabilities(eta))
        codes = jnp.broadcast_to(jnp.arange(p.shape[-1], dtype=p.dtype), p.shape)
        return jnp.sum(jnp.where(codes <= y[..., None], p, 0), axis=-1)

    def _one_hot(self, y: Cells) -> Float[Array, "*rows P k"]:
        return jax.nn.one_hot(y.astype(jnp.int32), self.num_classes or 1, dtype=y.dtype)

    def link(self, y: Cells) -> Outputs:
        offset = self.offset
        assert offset is not None, "initialise comes first"
        hot = self._one_hot(y)
        return (6 * hot - jnp.broadcast_to(offset.astype(y.dtype), hot.shape)).reshape(*y.shape[:-1], -1)

    def features(self, y: Cells, mask: Mask) -> tuple[Outputs, Bool[Array, "*rows H"]]:
        """One column of zeros and ones per class."""
        hot = self._one_hot(jnp.where(mask, y, 0))
        known = jnp.broadcast_to(mask[..., None], hot.shape)
        flat = (*y.shape[:-1], -1)
        return jnp.where(known, hot, 0).reshape(flat), known.reshape(flat)


def _with_classes(likelihood: Categorical, num_classes: int) -> Categorical:
    """The number of classes is part of the structure, not a leaf."""
    sized = object.__new__(Categorical)
    object.__setattr__(sized, "num_classes", num_classes)
    object.__setattr__(sized, "offset", likelihood.offset)
    return sized
