"""Encoders and decoders on a single point; `vmap` belongs to the caller.

A *network* argument is a small value that says what to build (`MLP(widths=(500,), activation="tanh")`), one of the
words "auto", "mlp", "conv", "linear", "identity", or any Equinox module that maps a latent vector to an observation.
"""

import abc
import dataclasses
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

import gpbae.runtime  # noqa: F401  (float64 before the first array)
from gpbae.errors import InputError

ACTIVATIONS: dict[str, Callable] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "sin": jnp.sin,
}
NETWORK_DTYPE = jnp.float32
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


WORDS = {"mlp": MLP, "conv": Conv, "linear": Linear, "identity": Identity}


def build_decoder(network, key: Key[Array, ""], latent_dim: int, event_shape: tuple[int, ...]) -> eqx.Module:
    """The decoder a `decoder=` argument stands for; a ready Equinox module is taken as it is."""
    network = _resolve(network, event_shape, "decoder")
    return network if isinstance(network, eqx.Module) else network.decoder(key, latent_dim, event_shape)


def build_encoder(network, key: Key[Array, ""], event_shape: tuple[int, ...], latent_dim: int) -> "AbstractEncoder":
    """The encoder an `encoder=` argument stands for."""
    network = _resolve(network, event_shape, "encoder")
    return network if isinstance(network, eqx.Module) else network.encoder(key, event_shape, latent_dim)


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


def network_dtype(network: PyTree):
    """The dtype a network computes in: float32 where it has such weights, else float64."""
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    return leaves[0].dtype if leaves else jnp.dtype(jnp.float64)


class Layer(eqx.Module):
    """x ↦ W x + b with W of shape (out, in), so that in is the fan-in whatever the layer stands for."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    def __init__(self, key: Key[Array, ""], num_in: int, num_out: int):
        self.weight = jax.random.normal(key, (num_out, num_in), NETWORK_DTYPE) / math.sqrt(num_in)
        self.bias = jnp.zeros((num_out,), NETWORK_DTYPE)

    def __call__(self, x: Float[Array, "*positions in"]) -> Float[Array, "*positions out"]:
        y = x @ self.weight.T
        return y + jnp.broadcast_to(self.bias, y.shape)


class Dense(eqx.Module):
    """A stack of layers with an activation between them."""

    layers: tuple[Layer, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(self, key: Key[Array, ""], sizes: tuple[int, ...], activation: Callable):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(Layer(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.activation = activation

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


class IdentityDecoder(eqx.Module):
    """η = z."""

    def __call__(self, z: Float[Array, " C"]) -> Float[Array, " C"]:
        return z


class AbstractEncoder(eqx.Module):
    """z = f(y, mask, ε): the mask is always an input, for an observed 0 is not a missing value."""

    seed_size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(
        self, y: Float[Array, " P"], mask: Float[Array, " P"], seed: Float[Array, " E"]
    ) -> Float[Array, " C"]: ...


class DenseEncoder(AbstractEncoder):
    """Cells, mask and random seed in one long vector."""

    network: Dense
    seed_size: int = eqx.field(static=True)

    def __call__(self, y, mask, seed):
        return self.network(jnp.concatenate([y, mask, seed]))


class ConvEncoder(AbstractEncoder):
    """Cells, mask and random seed stacked as channels; three strided convolutions and a dense layer."""

    convolutions: tuple[Layer, Layer, Layer]
    head: Layer
    shape: tuple[int, int, int] = eqx.field(static=True)
    seed_size: int = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)

    def __init__(self, key, shape, latent_dim, channels, activation):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        height, width, depth = shape
        sizes = (2 * depth + 1, channels, channels, channels)
        self.convolutions = tuple(
            Layer(k, 9 * a, b) for k, a, b in zip((k1, k2, k3), sizes[:-1], sizes[1:], strict=True)
        )  # type: ignore[assignment]
        self.head = Layer(k4, _halved(height, 3) * _halved(width, 3) * channels, latent_dim)
        self.shape, self.seed_size, self.activation = shape, height * width, activation

    def __call__(self, y, mask, seed):
        h, w, _ = self.shape
        x = jnp.concatenate([y.reshape(self.shape), mask.reshape(self.shape), seed.reshape(h, w, 1)], axis=-1)
        for layer in self.convolutions:
            x = self.activation(layer(patches(x, stride=2)))
        return self.head(x.reshape(-1))


class ConvDecoder(eqx.Module):
    """Dense to a quarter-size image, then twice (3×3 convolution to 4F channels, pixel shuffle), then one to pixels.

    A 3×3 convolution after upsampling by two is the same map as a 3×3 convolution at low resolution with four
    times the channels followed by a pixel shuffle, and costs a quarter.
    """

    stem: Layer
    convolutions: tuple[Layer, Layer]
    head: Layer
    shape: tuple[int, int, int] = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)

    def __init__(self, key, latent_dim, shape, channels, activation):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        height, width, depth = shape
        self.stem = Layer(k1, latent_dim, _halved(height, 2) * _halved(width, 2) * channels)
        self.convolutions = (Layer(k2, 9 * channels, 4 * channels), Layer(k3, 9 * channels, 4 * channels))
        self.head = Layer(k4, 9 * channels, depth)
        self.shape, self.activation = shape, activation

    def __call__(self, z: Float[Array, " C"]) -> Float[Array, " P"]:
        height, width, _ = self.shape
        x = self.activation(self.stem(z)).reshape(_halved(height, 2), _halved(width, 2), -1)
        for layer in self.convolutions:
            x = self.activation(pixel_shuffle(layer(patches(x))))
        return self.head(patches(x))[:height, :width].reshape(-1)


def _halved(size: int, times: int) -> int:
    return -(-size // 2**times)


def patches(x: Float[Array, "H W F"], stride: int = 1) -> Float[Array, "h w 9*F"]:
    """The 3×3 neighbourhood of every (stride-th) pixel, zero outside: a convolution is then one matrix product."""
    height, width, _ = x.shape
    padded = jnp.pad(x, ((1, 1), (1, 1), (0, 0)))
    shifts = [padded[i : i + height : stride, j : j + width : stride] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifts, axis=-1)


def pixel_shuffle(x: Float[Array, "H W K"]) -> Float[Array, "2*H 2*W K//4"]:
    """Four channels become a 2×2 square of pixels."""
    h, w, f = x.shape
    return x.reshape(h, w, 2, 2, f // 4).transpose(0, 2, 1, 3, 4).reshape(2 * h, 2 * w, f // 4)
