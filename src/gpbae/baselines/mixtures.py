"""Answers of Gaussian processes: draws of f, and the density of the normals that they were drawn from."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gpbae import likelihoods
from gpbae.answering.predictive import Predictive


class Drawn(NamedTuple):
    """Draws of f, and the normals they come from: one for each draw, or one for all."""

    eta: Float[np.ndarray, "S N P"]
    mean: Float[np.ndarray, "k N P"]
    sd: Float[np.ndarray, "k N P"]


class MixturePredictive(Predictive):
    """Draws, with log p(y) = log 1/k Σₛ N(y; meanₛ, sdₛ² + σ²): exact where draws of f alone would be k spikes."""

    components: Predictive

    def log_density(self, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return self.components.log_density(y, mask)


def widened(likelihood: likelihoods.Gaussian, sd: Float[np.ndarray, "k N P"]) -> likelihoods.Gaussian:
    """The likelihood of y given the mean of f: its noise is √(σ² + sd²), cell by cell."""
    noise = jnp.log(jnp.hypot(jnp.exp(likelihood.log_noise)[None, None], jnp.asarray(sd)))
    return eqx.tree_at(lambda g: g.log_noise, likelihood, noise)
