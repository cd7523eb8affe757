"""How good a fit from disk is: error of known curves, coverage and temperatures, beside a sample fitted in memory.

python benchmarks/disk_quality.py [--rows 50000] [--groups 5] [--seeds 2] [--fits kept born often memory]

From disk, latents are kept (fresh rows at every step), born at every sweep, or born "often", at every step.
"""

import argparse
import time

import jax
import numpy as np

from gpbae import SGPBAE
from gpbae.kernels import RBF
from gpbae.tabular import OnDisk

NOISE, NUM_COLUMNS, SAMPLE = 0.2, 4, 1000
LENGTHS = dict(num_warmup=300, num_samples=25, thinning=10)
FITS = {
    "kept": LENGTHS | dict(latents="persistent"),
    "born": LENGTHS | dict(latents="amortised"),
    "often": dict(latents="amortised", num_warmup=9000, num_samples=25, thinning=300, sampler_steps=1, encoder_steps=2),
    "memory": dict(num_warmup=100, num_samples=25, thinning=3),
}


def table(num_rows, num_groups, rng):
    """Sines with a phase for each group."""
    x, group = rng.uniform(0, 10, (num_rows, 1)), rng.integers(0, num_groups, num_rows)
    phase = rng.uniform(0, 6, num_groups)
    return x, curve(x, phase[group]) + NOISE * rng.standard_normal((num_rows, NUM_COLUMNS)), group, phase


def curve(x, phase):
    return np.sin(x + np.reshape(phase, (-1, 1)) + np.arange(NUM_COLUMNS))


def scores(model, phase, rng):
    """Root mean square error of the curves and share of new measurements inside 90 % intervals, of a few groups."""
    x, errors, inside = np.linspace(0.5, 9.5, 40)[:, None], [], []
    for group in range(min(5, len(phase))):
        answer, truth = model.predict(x, groups=np.full(40, group)), curve(x, phase[group])
        low, high = (np.asarray(end) for end in answer.interval(0.9))
        new = truth + NOISE * rng.standard_normal(truth.shape)
        errors.append(np.mean((np.asarray(answer.mean) - truth) ** 2) ** 0.5)
        inside.append(np.mean((new > low) & (new < high)))
    return np.mean(errors), min(inside), max(inside)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--groups", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--decoder", default="linear", help="of the fits, and the kind of their encoders")
    given = parser.parse_args()
    print("| fit | CPU seconds | error of the curves | 90 % intervals hold | decoder, noise temperature | first, last "
          "noise |\n|---|---|---|---|---|---|")  # fmt: skip
    for seed in range(given.seeds):
        for where in given.fits:
            rng = np.random.default_rng(seed)
            x, y, group, phase = table(given.rows, given.groups, rng)
            model = SGPBAE(latent_dim=2, num_inducing=16, kernel=RBF(lengthscale=1.5), decoder=given.decoder,
                           encoder=given.decoder, num_chains=1, progress=False, seed=seed, **FITS[where])  # fmt: skip
            started = time.process_time()
            if where == "memory":
                some = rng.choice(len(x), min(SAMPLE, len(x)), replace=False)
                model.fit(x[some], y[some], groups=group[some])
            else:
                model.fit(OnDisk(x), OnDisk(y), groups=group)
            seconds, (error, low, high) = time.process_time() - started, scores(model, phase, rng)
            heat = model.kinetic_temperatures_()
            noise = np.exp(np.concatenate([np.ravel(a) for a in jax.tree.leaves(model.draws_.shared["likelihood"])]))
            print(f"| {where}, seed {seed} | {seconds:.0f} | {error:.3f} | {low:.0%} to {high:.0%} | "
                  f"{heat['decoder'][0]:.2f}, {heat['observation noise'][0]:.2f} | {noise[0]:.4f}, {noise[-1]:.4f} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
