"""Intensive-care patients as groups:  python benchmarks/real_patients.py [patients] [first patient]

Fits hourly measurements of so many patients of PhysioNet 2012 with a tenth of the known cells hidden, scores what it
says of them, then follows 20 patients that it has never seen from their first 24 hours: docs/real-data.md.
"""

import resource
import sys
import time

import numpy as np
import pandas as pd

from gpbae import SGPBAE
from gpbae.data import physionet2012
from gpbae.kernels import Constant, Matern32
from gpbae.likelihoods import Gaussian, Mixed

POSSIBLE = {"Temp": (25, 45), "pH": (6.5, 8), "HR": (1, 300), "RespRate": (1, 80), "PaO2": (1, 700),
            "SysABP": (1, 300), "DiasABP": (1, 200), "MAP": (1, 250), "NISysABP": (1, 300), "NIDiasABP": (1, 200),
            "NIMAP": (1, 250)}  # fmt: skip
"""Typing errors (a pH of 95, a body at −18 °C) are gaps: one of them would set the unit of its whole column."""

LEVEL = Constant(variance=0.5) + Matern32(lengthscale=12.0, variance=0.5)
"""Patients keep a level of their own: without the constant a forecast returns to the mean of all of them."""


def rows_of(patients):
    """Inputs, measurements and record ids of the hours at which something was measured."""
    data = physionet2012()
    at = np.isin(data.groups, data.record_id[patients])
    y = pd.DataFrame(data.y[at].astype(float), columns=list(data.variables))
    for name, (low, high) in POSSIBLE.items():
        y[name] = y[name].where(y[name].between(low, high))
    some = y.notna().any(axis=1).to_numpy()
    return pd.DataFrame({"hour": data.x[at, 0]})[some], y[some], data.groups[at][some]


def carried(y, groups, hidden_from):
    """Rivals: interpolation along a patient's hours (constant beyond the ends), column means where he has none."""
    inside = y.groupby(groups).transform(lambda c: c.interpolate(limit_direction="both"))
    return inside.fillna(hidden_from.mean())


def say(what, answer, y, cells, rival, unit):
    truth, inside = y.to_numpy()[cells], answer.interval(0.9)
    inside = np.mean((inside[0].to_numpy()[cells] <= truth) & (truth <= inside[1].to_numpy()[cells]))
    scale = np.broadcast_to(unit, cells.shape)[cells]
    errors = [np.mean(np.abs(guess.to_numpy()[cells] - truth) / scale) for guess in (answer.quantile(0.5), rival)]
    print(f"{what}: {cells.sum()} cells, MAE {errors[0]:.3f} (along the patient's own hours {errors[1]:.3f}), "
          f"90% intervals hold {inside:.1%}", flush=True)  # fmt: skip


if __name__ == "__main__":
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    x, y, groups = rows_of(slice(first, first + num))
    hidden = y.notna().to_numpy() & (np.random.default_rng(0).random(y.shape) < 0.1)
    given = y.mask(hidden)
    unit = given.std(ddof=0).replace(0, 1).fillna(1).to_numpy()
    model = SGPBAE(latent_dim=8, decoder="linear", kernel=LEVEL, num_inducing=12,
                   likelihood=Mixed({"MechVent": "bernoulli"}, default=Gaussian(per_column=True)),
                   transform="yeo-johnson", num_chains=1, num_warmup=120, num_samples=100, thinning=1)  # fmt: skip
    started = time.process_time(), time.monotonic()
    model.fit(x, given, groups=groups)
    print(f"{num} patients, {len(y)} hours, {y.isna().mean().mean():.0%} missing; "
          f"fit {time.monotonic() - started[1]:.0f} s ({time.process_time() - started[0]:.0f} s of processor time)",
          flush=True)  # fmt: skip
    started = time.process_time(), time.monotonic()
    say("hidden cells", model.impute(x, given, groups=groups), y, hidden, carried(given, groups, given), unit)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"  imputed in {time.monotonic() - started[1]:.0f} s ({time.process_time() - started[0]:.0f} s of processor "
          f"time); most memory {most:.1f} GB", flush=True)  # fmt: skip

    x, y, groups = rows_of(slice(1000, 1020))
    later = (x["hour"] >= 24).to_numpy()
    begun = y.mask(np.repeat(later[:, None], y.shape[1], axis=1))
    started = time.monotonic()
    latents = model.encode(x[~later], y[~later], groups=groups[~later])
    spread = np.mean(np.asarray(latents.sd))
    print(f"20 patients never seen: latents {latents.mean.shape} of their first 24 hours in "
          f"{time.monotonic() - started:.0f} s, posterior sd {spread:.2f}", flush=True)  # fmt: skip
    cells = y.notna().to_numpy() & later[:, None]
    answer, rival = model.impute(x, begun, groups=groups), carried(begun, groups, given)
    hour = np.broadcast_to(x["hour"].to_numpy()[:, None], cells.shape)
    for low, high in ((24, 30), (30, 36), (36, 48)):
        say(f"hours {low} to {high}", answer, y, cells & (hour >= low) & (hour < high), rival, unit)
    print("\n".join(model.diagnostics().attrs["warnings"]))
