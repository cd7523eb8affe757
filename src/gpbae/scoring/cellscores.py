"""Scores of single cells, from draws or from the closed form of a normal, and their averages."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from gpbae.scoring import metrics

LEVELS = (0.5, 0.8, 0.9, 0.95)
IMPOSSIBLE = "impossible"


class CellScores(NamedTuple):
    """Of every hidden cell: the error of what fills it, minus the log density, CRPS, where the truth fell (PIT), and 1
    where it lies beyond all draws, so that no interval cut from them can hold it."""

    error: Float[np.ndarray, " n"]
    nlpd: Float[np.ndarray, " n"]
    crps: Float[np.ndarray, " n"]
    pit: Float[np.ndarray, " n"]
    beyond: Float[np.ndarray, " n"]


def of_draws(mean: np.ndarray, samples: np.ndarray, log_density: np.ndarray, truth: np.ndarray,
             are_classes: np.ndarray | None = None) -> CellScores:  # fmt: skip
    """Scores of draws (S, n) whose density is known; a class is right or wrong, its CRPS is half the Brier score."""
    crps, pit = metrics.crps_of_cells(samples, truth), metrics.pit(samples, truth)
    error, beyond = mean - truth, (truth < samples.min(axis=0)) | (truth > samples.max(axis=0))
    if are_classes is not None and are_classes.any():
        error = np.where(are_classes, error != 0, error)
        crps[are_classes] = 0.5 * metrics.brier_of_cells(samples[:, are_classes], truth[are_classes])
        pit = np.where(are_classes, np.nan, pit)
    return CellScores(error, -log_density, crps, pit, beyond.astype(float))


def of_normal(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> CellScores:
    """Scores of a normal distribution, in closed form."""
    law = stats.norm(mean, sd)
    crps = metrics.gaussian_crps(mean, sd, truth)
    return CellScores(mean - truth, -law.logpdf(truth), crps, law.cdf(truth), np.zeros_like(crps))


def of_bent(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray, transform: Any, part: np.ndarray) -> CellScores:
    """Scores of y whose transform is normal: the error of the median, as the model's, the density with the slope of the
    transform; what it does not take has none, and lies below everything else.  Where the least value has the mass of
    all that would lie below it, its PIT has `part` of that."""
    median = transform.inverse(mean)
    possible = transform.takes(truth)
    inside = np.where(possible, truth, median)
    z = (transform.forward(inside) - mean) / sd
    nlpd = np.where(possible, np.log(sd) - stats.norm.logpdf(z) - transform.log_slope(inside), np.inf)
    crps = metrics.crps_of_quantiles(lambda q: transform.inverse(mean + sd * stats.norm.ppf(q)), truth)
    pit = np.where(possible, stats.norm.cdf(z), 0.0)
    pit = np.where(possible & (truth == transform.inverse(np.full_like(truth, -np.inf))), part * pit, pit)
    return CellScores(median - truth, nlpd, crps, pit, np.zeros_like(crps))


def of_whole(
    mean: np.ndarray, sd: np.ndarray, truth: np.ndarray, largest: np.ndarray | float, part: np.ndarray
) -> CellScores:
    """Scores of a normal rounded to whole numbers from 0 to `largest`, which get what lies beyond them; the PIT of a
    whole number has `part` of its mass, as random as that of draws."""
    upper = np.where(truth >= largest, np.inf, (truth + 0.5 - mean) / sd)
    lower = np.where(truth <= 0, -np.inf, (np.ceil(truth) - 0.5 - mean) / sd)
    possible = (truth >= 0) & (truth <= largest) & (truth == np.round(truth))
    nlpd = np.where(possible, -_log_mass(lower, upper), np.inf)
    below = np.where(truth > largest, 1.0, stats.norm.cdf(lower))
    pit = metrics.randomised_pit(below, np.where(possible, stats.norm.cdf(upper) - below, 0.0), part)
    crps = metrics.crps_of_quantiles(lambda q: np.clip(np.round(mean + sd * stats.norm.ppf(q)), 0, largest), truth)
    return CellScores(mean - truth, nlpd, crps, pit, np.zeros_like(crps))


def _log_mass(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """log (Φ(upper) − Φ(lower)), on the side of the centre where neither is nearly 1."""
    flip = lower > 0
    lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    top, bottom = stats.norm.logcdf(upper), stats.norm.logcdf(lower)
    return top + np.log(-np.expm1(np.minimum(bottom - top, -1e-300)))


def summary(scores: CellScores, unit: np.ndarray | float, variance: np.ndarray | float) -> dict[str, Any]:
    """Averages; errors and CRPS in `unit`s, SMSE over the `variance` of the truth where that is above 0.

    A cell without a number leaves no NLPD and no CRPS to give.  `impossible` counts cells whose density is zero, which
    make the NLPD infinite.
    """
    error = scores.error / unit
    variance = np.broadcast_to(variance, error.shape)
    ordered = np.isfinite(scores.pit)  # labels have no order, so no interval
    away = np.where(scores.beyond > 0, np.inf, np.abs(scores.pit - 0.5))[ordered]
    inside = {f"coverage{round(100 * q)}": _mean(away <= q / 2) for q in LEVELS}
    return {
        "mae": float(np.mean(np.abs(error))),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "smse": _mean(scores.error[variance > 0] ** 2 / variance[variance > 0]),
        "nlpd": _mean(scores.nlpd),
        "crps": _mean(scores.crps / unit),
        **inside,
        "cells": len(error),
        IMPOSSIBLE: int(np.isposinf(scores.nlpd).sum()),
    }


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
