"""Hourly maps of temperature with stretches of hours missing: fill them better than interpolation does.

Needs the ERA5 maps in $GPBAE_DATA_DIR; `gpbae data list` says where they come from.  `python images.py 4` takes every
fourth pixel, for a first look.
"""

import sys

import numpy as np

from gpbae import SGPBAE
from gpbae.data import era5_uk
from gpbae.kernels import RBF, Matern32, Periodic
from gpbae.networks import Conv

coarse = int(sys.argv[1]) if len(sys.argv) > 1 else 1
maps = era5_uk()
x, y = maps.x, maps.y[:, ::coarse, ::coarse].astype(float)
hidden = np.zeros(len(x), bool)
for first, hours in ((60, 18), (180, 13), (300, 24), (430, 15), (560, 20), (680, 22)):
    hidden[first : first + hours] = True

weather = Matern32(lengthscale=24.0, variance=0.5) + Periodic(period=24.0) * RBF(lengthscale=300.0, variance=0.5)
model = SGPBAE(latent_dim=6, num_inducing=128, kernel=weather, decoder=Conv(channels=8), encoder="mlp", batch_size=128,
               num_chains=1, num_warmup=60, num_samples=20, thinning=3, seed=0)  # fmt: skip
model.fit(x[~hidden], y[~hidden])
filled = np.asarray(model.predict(x[hidden]).mean)

flat = y.reshape(len(y), -1)
straight = np.stack([np.interp(x[hidden, 0], x[~hidden, 0], pixel) for pixel in flat[~hidden].T], axis=1)
for name, guess in (("gpbae", filled.reshape(len(filled), -1)), ("linear in time", straight)):
    print(f"{name}: RMSE {np.sqrt(np.mean((guess - flat[hidden]) ** 2)):.2f} K over {hidden.sum()} hidden hours")
