"""Simple ways to fill a table, each with a spread, so that a model has something to beat.

A rival fills gaps (NaN) of standardised columns.  Those that know no spread of their own get one per column, from
cells that are hidden from them once more, in the same way as those they are scored on.  Where the model transforms a
column, its rivals may too: each takes the scale on which it does better on those cells.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from gpbae.tabular.tables import fit_scaler
from gpbae.tabular.transforms import Identity, Transform

Cells = Float[np.ndarray, "N P"]
Inputs = Float[np.ndarray, "N D"]
Codes = Int[np.ndarray, " N"]
LARGEST_SEARCH, LARGEST_SOLVE = 250, 400
NUM_RUNS = 5
"""Of neighbours that lengthscales are looked for in: near cells say how short they are, far ones how long."""
FEWEST_ERRORS = 5
MANY_COLUMNS = 200
SLOW_ON_MANY_COLUMNS = ("iterative ridge", "GP per column")
NOISE_SHARES = (0.001, 0.01, 0.05, 0.2, 0.6)


class Filled(NamedTuple):
    """A normal distribution for every cell, of what the column's transform makes of it; () is no transform at all."""

    mean: Cells
    sd: Cells
    transforms: tuple[Transform, ...] = ()


Rival = Callable[[Inputs | None, Codes, Cells], Cells | Filled]


def column_mean(x: Inputs | None, codes: Codes, y: Cells) -> Cells:
    return np.zeros_like(y)  # columns are standardised


def linear_interpolation(x: Inputs | None, codes: Codes, y: Cells) -> Cells:
    """Between neighbours along x in the same group, constant beyond the ends."""
    assert x is not None
    filled = np.zeros_like(y)
    for rows in _groups(codes):
        rows = rows[np.argsort(x[rows, 0], kind="stable")]
        for p in range(y.shape[1]):
            known = rows[~np.isnan(y[rows, p])]
            if len(known):
                filled[rows, p] = np.interp(x[rows, 0], x[known, 0], y[known, p])
    return filled


def nearest_neighbours(x: Inputs | None, codes: Codes, y: Cells) -> Cells:
    """scikit-learn's KNNImputer over the columns."""
    from sklearn.impute import KNNImputer

    return KNNImputer(n_neighbors=5, weights="distance", keep_empty_features=True).fit_transform(y)


def iterative_ridge(x: Inputs | None, codes: Codes, y: Cells) -> Cells:
    """scikit-learn's IterativeImputer: each column regressed on the others, round after round."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (makes the next import work)
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import BayesianRidge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer = IterativeImputer(BayesianRidge(), max_iter=10, random_state=0, keep_empty_features=True)
        return imputer.fit_transform(y)


def gp_per_column(x: Inputs | None, codes: Codes, y: Cells) -> Filled:
    """A Matérn-3/2 process over x per column and group; lengthscale, noise and variance by marginal likelihood."""
    assert x is not None
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    columns = [_one_gp(x / scale, codes, y[:, p]) for p in range(y.shape[1])]
    return Filled(*(np.stack(part, axis=1) for part in zip(*columns, strict=True)))


RIVALS: dict[str, Rival] = {
    "column mean": column_mean,
    "linear interpolation": linear_interpolation,
    "nearest neighbours": nearest_neighbours,
    "iterative ridge": iterative_ridge,
    "GP per column": gp_per_column,
}


def suited(x: Inputs | None, num_columns: int) -> dict[str, Rival]:
    """Those that can do without what is not there (interpolation is along one input), and that end in minutes: a
    regression or a GP for each of many pixels takes hours."""
    absent = set() if x is not None and x.shape[1] == 1 else {"linear interpolation"}
    absent |= set() if x is not None else {"GP per column"}
    absent |= set(SLOW_ON_MANY_COLUMNS) if num_columns > MANY_COLUMNS else set()
    return {name: rival for name, rival in RIVALS.items() if name not in absent}


def fill(
    rival: Rival, x: Inputs | None, codes: Codes, values: Cells, hide: Callable[[np.ndarray], np.ndarray],
    transforms: tuple[Transform, ...] = (),
) -> Filled:  # fmt: skip
    """A rival's answer in the units of the table; `hide` chooses among known cells those to learn a spread from.

    Columns with a transform are answered on its scale, unless cells hidden once more are likelier without.
    """
    again = hide(~np.isnan(values))
    plain, loss = _on_scale(rival, x, codes, values, again, ())
    if not transforms:
        return plain
    bent, loss_bent = _on_scale(rival, x, codes, values, again, transforms)
    is_plain = np.array([isinstance(t, Identity) for t in transforms]) | (loss < loss_bent)
    chosen = tuple(Identity() if p else t for t, p in zip(transforms, is_plain, strict=True))
    return Filled(np.where(is_plain, plain.mean, bent.mean), np.where(is_plain, plain.sd, bent.sd), chosen)


def _on_scale(rival, x, codes, values, again, transforms) -> tuple[Filled, np.ndarray]:
    """The answer, and per column minus the log density of the cells hidden once more; NaN where they are too few."""
    scaler = fit_scaler(values, ~np.isnan(values), True, transforms)
    y = scaler.forward(values)
    answer, checked = rival(x, codes, y), rival(x, codes, np.where(again, np.nan, y))
    if not isinstance(answer, Filled):
        sd = np.broadcast_to(_spread(np.where(again, checked - y, 0.0), again), y.shape)
        answer, checked = Filled(answer, sd), Filled(checked, sd)
    cells = np.where(again, 0.5 * ((y - checked.mean) / checked.sd) ** 2 + np.log(checked.sd), 0.0)
    loss = cells - np.where(again, scaler.log_slope(values), 0.0)
    count = again.sum(axis=0)
    loss = np.where(count >= FEWEST_ERRORS, loss.sum(axis=0) / np.maximum(count, 1), np.nan)
    return Filled(answer.mean * scaler.scale + scaler.location, answer.sd * scaler.scale, transforms), loss


def _spread(errors, again) -> np.ndarray:
    """Root mean square error per column on cells hidden once more; that of all columns where there are too few, and
    that of the whole column, 1, where there are none."""
    count, squares = again.sum(axis=0), (errors**2).sum(axis=0)
    overall = squares.sum() / count.sum() if again.any() else 1.0
    return np.sqrt(np.maximum(np.where(count >= FEWEST_ERRORS, squares / np.maximum(count, 1), overall), 1e-12))


# The Gaussian process.


def _one_gp(x, codes, y):
    mean, sd = np.zeros_like(y), np.ones_like(y)
    known = np.flatnonzero(~np.isnan(y))
    if len(known) < 3:
        return mean, sd
    lengthscale, share, variance = _search(x, codes, y, known)
    for rows in _pieces(x, codes):
        seen = rows[~np.isnan(y[rows])]
        K = _matern(x[rows], x[seen], lengthscale)
        prior = np.full(len(rows), 1.0)
        if len(seen):
            C = _matern(x[seen], x[seen], lengthscale) * (1 - share) + share * np.eye(len(seen))
            factor = scipy.linalg.cho_factor(C, lower=True)
            mean[rows] = (1 - share) * K @ scipy.linalg.cho_solve(factor, y[seen])
            half = scipy.linalg.solve_triangular(factor[0], (1 - share) * K.T, lower=True)
            prior = np.maximum(1.0 - (half**2).sum(axis=0), share)
        sd[rows] = np.sqrt(variance * prior)
    return mean, sd


def _search(x, codes, y, known):
    """The best of a grid on a few hundred cells, runs of neighbours from all over the column; the variance follows in
    closed form."""
    rows = _runs(np.concatenate([r[~np.isnan(y[r])] for r in _pieces(x, codes)]))
    same = codes[rows][:, None] == codes[rows][None]
    span = max(float(np.ptp(x[known], axis=0).max()), 1e-12)
    best = (-np.inf, span, 0.2, 1.0)
    for lengthscale in np.geomspace(span / max(len(known), 2), span, 10):
        values, vectors = np.linalg.eigh(np.where(same, _matern(x[rows], x[rows], lengthscale), 0.0))
        turned = vectors.T @ y[rows]
        for share in NOISE_SHARES:
            spectrum = np.maximum((1 - share) * values + share, 1e-10)
            variance = max(float(np.mean(turned**2 / spectrum)), 1e-10)
            evidence = -0.5 * (len(rows) * np.log(variance) + float(np.log(spectrum).sum()))
            best = max(best, (evidence, float(lengthscale), share, variance))
    return best[1:]


def _runs(rows):
    """All rows, or of many a few runs that begin evenly spaced."""
    if len(rows) <= LARGEST_SEARCH:
        return rows
    length = LARGEST_SEARCH // NUM_RUNS
    starts = np.linspace(0, len(rows) - length, NUM_RUNS).astype(int)
    return rows[(starts[:, None] + np.arange(length)).ravel()]


def _matern(a, b, lengthscale):
    squares = np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T, 0.0)
    r = np.sqrt(3.0 * squares) / lengthscale
    return (1.0 + r) * np.exp(-r)


def _groups(codes):
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _pieces(x, codes):
    """Groups, in order of the first input and cut where they are too long to be solved at once."""
    for rows in _groups(codes):
        rows = rows[np.argsort(x[rows, 0], kind="stable")]
        yield from np.array_split(rows, -(-len(rows) // LARGEST_SOLVE))
