"""Do partial inference networks help our own encoder?  Four encoders on tables with more and more gaps.

    python benchmarks/encoders.py [--missing 0.3 0.6 0.8] [--seeds 2] [--out DIR]

Every fifth row is new to the model and has as many gaps as the others.  Of each encoder:

- *guess*: squared distance of its guess from the mean of the refined latents of new rows, in units of the latents'
  variance (0 is perfect, 1 says nothing).  Chains keep the latents of every row, so they do not depend on the encoder;
- *fill*: squared error of the hidden cells of new rows, in units of the column's variance, where latents are born from
  the encoder (`latents="amortised"`) and refined, beside the same with latents that are kept.

Tables are drawn: three smooth latents, twelve columns, tanh and noise.  Times are the processor's.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gpbae import SGPBAE, autoencoder
from gpbae.networks import MLP, FactorNet, IndexNet, PointNet

NUM_ROWS, NUM_COLUMNS, NUM_LATENTS, NOISE = 500, 12, 3, 0.2
ENCODERS = {"zeros and mask": MLP((20,), "tanh"), "PointNet": PointNet(), "IndexNet": IndexNet(),
            "FactorNet": FactorNet()}  # fmt: skip
BUDGET = {"latent_dim": NUM_LATENTS, "num_inducing": 24, "num_chains": 1, "num_warmup": 80, "num_samples": 25,
          "thinning": 1, "num_map_steps": 600, "encoder_steps": 30, "progress": False}  # fmt: skip


def table(missing: float, seed: int):
    """Inputs, all cells, and which of them are seen."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, NUM_ROWS))
    waves = rng.normal(size=(2, 8, NUM_LATENTS))
    phase = np.arange(1, 9)[:, None] * 0.4 * x
    z = (np.sin(phase).T @ waves[0] + np.cos(phase).T @ waves[1]) / 3
    weights = rng.normal(size=(2, NUM_LATENTS, NUM_COLUMNS))
    y = z @ weights[0] + np.tanh(2 * z) @ weights[1]
    y = y / y.std(axis=0) + NOISE * rng.normal(size=y.shape)
    return x[:, None], y, rng.random(y.shape) >= missing


def guess(model: SGPBAE, y: np.ndarray) -> np.ndarray:
    """Mean over seeds of what the chain's encoder says of rows, before any refinement."""
    import equinox as eqx

    encoder = eqx.combine(jax.tree.map(lambda a: jnp.asarray(a)[0], model.encoders_), model.encoder_static_)
    mask = np.isfinite(y)
    scaled = jnp.asarray(np.where(mask, model.scaler_.forward(np.where(mask, y, 0.0)), 0.0), model.table_.y.dtype)
    keys = jax.random.split(jax.random.key(0), 32)
    return np.mean([autoencoder.encode(encoder, scaled, jnp.asarray(mask), k) for k in keys], axis=0)


def compare(missing: float, seed: int) -> list[dict]:
    x, truth, seen = table(missing, seed)
    new = np.arange(NUM_ROWS) % 5 == 0
    shown = np.where(seen, truth, np.nan)
    found = []
    for name, encoder in ENCODERS.items():
        for latents in ("persistent", "amortised"):
            began = time.process_time()
            model = SGPBAE(**BUDGET, encoder=encoder, latents=latents, seed=seed).fit(x[~new], shown[~new])
            seconds = time.process_time() - began
            filled = np.asarray(model.impute(x[new], shown[new]).mean)
            error = np.mean((filled - truth[new])[~seen[new]] ** 2)
            row = {"missing": missing, "seed": seed, "encoder": name, "latents": latents, "fill": float(error),
                   "seconds": seconds}  # fmt: skip
            if latents == "persistent":
                _, given, rows, slots = model._given(x[new], shown[new], None)
                refined = model._refined(given, rows, slots, None)[1]
                away = np.mean((guess(model, shown[new]) - refined.mean(axis=0)) ** 2)
                row["guess"] = float(away / np.mean(refined.var(axis=(0, 1))))
            found.append(row)
            print(json.dumps(row), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", type=float, nargs="+", default=[0.3, 0.6, 0.8])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = [row for missing in given.missing for seed in range(given.seeds) for row in compare(missing, seed)]
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "results.json").write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
