"""An encoder that says each cell itself: with it, variational autoencoders with an identity decoder are regression."""

import equinox as eqx
import jax
import jax.numpy as jnp

from gpbae.networks import AbstractEncoder

NOISE = 0.4


class Passing(AbstractEncoder):
    """Each cell as a mean, with one given log variance."""

    log_variance: jax.Array
    seed_size: int = eqx.field(static=True, default=0)

    def __call__(self, y, mask, seed):
        return jnp.concatenate([y, jnp.full_like(y, self.log_variance.astype(y.dtype))])
