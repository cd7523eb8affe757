"""Convolutional networks as matrix products.

Images of a whole batch lie in the order (height, channels, width, row): a shift by a pixel then moves long runs of
memory, and the products, one per line of pixels, are of a size that stays in the cache.  A gradient of the decoder
takes a ninth of what `vmap` over images in the usual order takes on a CPU.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gpbae.networks.layers import AbstractEncoder, AbstractRows, Layer

Images = Float[Array, "H F W B"]
BLOCK_BYTES = 4 * 2**20


class ConvEncoder(AbstractEncoder, AbstractRows):
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
        return self.rows(y[None], mask[None], seed[None])[0]

    def rows(self, y, mask, seed):
        h, w, _ = self.shape
        x = jnp.concatenate([_images(y, self.shape), _images(mask, self.shape), _images(seed, (h, w, 1))], axis=1)
        for layer in self.convolutions:
            x = self.activation(convolve(layer, x, stride=2))
        return self.head(_cells(x))


class ConvDecoder(AbstractRows):
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

    @property
    def block_size(self) -> int:
        """As many rows as have patches of `BLOCK_BYTES` in the last convolution but one, to a power of two."""
        height, width, _ = self.shape
        patches_of_a_row = 4 * _halved(height, 1) * _halved(width, 1) * self.head.weight.shape[1]
        return 2 ** max(3, (BLOCK_BYTES // patches_of_a_row).bit_length() - 1)

    def __call__(self, z: Float[Array, " C"]) -> Float[Array, " P"]:
        return self.rows(z[None])[0]

    def rows(self, z):
        height, width, _ = self.shape
        quarter = (_halved(height, 2), _halved(width, 2), self.head.weight.shape[1] // 9)
        x = _images(self.activation(self.stem(z)), quarter)
        for layer in self.convolutions:
            x = pixel_shuffle(self.activation(convolve(layer, x)))
        return _cells(convolve_to_few(self.head, x)[:height, :, :width])


def _halved(size: int, times: int) -> int:
    return -(-size // 2**times)


def _images(cells: Float[Array, "B P"], shape: tuple[int, int, int]) -> Images:
    return cells.reshape(-1, *shape).transpose(1, 3, 2, 0)


def _cells(images: Images) -> Float[Array, "B P"]:
    """Rows of cells again.  Fused with what made the images or with what is made of the cells, this transposition would
    walk through memory in leaps, there and back."""
    cells = jax.lax.optimization_barrier(images).transpose(3, 0, 2, 1).reshape(images.shape[3], -1)
    return jax.lax.optimization_barrier(cells)


def patches(x: Images, stride: int = 1) -> Float[Array, "h 9*F w B"]:
    """The 3×3 neighbourhood of every (stride-th) pixel, zero outside."""
    height, _, width, _ = x.shape
    padded = jnp.pad(x, ((1, 1), (0, 0), (1, 1), (0, 0)))
    shifts = [padded[i : i + height : stride, :, j : j + width : stride] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifts, axis=1)


def convolve(layer: Layer, x: Images, stride: int = 1) -> Float[Array, "h out w B"]:
    """A 3×3 convolution: W times the patches, line by line of the image."""
    p = patches(x, stride)
    y = _line_by_line(layer.weight, p) + layer.bias[None, :, None]
    return y.reshape(p.shape[0], -1, *p.shape[2:])


def convolve_to_few(layer: Layer, x: Images) -> Float[Array, "H out W B"]:
    """The same map with the shifts after the product: less to move where few channels come out."""
    height, channels, width, rows = x.shape
    taps = layer.weight.reshape(-1, channels)
    y = _line_by_line(taps, x).reshape(height, -1, 9, width, rows)
    y = jnp.pad(y, ((1, 1), (0, 0), (0, 0), (1, 1), (0, 0)))
    shifted = [y[i : i + height, :, 3 * i + j, j : j + width] for i in range(3) for j in range(3)]
    return sum(shifted[1:], shifted[0]) + layer.bias[None, :, None, None]


def _line_by_line(weight: Float[Array, "out in"], x: Float[Array, "H in W B"]) -> Float[Array, "H out W*B"]:
    lines = x.reshape(*x.shape[:2], -1)
    return jnp.broadcast_to(weight, (len(lines), *weight.shape)) @ lines


def pixel_shuffle(x: Float[Array, "H K W B"]) -> Float[Array, "2*H K//4 2*W B"]:
    """Four channels become a 2×2 square of pixels."""
    h, k, w, b = x.shape
    return x.reshape(h, 2, 2, k // 4, w, b).transpose(0, 1, 3, 4, 2, 5).reshape(2 * h, k // 4, 2 * w, b)
