"""What networks are made of: layers, activations, and how a network meets many rows at once."""

import abc
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

import gpbae.processes.runtime  # noqa: F401  (float64 before the first array)

NETWORK_DTYPE = jnp.float32


@jax.custom_jvp
def elu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x where positive, eˣ − 1 elsewhere: half the time of the `expm1` form, and networks do not see the 8th digit."""
    return jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1)


@elu.defjvp
def _elu_jvp(primals, tangents):
    """The slope is y + 1 below zero, so that the way back needs no second exponential."""
    y = elu(primals[0])
    return y, tangents[0] * (jnp.minimum(y, 0) + 1)


ACTIVATIONS: dict[str, Callable] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": elu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "sin": jnp.sin,
}


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


class AbstractRows(eqx.Module):
    """A network that has its own way with many rows, faster than `vmap` of one."""

    @property
    def block_size(self) -> int | None:
        """How many rows should go forwards and backwards together on a processor; None is all of them."""
        return None

    @abc.abstractmethod
    def rows(self, *inputs: Float[Array, "B _"]) -> Float[Array, "B _"]:
        """The network on every row."""


def over_rows(network: Callable, *inputs: Float[Array, "B _"]) -> Float[Array, "B _"]:
    """A network on every row, cells in one line."""
    if isinstance(network, AbstractRows):
        return network.rows(*inputs)
    return jax.vmap(lambda *row: jnp.reshape(network(*row), (-1,)))(*inputs)
