"""Does depth help where the world is warped, and what does it cost where it is not?

    python benchmarks/depth.py [--laws even warped] [--layers 1 2 3] [--seeds 4] [--out rows.jsonl]

Eight columns are made from two smooth paths by a random linear map and noise.  In the *even* law the paths turn equally
fast everywhere; in the *warped* law, eight times as fast within a window as outside of it.  Stretches of whole rows are
hidden, so that what a model says there it can have from its Gaussian process alone; NLPD (the density of the true
predictive mixture, a mean over hidden cells), RMSE and the share inside 90 % intervals are of these, in units of the
columns' standard deviation.  One layer is SGPBAE; "clock" is scikit-learn's exact GP on each column with the true clock
as its input, which no model is told.  Compare within a seed: tables differ more than models do.  Seconds are the
processor's.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpbae import DSGPBAE, SGPBAE
from gpbae.networks import MLP, Linear

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


def table(law: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, all rows, and which of these are hidden."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, NUM_ROWS))
    t = clock(law, x)
    covariance = np.exp(-0.5 * ((t[:, None] - t) / LENGTHSCALE) ** 2) + 1e-8 * np.eye(NUM_ROWS)
    paths = np.linalg.cholesky(covariance) @ rng.standard_normal((NUM_ROWS, NUM_PATHS))
    y = paths @ rng.standard_normal((NUM_PATHS, NUM_COLUMNS))
    y = (y - y.mean(axis=0)) / y.std(axis=0) + NOISE * rng.standard_normal(y.shape)
    stretch = (t / (GAP * LENGTHSCALE)).astype(int)
    return x[:, None], y, stretch % 3 == 1


def score(law: str, num_layers: int, seed: int) -> dict:
    x, y, hidden = table(law, seed)
    began = time.process_time()
    model = SGPBAE(**BUDGET, seed=seed) if num_layers == 1 else DSGPBAE(**BUDGET, seed=seed, num_layers=num_layers)
    model.fit(x[~hidden], y[~hidden])
    answer, truth = model.predict(x[hidden]), y[hidden]
    lower, upper = np.quantile(answer.samples.reshape(-1, *truth.shape), [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    nlpd = -float(np.mean(answer.log_density(truth, np.ones(truth.shape, bool))))
    rhat = float(model.diagnostics()["r_hat"].median())
    return {"law": law, "model": f"{num_layers} layer(s)", "seed": seed, "nlpd": nlpd,
            **_errors(truth, np.asarray(answer.mean), lower, upper), "rhat": rhat,
            "seconds": round(time.process_time() - began)}  # fmt: skip


def score_clock(law: str, seed: int) -> dict:
    x, y, hidden = table(law, seed)
    t = clock(law, x[:, 0])[:, None]
    mean, sd = np.empty((2, hidden.sum(), NUM_COLUMNS))
    for c in range(NUM_COLUMNS):
        kernel = ConstantKernel(1.0) * RBF(LENGTHSCALE) + WhiteKernel(NOISE**2)
        process = GaussianProcessRegressor(kernel).fit(t[~hidden], y[~hidden, c])
        mean[:, c], sd[:, c] = process.predict(t[hidden], return_std=True)
    half = norm.ppf(0.5 + LEVEL / 2) * sd
    return {"law": law, "model": "clock", "seed": seed, "nlpd": -float(np.mean(norm.logpdf(y[hidden], mean, sd))),
            **_errors(y[hidden], mean, mean - half, mean + half)}  # fmt: skip


def _errors(truth, mean, lower, upper) -> dict:
    inside = (lower <= truth) & (truth <= upper)
    return {"rmse": float(np.sqrt(np.mean((mean - truth) ** 2))), "inside": float(np.mean(inside))}


def show(rows: list[dict]) -> None:
    """Means over seeds, and of every model the paired difference of NLPD to one layer with its standard error."""
    names = ("nlpd", "rmse", "inside", "rhat", "seconds")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", nargs="+", choices=("even", "warped"), default=["even", "warped"])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, help="a file of JSON lines, appended to")
    given = parser.parse_args()
    rows = []
    for seed in range(given.seeds):
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
