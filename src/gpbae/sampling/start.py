"""Where a chain begins: latents from principal components, lengthscales and inducing inputs from the data."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.spatial

from gpbae.kernels import AbstractKernel, gram

LARGEST_SUBSAMPLE = 400
LENGTHSCALE_GRID = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
SMOOTH_GRID = LENGTHSCALE_GRID[:4]
"""For what is left of a column: where gaps have made it rough, a path between few inducing inputs would be noise."""
SMALLEST_SHARE = 0.5
LOW_RANK_SHARE = 0.5
NUM_NEIGHBOURS = 24
NUM_ALIKE = 4
ROWS_AT_A_TIME = 4096
_gram = eqx.filter_jit(gram)  # one program, where every operation on its own would be one more to look up


def principal_latents(values: np.ndarray, mask: np.ndarray, latent_dim: int, rng: np.random.Generator) -> np.ndarray:
    """Unit-variance principal component scores of the table with gaps at the column mean; noise beyond its rank."""
    scores, _ = principal_components(values, mask)
    num = min(latent_dim, scores.shape[1])
    z = 0.3 * rng.standard_normal((values.shape[0], latent_dim))
    sd = scores[:, :num].std(axis=0)
    z[:, :num] = np.where(sd > 1e-8, scores[:, :num] / np.where(sd > 1e-8, sd, 1.0), z[:, :num])
    return z


def private_latents(values: np.ndarray, mask: np.ndarray, num_shared: int, rng: np.random.Generator) -> np.ndarray:
    """Principal component scores, and of every column what they leave of its known cells, with unit variance."""
    z = principal_latents(values, mask, num_shared, rng)
    return np.column_stack([z, *(_left_of(y, seen, z) for y, seen in zip(values.T, mask.T, strict=True))])


def _left_of(column: np.ndarray, seen: np.ndarray, latents: np.ndarray) -> np.ndarray:
    """Residuals of a regression on latents, zero where nothing is known."""
    rest = np.zeros(len(column))
    if seen.any():
        told = np.linalg.lstsq(latents[seen], column[seen], rcond=None)[0]
        rest[seen] = column[seen] - latents[seen] @ told
    return rest / max(rest[seen].std() if seen.any() else 0.0, 1e-3)


def spatial_latents(values: np.ndarray, mask: np.ndarray, event_shape: tuple[int, ...], latent_dim: int,
                    rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Centre of mass of every image (rows, then columns), then principal components: small things that move are not
    a low-rank table, so principal components alone miss where they are.

    Also says which images have one: where most of the usual mass is out of the picture, the centre of the rest is not
    where the thing is.
    """
    height, width = event_shape[:2]
    mass = np.where(mask, np.abs(values - np.median(values[mask])), 0.0).reshape(len(values), height, width, -1).sum(-1)
    total = mass.sum(axis=(1, 2))
    rows = mass.sum(axis=2) @ np.arange(height) / np.maximum(total, 1e-12)
    columns = mass.sum(axis=1) @ np.arange(width) / np.maximum(total, 1e-12)
    centre = np.stack([rows, columns], axis=1)
    found = (total >= SMALLEST_SHARE * np.median(total)) & (total > 1e-12)
    centre = np.where(found[:, None], centre, centre[found].mean(axis=0, keepdims=True))
    sd = centre[found].std(axis=0)
    standard = (centre - centre[found].mean(axis=0)) / np.where(sd > 1e-8, sd, 1.0)
    rest = principal_latents(values, mask, latent_dim, rng)
    return np.concatenate([standard, rest], axis=1)[:, :latent_dim], found


def on_their_paths(latents: np.ndarray, told: np.ndarray, x: np.ndarray, codes: np.ndarray,
                   kernels: Sequence[AbstractKernel], rng: np.random.Generator) -> np.ndarray:  # fmt: skip
    """What no cell speaks of, rows (N,) or single latents of rows (N, C), starts where a GP through the nearest rows of
    its group passes, not at zero, where it would hold it; every latent on a path of its own kernel, where there are
    several."""
    told = np.broadcast_to(told.reshape(len(told), -1), latents.shape)
    if told.all() or not told.any():
        return np.where(told, latents, 0.0)
    own = zip(*(by_kernel(a, len(kernels)) for a in (latents, told)), kernels, strict=True)
    return np.concatenate([_on_path(z, t[:, 0], x, codes, k, rng) for z, t, k in own], axis=1)


def _on_path(latents, told, x, codes, kernel, rng):
    out = np.where(told[:, None], latents, 0.0)
    if told.all() or not told.any():
        return out
    chosen = choose_lengthscale(kernel, x[told], latents[told], codes[told], rng)
    features = np.asarray(chosen.features(jnp.asarray(x)))
    for group in np.unique(codes[~told]):
        gone, kept = np.flatnonzero(~told & (codes == group)), np.flatnonzero(told & (codes == group))
        for rows in np.array_split(gone, -(-len(gone) // ROWS_AT_A_TIME)) if len(kept) else ():
            out[rows] = _conditional_means(chosen, features, latents, rows, kept)
    return out


def _conditional_means(kernel, features, latents, gone, kept, noise=0.01):
    """Means at some rows of a GP given the latents of the nearest others."""
    spread = np.where(features.std(axis=0) > 0, features.std(axis=0), 1.0)
    num = min(NUM_NEIGHBOURS, len(kept))
    _, nearest = scipy.spatial.cKDTree(features[kept] / spread).query(features[gone] / spread, k=num)
    near = kept[nearest.reshape(len(gone), num)]
    both = features[np.concatenate([near, gone[:, None]], axis=1)]
    K = np.asarray(jax.vmap(lambda f: gram(kernel, f, f))(jnp.asarray(both)))
    variance = np.mean(np.diagonal(K, axis1=1, axis2=2))
    covariance = K[:, :-1, :-1] + noise * (variance if variance > 0 else 1.0) * np.eye(num)
    return np.einsum("rm,rmc->rc", np.linalg.solve(covariance, K[:, :-1, -1:])[..., 0], latents[near])


def is_low_rank(values: np.ndarray, mask: np.ndarray, latent_dim: int) -> bool:
    """Whether principal components say most of what the table says; a centre of mass would then only displace them."""
    _, variance = principal_components(values, mask)
    return bool(variance[:latent_dim].sum() >= LOW_RANK_SHARE * variance.sum())


def is_smoother(first: np.ndarray, second: np.ndarray, kernels: Sequence[AbstractKernel], x: np.ndarray,
                codes: np.ndarray, rng: np.random.Generator) -> bool:  # fmt: skip
    """Whether GPs over the inputs, one for all latents or one for each, explain the first latents better."""
    rows = _whole_groups(codes, rng)
    same = codes[rows][:, None] == codes[rows][None]

    def score(kernel, z):
        grid = [kernel.initialise(x, lengthscale_scale=s) for s in LENGTHSCALE_GRID]
        return max(_log_marginal(k, x[rows], z[rows], same) for k in grid)

    scores = [sum(score(k, z) for k, z in zip(kernels, by_kernel(latents, len(kernels)), strict=True))
              for latents in (first, second)]  # fmt: skip
    return scores[0] > scores[1]


def is_clearer(first: np.ndarray, second: np.ndarray, values: np.ndarray, mask: np.ndarray) -> bool:
    """Whether rows that are neighbours in the first latents look more alike than neighbours in the second: a map that
    lies folded over the rows puts different ones side by side."""
    rows = np.arange(len(values))[:: max(1, len(values) // (2 * LARGEST_SUBSAMPLE))]
    cells = np.where(mask, values, 0.0)[rows]
    num = min(NUM_ALIKE, len(rows) - 1)

    def error(latents):
        _, near = scipy.spatial.cKDTree(latents[rows]).query(latents[rows], k=num + 1)
        return np.mean((cells[near[:, 1:]].mean(axis=1) - cells) ** 2)

    return num > 0 and bool(error(first) < error(second))


def by_kernel(latents: np.ndarray, num_kernels: int) -> list[np.ndarray]:
    """The latents of each kernel: all of one, or one of each."""
    return np.split(latents, num_kernels, axis=1)


def principal_components(values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores (N, r) and the variance of each."""
    count = np.maximum(mask.sum(axis=0), 1)
    centre = np.where(mask, values, 0.0).sum(axis=0) / count
    filled = np.where(mask, values - centre, 0.0)
    if filled.shape[1] > filled.shape[0]:
        variance, vectors = scipy.linalg.eigh(filled @ filled.T)
        order = np.argsort(variance)[::-1]
        spread = np.maximum(variance[order], 0.0)
        return vectors[:, order] * np.sqrt(spread), spread / len(filled)
    variance, vectors = scipy.linalg.eigh(filled.T @ filled)
    order = np.argsort(variance)[::-1]
    return filled @ vectors[:, order], np.maximum(variance[order], 0.0) / len(filled)


def choose_latent_dim(values: np.ndarray, mask: np.ndarray, share: float = 0.9, most: int = 8) -> int:
    """As many latents as principal components are needed for most of the variance."""
    variance = _variances(values, mask)
    total = variance.sum()
    if total <= 0:
        return 1
    needed = int(np.searchsorted(np.cumsum(variance) / total, share) + 1)
    return max(1, min(needed, most, values.shape[1]))


def _variances(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Of the principal components; each covariance from the rows that have both cells, for a gap that counts as a zero
    would look like a component of its own."""
    if mask.all() or values.shape[1] > values.shape[0]:
        return principal_components(values, mask)[1]
    centre = np.where(mask, values, 0.0).sum(axis=0) / np.maximum(mask.sum(axis=0), 1)
    filled, seen = np.where(mask, values - centre, 0.0), mask.astype(float)
    covariance = (filled.T @ filled) / np.maximum(seen.T @ seen, 1.0)
    return np.maximum(scipy.linalg.eigvalsh(covariance)[::-1], 0.0)


def choose_lengthscale(kernel: AbstractKernel, x: np.ndarray, z: np.ndarray, codes: np.ndarray,
                       rng: np.random.Generator, grid: Sequence[float] = LENGTHSCALE_GRID
                       ) -> AbstractKernel:  # fmt: skip
    """Unset lengthscales: the median heuristic, shortened to where a GP explains the starting latents best."""
    rows = _whole_groups(codes, rng)
    same = codes[rows][:, None] == codes[rows][None]
    candidates = [kernel.initialise(x, lengthscale_scale=s) for s in grid]
    scores = [_log_marginal(k, x[rows], z[rows], same) for k in candidates]
    return candidates[int(np.argmax(scores))]


def _whole_groups(codes, rng):
    """A random set of rows made of whole groups, or of neighbours where a group is large."""
    rows: list[np.intp] = []
    for g in rng.permutation(int(codes.max()) + 1):
        rows.extend(np.flatnonzero(codes == g))
        if len(rows) >= LARGEST_SUBSAMPLE:
            break
    stride = max(1, len(rows) // LARGEST_SUBSAMPLE) if len(rows) > 4 * LARGEST_SUBSAMPLE else 1
    return np.asarray(rows)[::stride][: 2 * LARGEST_SUBSAMPLE]


def _log_marginal(kernel, x, z, same, noise=0.1):
    """log N(z; 0, K + noise I) per channel, up to a constant."""
    f = kernel.features(jnp.asarray(x))
    K = np.where(same, np.asarray(_gram(kernel, f, f)), 0.0)
    L = np.linalg.cholesky(K + noise * np.mean(np.diag(K)) * np.eye(len(K)))
    w = scipy.linalg.solve_triangular(L, z, lower=True)
    return -0.5 * float((w**2).sum()) - z.shape[1] * float(np.log(np.diag(L)).sum())


def inducing_inputs(features: np.ndarray, num: int, rng: np.random.Generator) -> np.ndarray:
    """An even grid in one dimension, k-means centres beyond; exact copies are nudged apart."""
    if features.shape[1] == 1:
        low, high = features.min(), features.max()
        return np.linspace(low, high, num)[:, None] if high > low else _nudged(np.full((num, 1), low), rng)
    from scipy.cluster.vq import kmeans2

    distinct = np.unique(features, axis=0)
    if len(distinct) <= num:
        repeats = distinct[rng.integers(len(distinct), size=num - len(distinct))]
        return _nudged(np.concatenate([distinct, repeats]), rng)
    scale = np.where(features.std(axis=0) > 0, features.std(axis=0), 1.0)
    centres, _ = kmeans2(distinct / scale, num, minit="++", seed=rng, missing="warn")
    return _nudged(centres * scale, rng)


def _nudged(inducing, rng):
    width = np.ptp(inducing, axis=0)
    return inducing + 1e-3 * np.where(width > 0, width, 1.0) * rng.standard_normal(inducing.shape)
