"""Rows that go forwards and backwards block by block have the sum, and the gradient, of all rows at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import SGPBAE, networks
from gpbae.networks import Conv, ConvDecoder, blocks
from gpbae.sampling import refreshing


class Small(ConvDecoder):
    """A decoder that wants few rows at a time."""

    @property
    def block_size(self) -> int:
        return 8


def rows(num_rows, seed=0):
    rng = np.random.default_rng(seed)
    z = jnp.asarray(rng.standard_normal((num_rows, 3)))
    return z, {"y": jnp.asarray(rng.standard_normal((num_rows, 48))), "weight": jnp.asarray(rng.random(num_rows))}


def total(parameters, z, given):
    eta = networks.over_rows(parameters, z.astype(jnp.float32)).astype(jnp.float64)
    return jnp.sum(given["weight"][:, None] * jnp.sin(eta - given["y"]))


@pytest.mark.parametrize("num_rows", [7, 8, 16, 21, 64])
def test_blocks_have_the_sum_and_the_gradient_of_all_rows(num_rows):
    decoder = Small(jax.random.key(0), 3, (6, 8, 1), 2, jnp.tanh)
    decoder, static = eqx.partition(decoder, eqx.is_inexact_array)
    z, given = rows(num_rows)

    def part(w, z, given):
        return total(eqx.combine(w, static), z, given)

    def whole(w, z):
        return part(w, z, given)

    def split(w, z):
        return 2.0 * blocks.sum_over_rows(eqx.combine(w, static), part, w, z, given)

    np.testing.assert_allclose(split(decoder, z), 2.0 * whole(decoder, z), rtol=1e-6)
    expected = jax.jit(jax.grad(whole, argnums=(0, 1)))(decoder, z)
    found = jax.jit(jax.grad(split, argnums=(0, 1)))(decoder, z)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, 2.0 * b, rtol=2e-4, atol=2e-5)


def test_only_blocks_of_the_asked_size_are_ever_decoded():
    seen = []

    def spy(parameters, z, given):
        seen.append(len(z))
        return jnp.sum(z)

    decoder = Small(jax.random.key(0), 3, (6, 8, 1), 2, jnp.tanh)
    z, given = rows(21)
    blocks.sum_over_rows(decoder, spy, jnp.zeros(()), z, given)
    assert set(seen) == {8, 5}


def test_a_decoder_of_images_asks_for_fewer_rows_the_larger_they_are():
    sizes = [ConvDecoder(jax.random.key(0), 2, (side, side, 1), 8, jnp.tanh).block_size for side in (14, 28, 56, 500)]
    assert sizes == sorted(sizes, reverse=True) and sizes[1] == 64 and sizes[-1] == 8


def test_the_log_joint_of_images_does_not_depend_on_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = np.arange(40.0)[:, None], rng.standard_normal((40, 12, 12))
    y[rng.random(y.shape) < 0.2] = np.nan
    estimator = SGPBAE(latent_dim=2, num_inducing=5, decoder=Conv(2), encoder="linear", num_chains=1)
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, None)
    chains, _ = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    position = jax.tree.map(lambda a: a[0], chains.sampler.position)
    found = []
    for size in (None, 16):
        monkeypatch.setattr(ConvDecoder, "block_size", property(lambda self, size=size: size))
        found.append(model.gradient(position, refreshing.whole(table)))
    for a, b in zip(jax.tree.leaves(found[1]), jax.tree.leaves(found[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(jnp.max(jnp.abs(b))) + 1e-12)
