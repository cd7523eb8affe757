"""Many series that share one world: patients, videos, trials.  A patient never seen is encoded from its first hours."""

import numpy as np

from gpbae import SGPBAE
from gpbae.kernels import RBF

rng = np.random.default_rng(1)
num_patients, num_hours = 12, 24
hours = np.tile(np.arange(num_hours, dtype=float), num_patients)[:, None]
patient = np.repeat([f"patient {i}" for i in range(num_patients)], num_hours)
state = np.concatenate([np.cumsum(rng.standard_normal((num_hours, 2)) * 0.4, axis=0) for _ in range(num_patients)])
measured = np.tanh(state @ rng.standard_normal((2, 6))) + 0.1 * rng.standard_normal((len(state), 6))
measured[rng.random(measured.shape) < 0.5] = np.nan  # half of all measurements were never made

known = patient != "patient 11"
model = SGPBAE(latent_dim=2, kernel=RBF(lengthscale=6.0), num_inducing=8, seed=0)
model.fit(hours[known], measured[known], groups=patient[known])

new = ~known & (hours[:, 0] < 12)  # the first twelve hours of somebody else
latents = model.encode(hours[new], measured[new], groups=patient[new])
print("latents of a new patient:", latents.mean.shape, "with sd", np.round(latents.sd.mean(axis=0), 2))

filled = model.impute(hours[~known], measured[~known], groups=patient[~known])
low, high = filled.interval(0.9)
inside = (low <= measured[~known]) & (measured[~known] <= high)
print(f"90% intervals hold {inside[np.isfinite(measured[~known])].mean():.0%} of its measurements")
