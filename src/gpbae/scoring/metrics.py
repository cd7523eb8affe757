"""Scores of predictions against held-out cells, each a plain function of NumPy arrays."""

from collections.abc import Callable

import numpy as np
from scipy import stats

TIES = 0x71E5
"""A stream that nobody else draws from: tables are often made with seed 0, and would fall in step."""


def mae(mean: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.abs(mean - truth)))


def rmse(mean: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - truth) ** 2)))


def smse(mean: np.ndarray, truth: np.ndarray) -> float:
    """Squared error over that of the truth's own mean; NaN where the truth does not vary."""
    variance = np.mean((truth - truth.mean()) ** 2)
    return float(np.mean((mean - truth) ** 2) / variance) if variance > 0 else float("nan")


def gaussian_nll(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> float:
    """The paper's NLL: a normal with the predictive mean and variance."""
    return float(-np.mean(stats.norm.logpdf(truth, mean, sd)))


def crps(samples: np.ndarray, truth: np.ndarray) -> float:
    """Continuous ranked probability score, averaged over cells."""
    return float(np.mean(crps_of_cells(samples, truth)))


def crps_of_cells(samples: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of each cell from draws (S, cells):  E|Y − y| − ½ E|Y − Y′|, without bias."""
    S = samples.shape[0]
    ordered = np.sort(samples, axis=0)
    weights = (2 * np.arange(1, S + 1) - S - 1)[:, None]
    spread = 2 * np.sum(weights * ordered, axis=0) / (S * max(S - 1, 1))
    return np.mean(np.abs(samples - truth), axis=0) - 0.5 * spread


def crps_of_quantiles(quantile: Callable[[float], np.ndarray], truth: np.ndarray, num: int = 200) -> np.ndarray:
    """CRPS of each cell from quantiles q_τ:  2 ∫ (1[y < q_τ] − τ)(q_τ − y) dτ, by the midpoint rule."""
    total = np.zeros(np.shape(truth))
    for level in (np.arange(num) + 0.5) / num:
        q = quantile(level)
        total += ((truth < q) - level) * (q - truth)
    return 2 * total / num


def brier_of_cells(samples: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Brier score of classes from draws of their codes (S, cells):  Σ_c (p_c − 1[y = c])² = 1 − 2 p_y + Σ_c p_c²."""
    shares = np.stack([np.mean(samples == code, axis=0) for code in np.union1d(np.unique(samples), truth)])
    of_truth = np.mean(samples == truth, axis=0)
    return 1 - 2 * of_truth + np.sum(shares**2, axis=0)


def gaussian_crps(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """CRPS of N(mean, sd²) cell by cell:  sd · (z (2Φ(z) − 1) + 2φ(z) − 1/√π),  z = (y − mean)/sd."""
    z = (truth - mean) / sd
    return sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))


def coverage(samples: np.ndarray, truth: np.ndarray, level: float) -> float:
    """Share of cells inside the central interval of the draws, cut at ranks q (n + 1) as `Predictive.interval` is."""
    lower, upper = np.quantile(samples, [0.5 - level / 2, 0.5 + level / 2], axis=0, method="weibull")
    return float(np.mean((truth >= lower) & (truth <= upper)))


def pit(samples: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Probability integral transform from S draws: where the truth falls among them, (rank + u)/(S + 1) with u uniform
    and with a part of the draws that equal it, as counts do.

    Truth and draws of a calibrated model are exchangeable, so this is exactly uniform however few the draws are; the
    share of draws below the truth would have S + 1 values, which bins of a histogram share unevenly.
    """
    below, equal = np.sum(samples < truth, axis=0), np.sum(samples == truth, axis=0)
    num = len(samples) + 1
    return randomised_pit(below / num, (equal + 1) / num, parts_of_ties(np.shape(below)))


def num_bins(num_cells: int, num_draws: int = 10**9) -> int:
    """Of a PIT histogram: some twenty cells in each, no more than there are places among the draws, from 5 to 20."""
    return int(np.clip(min(num_cells // 20, num_draws + 1), 5, 20))


def band_of_bins(num_cells: int, num_bins: int, level: float = 0.99) -> tuple[float, float]:
    """Between which densities a bar of a calibrated histogram lies with this probability: a bin holds a binomial number
    of the cells."""
    law = stats.binom(max(num_cells, 1), 1 / num_bins)
    low, high = law.ppf(0.5 - level / 2), law.ppf(0.5 + level / 2)
    return float(low) * num_bins / max(num_cells, 1), float(high) * num_bins / max(num_cells, 1)


def parts_of_ties(shape: tuple[int, ...]) -> np.ndarray:
    """Fixed uniform numbers, one for each cell of a table."""
    return np.random.default_rng(TIES).uniform(size=shape)


def randomised_pit(below: np.ndarray, equal: np.ndarray, part: np.ndarray) -> np.ndarray:
    """P(Y < y) and a random part of P(Y = y): halves would not be uniform."""
    return below + part * equal


def circular_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two angles spread around the circle:  |E e^{i(a−b)}| − |E e^{i(a+b)}|, −1 where b runs backwards.

    It does not change when either angle is turned, which latents are known up to.
    """
    return float(np.abs(np.mean(np.exp(1j * (a - b)))) - np.abs(np.mean(np.exp(1j * (a + b)))))


def clustered_margin(values: np.ndarray, cluster: np.ndarray, level: float = 0.95) -> float:
    """Half the interval of a mean of values that belong together in clusters, and are independent between them: that of
    Student's t with G − 1 degrees times √(G/(G−1) Σ_g (Σ_{i∈g} (vᵢ − v̄))²) / n; NaN for a single cluster."""
    from scipy.special import stdtrit

    sums = np.bincount(np.unique(cluster, return_inverse=True)[1].ravel(), weights=values - np.mean(values))
    if (num := len(sums)) < 2:
        return float("nan")
    return float(stdtrit(num - 1, 0.5 + level / 2) * np.sqrt(num / (num - 1) * np.sum(sums**2)) / len(values))
