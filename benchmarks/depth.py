"""Does depth help where the world is warped, and what does it cost where it is not?

    python benchmarks/depth.py [--laws even warped] [--layers 1 2 3] [--seeds 0 1 2 3] [--out rows.jsonl]
    python benchmarks/depth.py --picture depth.png

Eight columns are made from two smooth paths by a random linear map and noise.  In the *even* law the paths turn equally
fast everywhere; in the *warped* law, eight times as fast within a window as outside of it.  Stretches of whole rows are
hidden, so that what a model says there it can have from its Gaussian process alone; NLPD (the density of the true
predictive mixture), mean squared error and the share inside 90 % intervals are means over a stretch's cells, then over
the three stretches, in units of the columns' standard deviation: stretches are alike in how far the paths go, so that
in the warped law one outside the window has four fifths of the hidden rows.  One layer is SGPBAE; "clock" is an exact
GP (scikit-learn) on each column with the true clock as its input, begun at the true hyper-parameters; no model is told
any of these.  Compare within a seed: tables differ more than models do.  Seconds are the processor's.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpbae import DSGPBAE, SGPBAE
from gpbae.networks import MLP, Linear
from gpbae.plots.canvas import BLACK, BLUE, VERMILION, canvas

NUM_ROWS, NUM_COLUMNS, NUM_PATHS, NOISE = 200, 8, 2, 0.1
LENGTHSCALE, FASTER, WINDOW = 0.35, 8.0, (0.55, 0.75)
GAP, LEVEL = 0.7, 0.9  # stretches that are hidden, in lengthscales of the paths: one in three
BUDGET = {"latent_dim": NUM_PATHS, "decoder": Linear(), "encoder": MLP((20,), "tanh"), "num_inducing": 40,
          "latent_noise": 0.05, "num_chains": 2, "num_warmup": 100, "num_samples": 50, "thinning": 2,
          "progress": False}  # fmt: skip


def clock(law: str, x: np.ndarray) -> np.ndarray:
    """How far the paths have come at x; both laws pass the same way from 0 to 1 so that they turn as often."""
    if law == "even":
        return x * (1 + (FASTER - 1) * (WINDOW[1] - WINDOW[0]))
    return x + (FASTER - 1) * np.clip(x - WINDOW[0], 0.0, WINDOW[1] - WINDOW[0])


def table(law: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, all rows, which of these are hidden, and the number of the stretch that each is in."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, NUM_ROWS))
    t = clock(law, x)
    covariance = np.exp(-0.5 * ((t[:, None] - t) / LENGTHSCALE) ** 2) + 1e-8 * np.eye(NUM_ROWS)
    paths = np.linalg.cholesky(covariance) @ rng.standard_normal((NUM_ROWS, NUM_PATHS))
    y = paths @ rng.standard_normal((NUM_PATHS, NUM_COLUMNS))
    y = (y - y.mean(axis=0)) / y.std(axis=0) + NOISE * rng.standard_normal(y.shape)
    stretch = (t / (GAP * LENGTHSCALE)).astype(int)
    return x[:, None], y, stretch % 3 == 1, stretch


def fitted(law: str, num_layers: int, seed: int) -> SGPBAE:
    x, y, hidden, _ = table(law, seed)
    model = SGPBAE(**BUDGET, seed=seed) if num_layers == 1 else DSGPBAE(**BUDGET, seed=seed, num_layers=num_layers)
    return model.fit(x[~hidden], y[~hidden])


def interval(answer) -> np.ndarray:
    """Lower and upper ends at the level."""
    samples = answer.samples.reshape(-1, *answer.samples.shape[-2:])
    return np.quantile(samples, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)


def score(law: str, num_layers: int, seed: int) -> dict:
    x, y, hidden, stretch = table(law, seed)
    began = time.process_time()
    model = fitted(law, num_layers, seed)
    answer, truth = model.predict(x[hidden]), y[hidden]
    lower, upper = interval(answer)
    surprise = -np.asarray(answer.log_density(truth, np.ones(truth.shape, bool)))
    rhat = float(model.diagnostics()["r_hat"].median())
    jax.clear_caches()  # compiled programs hold memory maps, of which a process may have 65 530
    return {"law": law, "model": f"{num_layers} layer(s)", "seed": seed,
            **_scores(stretch[hidden], surprise, truth, np.asarray(answer.mean), lower, upper), "rhat": rhat,
            "seconds": round(time.process_time() - began)}  # fmt: skip


def score_clock(law: str, seed: int) -> dict:
    x, y, hidden, stretch = table(law, seed)
    t = clock(law, x[:, 0])[:, None]
    mean, sd = np.empty((2, hidden.sum(), NUM_COLUMNS))
    for c in range(NUM_COLUMNS):
        kernel = ConstantKernel(1.0) * RBF(LENGTHSCALE) + WhiteKernel(NOISE**2)
        process = GaussianProcessRegressor(kernel).fit(t[~hidden], y[~hidden, c])
        mean[:, c], sd[:, c] = process.predict(t[hidden], return_std=True)
    half, truth = norm.ppf(0.5 + LEVEL / 2) * sd, y[hidden]
    scores = _scores(stretch[hidden], -norm.logpdf(truth, mean, sd), truth, mean, mean - half, mean + half)
    return {"law": law, "model": "clock", "seed": seed, **scores}


def _scores(stretch, surprise, truth, mean, lower, upper) -> dict:
    """Means over the cells of a stretch, then over stretches."""
    cells = {"nlpd": surprise, "mse": (mean - truth) ** 2, "inside": (lower <= truth) & (truth <= upper)}
    return {name: float(np.mean([c[stretch == s].mean() for s in np.unique(stretch)])) for name, c in cells.items()}


def show(rows: list[dict]) -> None:
    """Means over seeds, and of every model the paired difference of NLPD to one layer with its standard error."""
    names = ("nlpd", "mse", "inside", "rhat", "seconds")
    print(f"\n{'law':8s}{'model':>12s}" + "".join(f"{n:>9s}" for n in names) + "   NLPD less that of one layer")
    for law, model in sorted({(r["law"], r["model"]) for r in rows}):
        mine = {r["seed"]: r for r in rows if (r["law"], r["model"]) == (law, model)}
        means = [np.mean([r.get(name, np.nan) for r in mine.values()]) for name in names]
        flat = {r["seed"]: r["nlpd"] for r in rows if (r["law"], r["model"]) == (law, "1 layer(s)")}
        apart = np.array([mine[s]["nlpd"] - flat[s] for s in mine if s in flat])
        words = "" if not apart.any() or len(apart) < 2 else (
            f"   {apart.mean():+.3f} ± {apart.std(ddof=1) / np.sqrt(len(apart)):.3f}, better in "
            f"{np.sum(apart < 0)} of {len(apart)}")  # fmt: skip
        print(f"{law:8s}{model:>12s}" + "".join(f"{m:9.3f}" for m in means) + words)


def picture(path: Path, law: str = "warped", seed: int = 0, column: int = 0) -> None:
    """One column of a table: what was seen and hidden, and what one layer and two say of it."""
    x, y, hidden, _ = table(law, seed)
    grid = np.linspace(0, 1, 400)[:, None]
    figure, axes = canvas(2, 1, (7.5, 4.6), sharex=True, sharey=True)
    for axis, num_layers, title in zip(axes[:, 0], (1, 2), ("SGP-BAE", "DSGP-BAE, two layers"), strict=True):
        answer = fitted(law, num_layers, seed).predict(grid)
        lower, upper = interval(answer)
        axis.fill_between(grid[:, 0], lower[:, column], upper[:, column], color=BLUE, alpha=0.2, linewidth=0,
                          label=f"{LEVEL:.0%} interval")  # fmt: skip
        axis.plot(grid[:, 0], np.asarray(answer.mean)[:, column], color=BLUE, linewidth=1.4, label="mean")
        axis.plot(x[~hidden, 0], y[~hidden, column], ".", color=BLACK, markersize=4, label="seen")
        axis.plot(x[hidden, 0], y[hidden, column], "x", color=VERMILION, markersize=4, label="hidden")
        axis.set_title(title)
    axes[0, 0].legend(ncols=4, loc="lower left", fontsize=8)
    axes[-1, 0].set_xlabel("x")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", nargs="+", choices=("even", "warped"), default=["even", "warped"])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--out", type=Path, help="a file of JSON lines, appended to")
    parser.add_argument("--picture", type=Path, help="draw a table and what one layer and two say of it, and stop")
    given = parser.parse_args()
    if given.picture:
        picture(given.picture)
        return
    rows = []
    for seed in given.seeds:
        for law in given.laws:
            for row in (score_clock(law, seed), *(score(law, layers, seed) for layers in given.layers)):
                rows.append(row)
                print(json.dumps(row), flush=True)
                if given.out:
                    with given.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
