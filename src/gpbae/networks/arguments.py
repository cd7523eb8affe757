"""What `encoder=` and `decoder=` stand for.

A *network* argument is a small value that says what to build (`MLP(widths=(500,), activation="tanh")`), one of the
words "auto", "mlp", "conv", "linear", "identity", or any Equinox module that maps a latent vector to an observation.
"""

import abc
import dataclasses
import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gpbae.errors import InputError
from gpbae.networks.convolutions import ConvDecoder, ConvEncoder
from gpbae.networks.layers import ACTIVATIONS, AbstractEncoder, Dense, DenseEncoder, IdentityDecoder

SMALLEST_IMAGE = 8
LARGEST_SEED = 32


@dataclasses.dataclass(frozen=True)
class MLP:
    """Fully connected layers of the given widths."""

    widths: tuple[int, ...] = (64,)
    activation: str = "tanh"

    def decoder(self, key, latent_dim, event_shape):
        return Dense(key, (latent_dim, *self.widths, math.prod(event_shape)), _activation(self.activation))

    def encoder(self, key, event_shape, latent_dim):
        num_cells = math.prod(event_shape)
        seed = min(num_cells, LARGEST_SEED)
        sizes = (2 * num_cells + seed, *self.widths, latent_dim)
        return DenseEncoder(Dense(key, sizes, _activation(self.activation)), seed)


@dataclasses.dataclass(frozen=True)
class Conv:
    """Three 3×3 convolutions and one fully connected layer; the decoder upsamples twice by pixel shuffling."""

    channels: int = 16
    activation: str = "elu"

    def decoder(self, key, latent_dim, event_shape):
        return ConvDecoder(key, latent_dim, image_shape(event_shape), self.channels, _activation(self.activation))

    def encoder(self, key, event_shape, latent_dim):
        return ConvEncoder(key, image_shape(event_shape), latent_dim, self.channels, _activation(self.activation))


@dataclasses.dataclass(frozen=True)
class Linear:
    """η = W z + b."""

    def decoder(self, key, latent_dim, event_shape):
        return Dense(key, (latent_dim, math.prod(event_shape)), jnp.tanh)

    def encoder(self, key, event_shape, latent_dim):
        return MLP(widths=()).encoder(key, event_shape, latent_dim)


@dataclasses.dataclass(frozen=True)
class Identity:
    """η = z: the latents are the columns themselves."""

    def decoder(self, key, latent_dim, event_shape):
        if latent_dim != math.prod(event_shape):
            raise InputError(
                f"decoder='identity' needs one latent per column; got latent_dim={latent_dim} for "
                f"{math.prod(event_shape)} columns. Leave latent_dim out or set it to {math.prod(event_shape)}."
            )
        return IdentityDecoder()

    def encoder(self, key, event_shape, latent_dim):
        return Linear().encoder(key, event_shape, latent_dim)


class Starting(abc.ABC):
    """A network value that knows where latents should start."""

    @abc.abstractmethod
    def starting_latents(
        self, values: np.ndarray, mask: np.ndarray, event_shape: tuple[int, ...], latent_dim: int
    ) -> np.ndarray:
        """(rows, latent_dim)."""


WORDS = {"mlp": MLP, "conv": Conv, "linear": Linear, "identity": Identity}


def build_decoder(network, key: Key[Array, ""], latent_dim: int, output_shape: tuple[int, ...]) -> eqx.Module:
    """The decoder a `decoder=` argument stands for; a ready Equinox module is taken as it is."""
    network = _resolve(network, output_shape, "decoder")
    return network if isinstance(network, eqx.Module) else network.decoder(key, latent_dim, output_shape)


def build_encoder(network, key: Key[Array, ""], input_shape: tuple[int, ...], latent_dim: int) -> "AbstractEncoder":
    """The encoder an `encoder=` argument stands for."""
    network = _resolve(network, input_shape, "encoder")
    return network if isinstance(network, eqx.Module) else network.encoder(key, input_shape, latent_dim)


def widened(event_shape: tuple[int, ...], owners: np.ndarray) -> tuple[int, ...]:
    """The shape of outputs that speak of the given cells: more channels where each cell has as many, else a vector."""
    num_cells = math.prod(event_shape)
    each, rest = divmod(len(owners), num_cells)
    if rest or not np.array_equal(owners, np.repeat(np.arange(num_cells), each)):
        return (len(owners),)
    if each == 1:
        return event_shape
    return (*event_shape, each) if len(event_shape) == 2 else (*event_shape[:-1], each * event_shape[-1])


def _resolve(network, event_shape, role):
    if network == "auto":
        return Conv() if is_image(event_shape) else MLP(_widths(math.prod(event_shape)))
    if isinstance(network, str | int | float | None):
        if network not in WORDS:
            raise InputError(f"{role} must be 'auto', {', '.join(map(repr, WORDS))}, a value of gpbae.networks or an "
                             f"Equinox module; got {network!r}.")  # fmt: skip
        return WORDS[network]()
    return network


def _widths(num_cells: int) -> tuple[int, ...]:
    """One hidden layer that grows slowly with the table's width."""
    return (min(max(16, 4 * num_cells), 256),)


def is_image(event_shape: tuple[int, ...]) -> bool:
    return len(event_shape) in (2, 3) and min(event_shape[:2]) >= SMALLEST_IMAGE


def image_shape(event_shape: tuple[int, ...]) -> tuple[int, int, int]:
    if not is_image(event_shape):
        raise InputError(f"Conv needs y of shape (rows, height, width[, channels]) with at least {SMALLEST_IMAGE} "
                         f"pixels a side; got rows of shape {event_shape}. Use MLP().")  # fmt: skip
    return (*event_shape, 1)[:3]


def _activation(name: str) -> Callable:
    if name not in ACTIVATIONS:
        raise InputError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {name!r}.")
    return ACTIVATIONS[name]
