"""A decoder that turns: two latents say which way up, the others what is seen.

Images are written in circular harmonics, ring by ring: a rotation by α multiplies the coefficients of angular order m
by e^{imα}, so turning an image is arithmetic on its coefficients and never a resampling of pixels.
"""

import dataclasses
import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from gpbae.errors import InputError
from gpbae.networks.arguments import Conv, Starting, image_shape
from gpbae.networks.layers import ACTIVATIONS, Dense

RING_WIDTH = 0.7
LEAST_SPREAD = 1e-3


@dataclasses.dataclass(frozen=True)
class Steerable(Starting):
    """Decoder for single-channel images seen under rotations of the plane: latents (cos-like, sin-like, content…).

    `widths` are hidden layers of the network from content to coefficients, `order` the highest angular order.
    """

    widths: tuple[int, ...] = (128,)
    activation: str = "elu"
    order: int = 12

    def decoder(self, key, latent_dim: int, event_shape: tuple[int, ...]) -> "SteerableDecoder":
        shape = _checked(event_shape, latent_dim)
        num_coefficients = 2 * len(harmonics(shape, self.order).orders)
        network = Dense(key, (latent_dim - 2, *self.widths, num_coefficients), ACTIVATIONS[self.activation])
        return SteerableDecoder(network, shape, self.order)

    def encoder(self, key, event_shape, latent_dim):
        return Conv(8, self.activation).encoder(key, event_shape, latent_dim)

    def starting_latents(
        self, values: Float[np.ndarray, "N P"], mask: np.ndarray, event_shape: tuple[int, ...], latent_dim: int
    ) -> Float[np.ndarray, "N C"]:
        """Pose from the phase of the strongest pattern of order one, content from the image turned back by it."""
        basis = harmonics(_checked(event_shape, latent_dim), self.order)
        coefficients = np.where(mask, values, 0.0) @ (basis.cosine + 1j * basis.sine)
        first = coefficients[:, basis.orders == 1]
        _, _, rows = np.linalg.svd(first, full_matrices=False)
        pose = first @ rows[0].conj()
        pose = pose / np.maximum(np.abs(pose), 1e-12)
        upright = coefficients * pose.conj()[:, None] ** basis.orders
        flat = np.concatenate([upright.real, upright.imag], axis=1)
        u, _, _ = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
        content = u[:, : latent_dim - 2] * math.sqrt(len(values))
        missing = latent_dim - 2 - content.shape[1]
        return np.column_stack([pose.real, pose.imag, np.pad(content, ((0, 0), (0, max(missing, 0))))])


class SteerableDecoder(eqx.Module):
    """η = Σ over harmonics of Re(conj(c_j(content) · pose^{m_j}) · basis_j)."""

    network: Dense
    shape: tuple[int, int] = eqx.field(static=True)
    order: int = eqx.field(static=True)

    def __call__(self, z: Float[Array, " C"]) -> Float[Array, " P"]:
        basis = harmonics(self.shape, self.order)
        coefficients = self.network(z[2:])
        a, b = jnp.split(coefficients, 2)
        cosine, sine = powers(z[:2], self.order)
        c, s = cosine[basis.orders], sine[basis.orders]
        turned = jnp.concatenate([a * c - b * s, a * s + b * c])
        return turned @ jnp.asarray(np.concatenate([basis.cosine, basis.sine], axis=1).T, turned.dtype)


def powers(pose: Float[Array, "2"], order: int) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """cos mα and sin mα for m = 0, …, order, with α the direction of the pose."""
    unit = pose / jnp.sqrt(jnp.sum(pose**2) + jnp.asarray(1e-6, pose.dtype))
    c, s = [jnp.ones_like(unit[0])], [jnp.zeros_like(unit[0])]
    for _ in range(order):
        c, s = [*c, c[-1] * unit[0] - s[-1] * unit[1]], [*s, c[-1] * unit[1] + s[-1] * unit[0]]
    return jnp.stack(c), jnp.stack(s)


@dataclasses.dataclass(frozen=True, eq=False)
class Harmonics:
    """Orthonormal patterns on the pixels, real and imaginary parts, with the angular order of each."""

    orders: Int[np.ndarray, " J"]
    cosine: Float[np.ndarray, "P J"]
    sine: Float[np.ndarray, "P J"]


@functools.lru_cache(maxsize=8)
def harmonics(shape: tuple[int, int], order: int) -> Harmonics:
    """Gaussian rings one pixel apart times e^{imφ}, orthonormal within each order m; small rings have few orders."""
    height, width = shape
    rows, columns = np.mgrid[:height, :width]
    rows, columns = rows - (height - 1) / 2, columns - (width - 1) / 2
    radius, angle = np.hypot(rows, columns).ravel(), np.arctan2(rows, columns).ravel()
    rings = np.arange(0.0, min(shape) / 2 + 1.5)
    per_order = [_orthonormal(radius, angle, rings[m <= 1.3 * rings + 0.5], m) for m in range(order + 1)]
    orders = np.concatenate([np.full(b.shape[1], m) for m, b in enumerate(per_order)])
    every = np.concatenate(per_order, axis=1)
    return Harmonics(orders, every.real, every.imag)


def _orthonormal(radius, angle, rings, m: int) -> Complex[np.ndarray, "P J"]:
    if not len(rings):  # a small image has no ring for a high order
        return np.zeros((len(radius), 0), complex)
    B = np.exp(-0.5 * ((radius[:, None] - rings) / RING_WIDTH) ** 2) * np.exp(1j * m * angle)[:, None]
    spread, vectors = np.linalg.eigh((B.conj().T @ B).real)
    kept = spread > LEAST_SPREAD * spread.max()
    return B @ (vectors[:, kept] / np.sqrt(spread[kept])) * (math.sqrt(2) if m else 1.0)


def _checked(event_shape: tuple[int, ...], latent_dim: int) -> tuple[int, int]:
    height, width, depth = image_shape(event_shape)
    if depth != 1 or latent_dim < 3:
        raise InputError(
            "Steerable decodes images of one channel from two latents for the pose and at least one for the content; "
            f"got {depth} channels and latent_dim={latent_dim}. Use Conv() or a larger latent_dim."
        )
    return height, width
