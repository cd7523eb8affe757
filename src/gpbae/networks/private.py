"""A decoder that leaves every column a path of its own, beside what the columns have in common."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae.networks.arguments import build_decoder, build_encoder
from gpbae.networks.layers import NETWORK_DTYPE

STARTING_SCALE = 0.3


class PrivateDecoder(eqx.Module):
    """η = f(z₁ … z_C) + a ∘ (z_{C+1} … z_{C+P})."""

    shared: Any
    scale: Float[Array, " P"]

    def __call__(self, z: Float[Array, " C"]) -> Float[Array, " P"]:
        num_shared = z.shape[0] - self.scale.shape[0]
        return jnp.reshape(self.shared(z[:num_shared]), (-1,)) + self.scale * z[num_shared:]


@dataclasses.dataclass(frozen=True)
class Private:
    """Any decoder of the latents that columns share, and for each column one latent that no other column sees.

    What a column does by itself is seldom white: without a path of its own it would be taken for independent noise, and
    the latents for better known than they are.  `latent_dim` counts the shared latents only.
    """

    shared: Any = "linear"

    def num_private(self, event_shape: tuple[int, ...]) -> int:
        return math.prod(event_shape)

    def decoder(self, key, latent_dim: int, event_shape: tuple[int, ...]) -> PrivateDecoder:
        num_columns = self.num_private(event_shape)
        shared = build_decoder(self.shared, key, latent_dim - num_columns, event_shape)
        return PrivateDecoder(shared, jnp.full((num_columns,), STARTING_SCALE, NETWORK_DTYPE))

    def encoder(self, key, event_shape: tuple[int, ...], latent_dim: int):
        return build_encoder("auto", key, event_shape, latent_dim)


def num_private(network: Any, event_shape: tuple[int, ...]) -> int:
    """How many latents of their own the columns have under a `decoder=` argument."""
    return network.num_private(event_shape) if isinstance(network, Private) else 0
