"""A decoder that turns: rotating the pose turns the picture, and pictures say how they are turned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import rotate

from gpbae.errors import InputError
from gpbae.networks import Steerable
from gpbae.networks.steerable import harmonics, powers

SHAPE = (20, 20)


@pytest.fixture(scope="module")
def blobs():
    """Two unequal blobs, seen under eight angles."""
    rows, columns = np.mgrid[:20, :20]
    image = np.exp(-((rows - 6) ** 2 + (columns - 8) ** 2) / 8) + 0.6 * np.exp(
        -((rows - 13) ** 2 + (columns - 11) ** 2) / 5
    )
    degrees = np.arange(0, 360, 45)
    return np.stack([rotate(image, d, reshape=False) for d in degrees]), np.deg2rad(degrees)


def test_turning_the_pose_turns_the_picture(blobs):
    images, angles = blobs
    basis = harmonics(SHAPE, 12)
    coefficients = images[0].ravel() @ np.concatenate([basis.cosine, basis.sine], axis=1)
    a, b = np.split(coefficients, 2)
    for image, angle in zip(images, angles, strict=True):
        cosine, sine = (np.asarray(p)[basis.orders] for p in powers(jnp.asarray([np.cos(angle), -np.sin(angle)]), 12))
        turned = basis.cosine @ (a * cosine - b * sine) + basis.sine @ (a * sine + b * cosine)
        assert (
            np.sqrt(np.mean((turned - image.ravel()) ** 2)) < 0.06 * image.std()
        )  # two interpolations on a coarse grid


def test_patterns_of_one_order_are_orthonormal():
    basis = harmonics(SHAPE, 6)
    for m in range(7):
        block = (basis.cosine + 1j * basis.sine)[:, basis.orders == m]
        norm = 2.0 if m else 1.0
        np.testing.assert_allclose((block.conj().T @ block).real, norm * np.eye(block.shape[1]), atol=1e-9)


def test_starting_pose_follows_the_rotation(blobs):
    images, angles = blobs
    z = Steerable().starting_latents(images.reshape(8, -1), np.ones((8, 400), bool), SHAPE, 4)
    pose = z[:, 0] + 1j * z[:, 1]
    relative = pose * np.exp(1j * angles)
    np.testing.assert_allclose(relative / relative[0], 1.0, atol=0.05)


def test_decoder_ignores_the_length_of_the_pose():
    decoder = Steerable((8,)).decoder(jax.random.key(0), 5, SHAPE)
    z = jnp.asarray([0.6, -0.8, 0.3, 1.0, -2.0], jnp.float32)
    longer = z.at[:2].multiply(3.0)
    np.testing.assert_allclose(decoder(z), decoder(longer), atol=1e-4)


@pytest.mark.parametrize("size", [8, 15])
def test_small_images_have_fewer_orders(size):
    decoder = Steerable().decoder(jax.random.key(0), 4, (size, size))
    assert decoder(jnp.ones(4, jnp.float32)).shape == (size * size,)


@pytest.mark.parametrize(("shape", "latent_dim"), [((20, 20, 3), 6), (SHAPE, 2)])
def test_what_it_cannot_decode_is_refused_in_a_sentence(shape, latent_dim):
    with pytest.raises(InputError, match="Steerable decodes images of one channel"):
        Steerable().decoder(jax.random.key(0), latent_dim, shape)
