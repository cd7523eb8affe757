"""Counts of genes over a tissue:  python benchmarks/real_bulb.py [map.png]

The 200 most variable genes of the mouse olfactory bulb at 260 spots, a tenth of the counts hidden; scores beside a
constant rate per gene and principal components smoothed by a GP, and draws the latents as maps: docs/real-data.md.
"""

import sys
import time

import numpy as np
from scipy import optimize, stats
from scipy.cluster.vq import kmeans2

from gpbae import SGPBAE
from gpbae.data import mouse_olfactory_bulb
from gpbae.kernels import Matern32
from gpbae.likelihoods import NegativeBinomial


def rate_of_constant(y, known):
    """A rate per gene times the size of the spot, both from the known counts."""
    counts = np.where(known, y, 0.0)
    share = counts.sum(axis=0) / known.sum(axis=0)
    size = (counts.sum(axis=1) + 1) / ((known * share).sum(axis=1) + 1)
    return size[:, None] * counts.sum(axis=0) / (known * size[:, None]).sum(axis=0)


def rate_of_components(x, y, known, num):
    """Principal components of the log ratios to the constant rate, each smoothed along the tissue by a GP."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    constant = rate_of_constant(y, known)
    ratio = np.where(known, np.log((y + 0.5) / (constant + 0.5)), 0.0)
    left, spread, right = np.linalg.svd(ratio, full_matrices=False)
    kernel = ConstantKernel(1.0) * Matern(5.0, nu=1.5) + WhiteKernel(0.3)
    smooth = [GaussianProcessRegressor(kernel, normalize_y=True).fit(x, u).predict(x) for u in left[:, :num].T]
    rate = constant * np.exp(np.stack(smooth, axis=1) * spread[:num] @ right[:num] / known.mean())
    return rate * np.where(known, y, 0).sum(axis=0) / np.where(known, rate, 0).sum(axis=0)


def log_density(rate, y, known):
    """Of the hidden counts, negative binomials whose dispersion is that of the gene's known counts."""
    found = np.zeros(y.shape)
    for j, (counts, rates, seen) in enumerate(zip(y.T, rate.T, known.T, strict=True)):
        best = optimize.minimize_scalar(lambda log_r, c, m: -_log_mass(c, m, log_r).sum(),
                                        args=(counts[seen], rates[seen]), bounds=(-3, 8), method="bounded")  # fmt: skip
        found[:, j] = _log_mass(counts, rates, best.x)
    return found[~known]


def _log_mass(counts, rates, log_r):
    return stats.nbinom.logpmf(counts, np.exp(log_r), 1 / (1 + rates * np.exp(-log_r)))


def share_by_depth(x, z):
    """Variance of each latent that a curve of the depth below the edge explains; the section shows two bulbs."""
    centres, bulb = kmeans2(x, 2, minit="++", seed=0)
    away = x - centres[bulb]
    radius, angle = np.hypot(*away.T), np.arctan2(*away.T)
    edge = [radius[(bulb == b) & (np.cos(angle - a) > np.cos(0.3))].max() for a, b in zip(angle, bulb, strict=True)]
    basis = np.vander(radius / edge, 5)
    residual = z - basis @ np.linalg.lstsq(basis, z, rcond=None)[0]
    return 1 - residual.var(axis=0) / z.var(axis=0)


if __name__ == "__main__":
    bulb = mouse_olfactory_bulb()
    chosen = set(bulb.log_normalised(200)[1])
    y = bulb.y[:, [gene in chosen for gene in bulb.genes]].astype(float)
    known = np.random.default_rng(0).random(y.shape) >= 0.1
    given = np.where(known, y, np.nan)
    model = SGPBAE(latent_dim=4, kernel=Matern32(lengthscale=5.0), num_inducing=64,
                   likelihood=NegativeBinomial(exposure="rows"), num_chains=1, num_warmup=60, num_samples=60,
                   thinning=1)  # fmt: skip
    started = time.process_time()
    model.fit(bulb.x, given)
    print(f"fit: {time.process_time() - started:.0f} s of processor time", flush=True)
    answer = model.impute(bulb.x, given)
    low, high = (end[~known] for end in answer.interval(0.9))
    own = answer.log_density(y, ~known)[~known]
    print(f"{(~known).sum()} hidden counts: log density {own.mean():.3f}, 90% intervals hold "
          f"{np.mean((low <= y[~known]) & (y[~known] <= high)):.1%}", flush=True)  # fmt: skip
    constant = log_density(rate_of_constant(y, known), y, known)
    gain = own - constant
    print(
        f"  a constant per gene {constant.mean():.3f} (gain {gain.mean():.3f} ± {gain.std() / np.sqrt(len(gain)):.3f})"
    )
    for num in (2, 4, 8):
        rival = log_density(rate_of_components(bulb.x, y, known, num), y, known).mean()
        print(f"  {num} principal components and a GP {rival:.3f}", flush=True)
    latents = np.asarray(model.encode(bulb.x, given).mean)
    print("variance of the latents by depth below the edge:", share_by_depth(bulb.x, latents).round(2))
    print("\n".join(model.diagnostics().attrs["warnings"]))
    if len(sys.argv) > 1:
        from gpbae import plots

        plots.maps(model).savefig(sys.argv[1], dpi=70)
