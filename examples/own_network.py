"""A decoder of one's own: any Equinox module that maps a latent vector to a row; its weights are sampled too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import SGPBAE
from gpbae.kernels import RBF


class Oscillators(eqx.Module):
    """A row is a mixture of waves whose phases are the latents: knowledge that no generic network has."""

    amplitude: jax.Array
    frequency: jax.Array

    def __init__(self, key, num_waves, num_columns):
        key_amplitude, key_frequency = jax.random.split(key)
        self.amplitude = jax.random.normal(key_amplitude, (num_columns, num_waves), jnp.float32)
        self.frequency = jax.random.normal(key_frequency, (num_waves, 2), jnp.float32)

    def __call__(self, latent):
        return self.amplitude @ jnp.sin(self.frequency @ latent)


rng = np.random.default_rng(2)
time = np.linspace(0, 8, 150)[:, None]
phase = np.column_stack([time[:, 0], np.sqrt(time[:, 0])])
y = np.sin(phase @ rng.standard_normal((2, 3))) @ rng.standard_normal((3, 5)) + 0.1 * rng.standard_normal((150, 5))
y[60:70, :2] = np.nan

decoder = Oscillators(jax.random.key(0), num_waves=8, num_columns=5)
model = SGPBAE(latent_dim=2, kernel=RBF(), decoder=decoder, encoder="mlp", num_inducing=16, seed=0).fit(time, y)
print(model.impute(time, y).mean[60:70, :2].round(2))
print(model.diagnostics().attrs["warnings"])
