"""Networks: shapes, convolutions as matrix products, encoders that see the mask, one sentence for a wrong word."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import networks
from gpbae.networks import MLP, Conv, Identity, Linear, convolutions, layers

CASES = {
    "auto, table": ("auto", (5,)),
    "auto, image": ("auto", (9, 12)),
    "mlp": (MLP(widths=(7, 3), activation="relu"), (4,)),
    "conv": (Conv(channels=4), (8, 10)),
    "conv, colours": (Conv(channels=4), (8, 8, 3)),
    "linear": (Linear(), (6,)),
    "identity": (Identity(), (2,)),
}
NORMAL = np.random.default_rng(0).normal


def cells(event_shape):
    return int(np.prod(event_shape))


@pytest.mark.parametrize("name", CASES)
def test_decoder_maps_a_latent_vector_to_every_cell(name):
    network, shape = CASES[name]
    decoder = networks.build_decoder(network, jax.random.key(0), 2, shape)
    eta = decoder(jnp.ones(2, networks.network_dtype(decoder)))
    assert eta.shape == (cells(shape),) and np.all(np.isfinite(eta))


@pytest.mark.parametrize("name", CASES)
def test_encoder_sees_cells_mask_and_seed(name):
    """z moves with each of its three inputs: an observed 0 is not a missing value."""
    network, shape = CASES[name]
    encoder = networks.build_encoder(network, jax.random.key(0), shape, 2)
    P, E = cells(shape), encoder.seed_size
    inputs = [jnp.asarray(NORMAL(size=n), jnp.float32) for n in (P, P, E)]
    z = encoder(*inputs)
    assert z.shape == (2,)
    for i in range(3):
        moved = [a + (1.0 if i == j else 0.0) for j, a in enumerate(inputs)]
        assert np.all(encoder(*moved) != z)


def lines(x):
    """Images (row, height, width, channel) in the order of `convolutions`."""
    return jnp.asarray(np.transpose(x, (1, 3, 2, 0)))


def layer(kernel):
    """A layer of that 3×3 kernel, with a bias."""
    made = networks.Layer(jax.random.key(0), 9 * kernel.shape[2], kernel.shape[3])
    weight = jnp.asarray(kernel.reshape(-1, kernel.shape[3]).T)
    return eqx.tree_at(lambda m: (m.weight, m.bias), made, (weight, jnp.arange(1.0, 1 + kernel.shape[3])))


def convolved(x, kernel, bias, stride=1):
    plain = jax.lax.conv_general_dilated(
        jnp.asarray(x), jnp.asarray(kernel), (stride, stride), [(1, 1), (1, 1)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    return lines(plain) + bias[None, :, None, None]


@pytest.mark.parametrize("stride", [1, 2])
def test_patches_times_a_matrix_is_a_convolution(stride):
    x, kernel = NORMAL(size=(2, 7, 8, 3)), NORMAL(size=(3, 3, 3, 5))
    expected = convolved(x, kernel, layer(kernel).bias, stride)
    np.testing.assert_allclose(convolutions.convolve(layer(kernel), lines(x), stride), expected, atol=1e-12)


def test_shifting_after_the_product_is_the_same_convolution():
    x, kernel = NORMAL(size=(2, 7, 8, 3)), NORMAL(size=(3, 3, 3, 2))
    found = convolutions.convolve_to_few(layer(kernel), lines(x))
    np.testing.assert_allclose(found, convolved(x, kernel, layer(kernel).bias), atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_many_rows_at_once_are_the_rows_one_by_one(name):
    network, shape = CASES[name]
    decoder = networks.build_decoder(network, jax.random.key(0), 2, shape)
    z = jnp.asarray(NORMAL(size=(3, 2)), networks.network_dtype(decoder))
    one_by_one = np.stack([decoder(row) for row in z])
    np.testing.assert_allclose(networks.over_rows(decoder, z), one_by_one, rtol=1e-5, atol=1e-6)
    encoder = networks.build_encoder(network, jax.random.key(0), shape, 2)
    inputs = [jnp.asarray(NORMAL(size=(3, n)), jnp.float32) for n in (cells(shape), cells(shape), encoder.seed_size)]
    one_by_one = np.stack([encoder(*row) for row in zip(*inputs, strict=True)])
    np.testing.assert_allclose(networks.over_rows(encoder, *inputs), one_by_one, rtol=1e-5, atol=1e-6)


def test_elu_and_its_slope_are_those_of_jax():
    x = jnp.asarray([-30.0, -1.0, -1e-3, 0.5, 2.0])
    np.testing.assert_allclose(layers.elu(x), jax.nn.elu(x), atol=1e-15)
    slope = jax.vmap(jax.grad(layers.elu))(x)
    np.testing.assert_allclose(slope, jax.vmap(jax.grad(jax.nn.elu))(x), atol=1e-15)


def folded(kernel):
    """The 3×3 low-resolution kernel with four times the channels that equals upsampling by two, then `kernel`."""
    out = np.zeros((3, 3, kernel.shape[2], 2, 2, kernel.shape[3]))
    for a in range(2):
        for b in range(2):
            for i in range(3):
                for j in range(3):
                    out[(a + i - 1) // 2 + 1, (b + j - 1) // 2 + 1, :, a, b] += kernel[i, j]
    return out.reshape(9 * kernel.shape[2], -1)


def test_pixel_shuffled_convolution_contains_upsampling_then_convolution():
    """At low resolution with 4F channels, one product and a shuffle: the same map, borders included."""
    x, kernel = NORMAL(size=(2, 5, 6, 3)), NORMAL(size=(3, 3, 3, 4))
    upsampled = np.repeat(np.repeat(x, 2, axis=1), 2, axis=2)
    expected = convolved(upsampled, kernel, jnp.zeros(4))
    low = folded(kernel).reshape(3, 3, 3, 16)
    plain = eqx.tree_at(lambda m: m.bias, layer(low), jnp.zeros(16))
    found = convolutions.pixel_shuffle(convolutions.convolve(plain, lines(x)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_pixel_shuffle_loses_nothing():
    x = jnp.arange(2 * 8 * 3.0).reshape(2, 8, 3, 1)
    y = convolutions.pixel_shuffle(x)
    assert y.shape == (4, 2, 6, 1)
    np.testing.assert_array_equal(np.sort(np.ravel(y)), np.ravel(x))
    np.testing.assert_array_equal(y[:2, :, :2, 0].transpose(0, 2, 1).reshape(-1), x[0, :, 0, 0])


def test_a_users_module_is_taken_as_it_is():
    module = networks.IdentityDecoder()
    assert networks.build_decoder(module, jax.random.key(0), 2, (2,)) is module


def test_linear_decoder_is_affine():
    decoder = networks.build_decoder("linear", jax.random.key(0), 3, (4,))
    W = jax.jacobian(decoder)(jnp.zeros(3, jnp.float32))
    np.testing.assert_allclose(W, decoder.layers[0].weight, rtol=1e-6)
    z = jnp.asarray(NORMAL(size=3), jnp.float32)
    np.testing.assert_allclose(decoder(z), decoder.layers[0].weight @ z + decoder.layers[0].bias, rtol=1e-5)


def test_networks_compute_in_single_precision_and_identity_in_double():
    assert networks.network_dtype(networks.build_decoder("mlp", jax.random.key(0), 2, (3,))) == jnp.float32
    assert networks.network_dtype(networks.IdentityDecoder()) == jnp.float64
    assert not jax.tree.leaves(eqx.filter(networks.IdentityDecoder(), eqx.is_inexact_array))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda key: networks.build_decoder("transformer", key, 2, (3,)), "decoder must be 'auto'.*got 'transformer'"),
        (lambda key: networks.build_encoder("rnn", key, (3,), 2), "encoder must be 'auto'.*got 'rnn'"),
        (lambda key: networks.build_decoder("conv", key, 2, (3,)), "Conv needs y of shape.*got rows of shape"),
        (lambda key: networks.build_decoder(MLP(activation="step"), key, 2, (3,)), "activation must be.*got 'step'"),
        (lambda key: networks.build_decoder("identity", key, 2, (3,)), "one latent per column; got latent_dim=2"),
    ],
)  # fmt: skip
def test_a_wrong_word_is_refused_in_one_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        build(jax.random.key(0))
    assert "\n" not in str(caught.value)
