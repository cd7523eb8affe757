"""Small runs that are kept in a folder, and ways to stop them."""

import equinox as eqx
import numpy as np

from gpbae import BAE, DSGPBAE, GPBAE, SGPBAE
from gpbae.kernels import RBF

QUICK = dict(latent_dim=2, decoder="linear", encoder="linear", num_warmup=4, num_samples=4, thinning=1, sampler_steps=2,
             encoder_steps=1, num_map_steps=2, num_chains=1)  # fmt: skip
X = np.linspace(0.0, 1.0, 12)[:, None]
Y = np.random.default_rng(0).standard_normal((12, 3))
Y[2, 1] = Y[5] = np.nan
GROUPS = np.repeat(["a", "b", "c", "d"], 3)
RUNS = {
    "full batch": (BAE, {}, None),
    "row minibatch, amortised, several chains": (BAE, dict(batch_size=5, latents="amortised", num_chains=3), None),
    "values integrated out": (SGPBAE, dict(num_inducing=3, num_chains=2), None),
    "a deep prior": (DSGPBAE, dict(num_inducing=3, num_chains=2), None),
    "row minibatch, persistent": (SGPBAE, dict(num_inducing=3, batch_size=5, latents="persistent"), None),
    "group minibatch, persistent": (GPBAE, dict(kernel=RBF(lengthscale=0.3), batch_size=6), GROUPS),
    "group minibatch, amortised": (SGPBAE, dict(num_inducing=3, batch_size=6, latents="amortised"), GROUPS),
}


class Stop(Exception):
    """A crash between a block and its checkpoint."""


def stopping(phase, done):
    """A listener that crashes the run when this block is done."""

    def listener(event):
        if event["phase"] == phase and event.get("done") == done:
            raise Stop

    return listener


def fit(name, folder=None, progress=False, **changes):
    cls, arguments, groups = RUNS[name]
    return cls(**QUICK | arguments | changes, progress=progress).fit(X, Y, groups, run_dir=folder)


def assert_same_draws(model, twin):
    """Bit for bit: draws, encoders, kinetic temperatures, step size, and so every prediction."""
    for attribute in ("draws_", "encoders_", "kinetic_temperature_", "step_size_", "noise_share_", "dead_chains_"):
        assert eqx.tree_equal(getattr(model, attribute), getattr(twin, attribute)), attribute
