"""An answer with its uncertainty: draws of the decoder's output, seen through the likelihood and the units of y."""

import functools
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from gpbae.errors import GpbaeError, InputError
from gpbae.likelihoods import AbstractLikelihood, part_of
from gpbae.tabular.tables import Frame, Scaler
from gpbae.tabular.transforms import Identity, Transform

NUM_NOISE_DRAWS = 2000
"""Over all draws of η together, between 8 and 32 for each: averaged, noise adds little to the error of those draws."""


class Predictive:
    """Predictive distribution over rows × cells (or over latents, which have no observation noise).

    `mean` and `sd` are in the units and the type of y; `samples` has shape (draws, rows, ...).  Columns of labels have
    `probabilities(column)` instead, and their likeliest label in `point`: their mean, sd and quantiles are NaN, their
    samples are codes.

    Rows beyond `num_rows` are padding: blocks of one shape are compiled once, and the padding is cut off on the way
    out.
    """

    filled: Any

    def __init__(self, eta: np.ndarray, likelihood: AbstractLikelihood | None, scaler: Scaler, frame: Frame,
                 index: Any = None, seed: int = 0, features: dict[str, np.ndarray] | None = None,
                 num_rows: int | None = None):  # fmt: skip
        self._eta, self._likelihood, self._scaler, self._frame = eta, likelihood, scaler, frame
        self._index, self._seed, self._features = index, seed, features or {}
        self._num_rows = eta.shape[2] if num_rows is None else num_rows
        _check_numbers(eta[:, :, : self._num_rows])

    def __repr__(self) -> str:
        S, R, _, _ = self._eta.shape
        return f"<Predictive: {self._num_rows} rows of shape {self._frame.event_shape}, {S * R} draws>"

    def _restore(self, values: np.ndarray) -> Any:
        return self._frame.restore(np.asarray(values[: self._num_rows], np.float64), self._index)

    @property
    def num_draws(self) -> int:
        """Of the posterior; every one may have several of `samples`."""
        return self._eta.shape[0]

    @functools.cached_property
    def _num_columns(self) -> int:
        return int(np.prod(self._frame.event_shape))

    @functools.cached_property
    def kinds(self) -> np.ndarray:
        """What each column holds."""
        if self._likelihood is None:
            return np.full(self._num_columns, "real")
        return np.array(self._likelihood.kinds(self._num_columns))

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """Of each column, or () where none has any."""
        return self._scaler.transforms

    def _numbers(self, values: np.ndarray) -> Any:
        """In the user's kind of table, with classes left out."""
        return self._restore(np.where(self.kinds == "class", np.nan, values))

    @functools.cached_property
    def _means(self) -> np.ndarray:
        """E[y | draw], (S, R, T, P), original units."""
        if self._likelihood is None:
            return np.asarray(self._eta, np.float64)
        means = self._modelled_means() * self._scaler.scale + self._scaler.location
        means[..., self._are_bent] = self._bent_moments[0]
        return means

    def _modelled_means(self) -> np.ndarray:
        """E of what is modelled of y given each draw, (S, R, T, P): transformed, standardised."""
        return np.array(_per_draw(_mean, self._likelihood, self._eta), np.float64)

    def _bent_medians(self) -> np.ndarray:
        """Of columns with a transform, (T, those columns): the median of the draws' medians, for noise is symmetric
        where it is modelled and a monotone map keeps medians.  It is the median of all draws together, without the
        error of sampled noise, as long as these agree to within their noise; where not, `quantile(0.5)` is."""
        return self._scaler.inverse(np.median(self._modelled_means(), axis=(0, 1)))[:, self._are_bent]

    @functools.cached_property
    def _noise(self) -> np.ndarray:
        """E over draws of the observation variance, (T, P), original units."""
        if self._likelihood is None:
            return np.zeros(self._eta.shape[2:])
        variance = _per_draw(_observation_variance, self._likelihood, self._eta)
        noise = np.mean(np.asarray(variance, np.float64), axis=(0, 1)) * self._scaler.scale**2
        noise[:, self._are_bent] = self._bent_moments[1]
        return noise

    @functools.cached_property
    def _are_bent(self) -> np.ndarray:
        """Columns with a transform that is not a line."""
        bent = [not isinstance(t, Identity) for t in self._scaler.transforms]
        return np.array(bent or [False] * self._num_columns)

    @functools.cached_property
    def _bent_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """E[y | draw] and the mean noise variance where the inverse of a transform bends: averages over noise."""
        num_bent = int(self._are_bent.sum())
        total = np.zeros((*self._eta.shape[:3], num_bent))
        squares = np.zeros_like(total)
        num = num_noise_draws(self._eta.shape[0] * self._eta.shape[1])
        for k in range(num if num_bent else 0):
            y = self._noisy(k + 1)[..., self._are_bent]
            total += y
            squares += y**2
        means = total / num
        noise = np.maximum(squares / num - means**2, 0.0)
        return means, noise.mean(axis=(0, 1))

    def _noisy(self, stream: int) -> np.ndarray:
        """One draw of y for every draw of η, (S, R, T, P), original units."""
        keys = jax.random.split(jax.random.key(self._seed + 2**21 + stream), self._eta.shape[0])
        noisy = np.array(_per_draw(_sample, self._likelihood, (self._eta, keys)), np.float64)
        for one in noisy:  # a table at a time stays near the processor, where columns are looked at one by one
            one[...] = self._scaler.inverse(one)
        return noisy

    @functools.cached_property
    def mean(self) -> Any:
        """Predictive mean; of yes and no, the probability of yes.  Labels have none: NaN, and a warning that names
        `point` and `probabilities`, which they have."""
        warn_of_labels(self.labels)
        return self.unwarned_mean

    @functools.cached_property
    def unwarned_mean(self) -> Any:
        """`mean`, for those who know of the labels."""
        return self._numbers(self._means.mean(axis=(0, 1)))

    @functools.cached_property
    def labels(self) -> list[str]:
        """Names of the columns of labels."""
        return [str(name) for name, kind in zip(self._frame.names(), self.kinds, strict=True) if kind == "class"]

    @functools.cached_property
    def sd(self) -> Any:
        """Predictive standard deviation, all sources of uncertainty included."""
        return self._numbers(np.sqrt(self._variance))

    @functools.cached_property
    def _variance(self) -> np.ndarray:
        return self._means.var(axis=(0, 1)) + self._noise

    @functools.cached_property
    def samples(self) -> np.ndarray:
        """Draws of y, observation noise included, (draws, rows, ...)."""
        flat = self._samples[:, : self._num_rows]
        return flat.reshape(*flat.shape[:2], *self._frame.event_shape)

    @functools.cached_property
    def _samples(self) -> np.ndarray:
        """(draws, rows with padding, P)."""
        S, R, T, _ = self._eta.shape
        flat = np.asarray(self._eta, np.float64) if self._likelihood is None else self._noisy(0)
        return flat.reshape(S * R, T, -1)

    def samples_of(self, cells: np.ndarray) -> np.ndarray:
        """Draws of some cells, given as a mask (rows, P): (draws, cells)."""
        return self._samples[:, : self._num_rows][:, cells]

    @functools.cached_property
    def point(self) -> Any:
        """One value for every cell, such as y could hold, in the types of y: the mean of real numbers, the median where
        a transform was modelled and of counts, the most probable class."""
        return self._frame.decode(self.point_values, self._index)

    @functools.cached_property
    def point_values(self) -> np.ndarray:
        """The values of `point` as numbers, (rows, P); a class is its code."""
        best = self._means.mean(axis=(0, 1))
        kinds = self.kinds
        if self._are_bent.any():
            best[:, self._are_bent] = self._bent_medians()
        if (kinds == "count").any():
            draws = self._samples[..., kinds == "count"]
            best[:, kinds == "count"] = np.quantile(draws, 0.5, axis=0, method="inverted_cdf")
        best[:, kinds == "truth"] = best[:, kinds == "truth"] > 0.5
        for column in np.flatnonzero(kinds == "class"):
            best[:, column] = self._probabilities(int(column)).argmax(axis=1)
        return best[: self._num_rows]

    def chances(self, columns: np.ndarray) -> np.ndarray:
        """Of columns of 0 and 1, by position, the probability of 1 in every draw: (draws, rows, columns)."""
        S, R, _, _ = self._eta.shape
        return self._means[:, :, : self._num_rows, columns].reshape(S * R, self._num_rows, len(columns))

    def probabilities(self, column: Any) -> Any:
        """Of a column of classes, by name or position: the probability of each class, (rows, classes)."""
        names = None if self._frame.columns is None else [str(name) for name in self._frame.columns]
        if names is not None and str(column) in names:
            place = names.index(str(column))
        elif isinstance(column, int | np.integer) and 0 <= column < self._num_columns:
            place = int(column)
        else:
            raise InputError(f"probabilities needs a column of y by name or position; got {column!r}.")
        if self.kinds[place] not in ("class", "truth"):
            raise InputError(
                f"Column {column!r} holds {self.kinds[place]} numbers, not classes; use mean and quantile."
            )
        values = self._probabilities(int(place))[: self._num_rows]
        if names is None:
            return values
        import pandas as pd

        coding = None if self._frame.codings is None else self._frame.codings[place]
        labels = list(coding.labels) if coding is not None and coding.labels else list(range(values.shape[1]))
        labels = [False, True] if coding is not None and coding.holds == "truth" else labels
        return pd.DataFrame(values, columns=labels, index=self._index)

    def _probabilities(self, column: int) -> np.ndarray:
        likelihood, place, outputs = part_of(self._likelihood, column, self._num_columns)
        if self.kinds[column] == "truth":
            yes = self._means[..., column].mean(axis=(0, 1))
            return np.stack([1 - yes, yes], axis=-1)
        offset = np.asarray(likelihood.offset)[:, None, None, place]
        logits = np.asarray(self._eta[..., outputs], np.float64) + offset
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (p / p.sum(axis=-1, keepdims=True)).mean(axis=(0, 1))

    def quantile(self, q: float) -> Any:
        """Quantile of the predictive distribution, cell by cell; of whole numbers, a whole number."""
        check_probability("q", q)
        return self._numbers(self._quantiles([q])[0])

    def _quantiles(self, levels: list[float]) -> np.ndarray:
        """(levels, rows, P).

        Of n exchangeable draws and the truth, each is equally often the k-th: cutting at the draw of rank q (n + 1)
        holds the truth as often as it says, also of few draws, where NumPy's own rule is narrow (n = 10: 74 % for 90).
        """
        is_real = self.kinds == "real"
        values = np.empty((len(levels), *self._samples.shape[1:]))
        for method, columns in (("weibull", is_real), ("inverted_cdf", ~is_real)):
            if columns.any():
                values[..., columns] = np.quantile(self._samples[..., columns], levels, axis=0, method=method)
        return values

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Central interval that holds the truth with probability `level`: (lower, upper)."""
        check_probability("level", level)
        low, high = self._quantiles([0.5 - level / 2, 0.5 + level / 2])
        return self._numbers(low), self._numbers(high)

    def variance_parts(self) -> dict[str, Any]:
        """The predictive variance by source; the parts add up to sd².

        *observation noise* and *latent conditional* (the GP's conditional variance and latent noise given a draw) are
        nested expectations.  What varies between draws is attributed in sequence, by regression over the draws: first
        to the *hyper-parameters*, then to the *GP values* (through the latent mean at that row), the rest to the
        *decoder*.  Of given rows, whose latents were sampled themselves, *latents* stands for the GP's two parts.
        """
        if self._likelihood is None:
            return {"latents": self._restore(self._variance)}
        centres = self._means.mean(axis=1)
        within = self._means.var(axis=1).mean(axis=0)
        hyper, rest = _explained(centres - centres.mean(axis=0), self._features.get("hyper"))
        if "latents" in self._features:
            latent, rest = _explained(rest, self._features["latents"])
            of_latents, decoder = {"latents": latent}, np.mean(rest**2, axis=0)
        else:
            latent, rest = _explained(rest, self._features.get("latent_mean"))
            between = np.mean(rest**2, axis=0)
            # The mean of R latents still varies by a share 1/R of their variance, which is not the decoder's.
            of_means = np.minimum(within / max(self._means.shape[1] - 1, 1), between)
            of_latents, decoder = {"latent conditional": within + of_means, "GP values": latent}, between - of_means
        parts = {"observation noise": self._noise, "hyper-parameters": hyper, **of_latents, "decoder": decoder}
        return {name: self._numbers(part) for name, part in parts.items()}

    def log_density(self, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """log of the predictive mixture density of every observed cell, original units; NaN elsewhere.

        It is −∞ where a cell holds what its likelihood or its transform gives no probability, such as a 2 among yes and
        no, or a negative number in a column of logarithms.
        """
        if self._likelihood is None:
            raise ValueError("A predictive over latents has no observation density.")
        S, R, T, _ = self._eta.shape
        padding = ((0, T - self._num_rows), (0, 0))
        y, mask = np.pad(y, padding), np.pad(mask, padding)
        possible = mask & self._scaler.takes(y) & self._likelihood.supports(y)
        known = np.where(possible, y, self._scaler.inverse(np.zeros((1, self._num_columns))))
        target = self._scaler.forward(known).astype(self._eta.dtype)
        seen = tuple(jnp.asarray(np.broadcast_to(a, (R, *a.shape))) for a in (target, possible))
        cells = _per_draw(_log_prob, self._likelihood, self._eta, seen)
        log_mean = logsumexp(jnp.asarray(cells, jnp.float64), axis=0) - np.log(S * R)
        density = np.where(possible, np.asarray(log_mean) + self._scaler.log_slope(known), -np.inf)
        density = np.where(mask, density, np.nan)
        return density[: self._num_rows]


def check_probability(name: str, value: Any) -> None:
    """Percents are a common slip."""
    if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
        is_percent = isinstance(value, numbers.Real) and 1 < value <= 100
        hint = f"Did you mean {value / 100:g}?" if is_percent else "Pass e.g. 0.9."
        raise InputError(f"{name} must be a probability between 0 and 1; got {value!r}. {hint}")


def warn_of_labels(names: Sequence[str]) -> None:
    """Said where a mean is asked for; Python shows it once for every place in a program."""
    if names:
        warnings.warn(
            f"Labels have no mean, so that of {', '.join(names)} is NaN: use .point for the likeliest label, or "
            f".probabilities({names[0]!r}) for the probability of each.",
            stacklevel=4,
        )


def num_noise_draws(num_draws: int) -> int:
    """How many draws of the noise each draw of η gets where a transform bends."""
    return int(np.clip(-(-NUM_NOISE_DRAWS // num_draws), 8, 32))


def _check_numbers(eta: np.ndarray) -> None:
    """NaN is a missing cell in what comes in and nothing in what goes out."""
    if (bad := np.isnan(eta).any(axis=(0, 1, 3))).any():
        raise GpbaeError(
            f"An answer must be made of numbers; {bad.sum()} of {len(bad)} rows, the first of them row "
            f"{np.argmax(bad)}, have draws that are not. Look at diagnostics(), and whether these rows are far from "
            "the fitted ones."
        )


# Named once, so that what is compiled for them is found again.


def _mean(likelihood, eta):
    return likelihood.mean(eta)


def _observation_variance(likelihood, eta):
    return likelihood.variance(eta)


def _sample(likelihood, item):
    eta, key = item
    return likelihood.sample(key, eta)


def _log_prob(likelihood, eta, target, observed):
    return logsumexp(likelihood.log_prob(target, observed, eta), axis=0)


def _per_draw(function, likelihood, items, shared=()):
    """Apply to every draw with its own likelihood; arrays lead with the draw axis, but for what all draws share."""
    return _map_draws(function, likelihood, jax.tree.map(jnp.asarray, items), shared)


@eqx.filter_jit
def _map_draws(function, likelihood, items, shared):
    draws, static = eqx.partition(likelihood, eqx.is_array)
    return jax.lax.map(lambda pair: function(eqx.combine(pair[0], static), pair[1], *shared), (draws, items))


def _explained(values: np.ndarray, features: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Variance over draws (S, T, P) that a linear regression on (S, F) or (S, T, F) features explains, and the rest."""
    S, T, _ = values.shape
    if features is None or features.shape[-1] == 0 or S < 4 * features.shape[-1]:
        return np.zeros(values.shape[1:]), values
    F = np.broadcast_to(features[:, None] if features.ndim == 2 else features, (S, T, features.shape[-1]))
    F = np.swapaxes(F - F.mean(axis=0), 0, 1)
    Y = np.swapaxes(values, 0, 1)
    U, s, _ = np.linalg.svd(F, full_matrices=False)
    U = np.where(s[:, None, :] > 1e-8 * max(float(s.max(initial=0.0)), 1e-300), U, 0.0)
    fitted = np.swapaxes(U @ (np.swapaxes(U, 1, 2) @ Y), 0, 1)
    return np.mean(fitted**2, axis=0), values - fitted
