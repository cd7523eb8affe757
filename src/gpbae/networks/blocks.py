"""Sums over many rows, some rows at a time, with their gradient found in the same pass.

What a convolution leaves behind for its way back is many times the size of its images.  A block of rows whose traces
fit in the processor's cache goes forwards and backwards before the next one begins.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gpbae.networks.layers import AbstractRows

Total = Callable[[PyTree, Float[Array, "b C"], PyTree], Float[Array, ""]]


def sum_over_rows(
    network: Any, total: Total, parameters: PyTree, latents: Float[Array, "B C"], given: PyTree
) -> Float[Array, ""]:
    """Σ of total(parameters, latents of a block, given of a block) over the blocks that suit the network: all rows at
    once but for networks that ask for less.  `total` must itself be a sum over rows; `given` is not differentiated."""
    size = network.block_size if isinstance(network, AbstractRows) and jax.default_backend() == "cpu" else None
    if size is None or len(latents) <= size:
        return total(parameters, latents, given)
    return _sum_by_blocks(total, size, parameters, latents, given)


def _sum_by_blocks(total: Total, size: int, parameters, latents, given):
    """The gradient of a sum is known with its value: the way back only has to multiply it."""

    @jax.custom_vjp
    def summed(parameters, latents, given):
        return _over_blocks(lambda z, rows: (total(parameters, z, rows), None), size, latents, given)[0]

    def forwards(parameters, latents, given):
        def both(z, rows):
            value, (own, local) = jax.value_and_grad(total, argnums=(0, 1))(parameters, z, rows)
            return (value, own), local

        (value, own), local = _over_blocks(both, size, latents, given)
        return value, (own, local)

    def backwards(gradient, cotangent):
        own, local = jax.tree.map(lambda g: cotangent.astype(g.dtype) * g, gradient)
        return own, local, None

    summed.defvjp(forwards, backwards)
    return summed(parameters, latents, given)


def _over_blocks(one: Callable, size: int, latents, given):
    """Sums of the first thing that `one` says of a block, the second row by row; the last block may be shorter."""
    whole = len(latents) // size * size
    blocks = jax.tree.map(lambda a: a[:whole].reshape(-1, size, *a.shape[1:]), (latents, given))
    zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype),
                         jax.eval_shape(lambda b: one(*jax.tree.map(lambda a: a[0], b))[0], blocks))  # fmt: skip

    def add(sums, block):
        more, rows = one(*block)
        return jax.tree.map(jnp.add, sums, more), rows

    sums, rows = jax.lax.scan(add, zeros, blocks)
    rows = jax.tree.map(lambda a: a.reshape(whole, *a.shape[2:]), rows)
    if whole == len(latents):
        return sums, rows
    sums, rest = add(sums, jax.tree.map(lambda a: a[whole:], (latents, given)))
    return sums, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), rows, rest)
