"""Hourly maps of temperature with stretches of hours missing: fill them better than interpolation does.

Needs the ERA5 maps in $GPBAE_DATA_DIR; `gpbae data list` says where they come from.  `python images.py 4` takes every
fourth pixel, for a first look.
"""

import sys

import numpy as np

from gpbae import SGPBAE
from gpbae.data import era5_uk
from gpbae.kernels import RBF, Matern32, Periodic
from gpbae.likelihoods import Gaussian
from gpbae.networks import Conv

coarse = int(sys.argv[1]) if len(sys.argv) > 1 else 1
maps = era5_uk()
x, y = maps.x, maps.y[:, ::coarse, ::coarse].astype(float)
hidden = np.zeros(len(x), bool)
for first, hours in ((25, 16), (110, 22), (230, 13), (345, 20), (390, 24), (490, 14), (620, 18)):
    hidden[first : first + hours] = True

daily = Periodic(period=24.0) * RBF(lengthscale=300.0, variance=0.35)
weather = [Matern32(lengthscale=hours, variance=0.9) + daily for hours in (20.0, 14.0, 11.0, 8.0, 8.0, 7.0)]
model = SGPBAE(latent_dim=6, kernel=weather, num_inducing=192, sample_inducing=False, latent_noise=0.05,
               decoder=Conv(channels=8), encoder="mlp", likelihood=Gaussian(noise=0.3), batch_size=128,
               num_map_steps=800, num_chains=1, num_warmup=40, num_samples=30, thinning=1, seed=0)  # fmt: skip
model.fit(x[~hidden], y[~hidden])
answer = model.predict(x[hidden])
filled, (low, high) = np.asarray(answer.mean), answer.interval(0.9)

flat = y.reshape(len(y), -1)
straight = np.stack([np.interp(x[hidden, 0], x[~hidden, 0], pixel) for pixel in flat[~hidden].T], axis=1)
for name, guess in (("gpbae", filled.reshape(len(filled), -1)), ("linear in time", straight)):
    print(f"{name}: RMSE {np.sqrt(np.mean((guess - flat[hidden]) ** 2)):.2f} K over {hidden.sum()} hidden hours")
print(f"90% intervals hold {np.mean((low <= y[hidden]) & (y[hidden] <= high)):.0%} of the pixels")
