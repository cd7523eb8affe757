"""What a fit leaves behind, and how to get at it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpbae import networks
from gpbae.autoencoder import Autoencoder, Position
from gpbae.errors import GpbaeError
from gpbae.sampling.batches import StreamBatch, Table
from gpbae.sampling.inference import Plan
from gpbae.tabular import tables


class Fitted:
    """A model, the table it was fitted to, and draws with axes (chain, draw); encoders have one axis, chain."""

    model_: Autoencoder
    plan_: Plan
    table_: Table
    draws_: Position
    encoders_: Any
    encoder_static_: Any
    latent_dim_: int
    frame_: tables.Frame
    scaler_: tables.Scaler
    likelihood_choice_: dict[str, str]
    x_location_: np.ndarray
    x_columns_: list[str] | None
    groups_: np.ndarray
    grouped_: bool
    seed: int

    def _fitted(self) -> None:
        if not hasattr(self, "draws_"):
            raise GpbaeError(f"This {type(self).__name__} is not fitted yet; call fit(x, y) first.")

    @property
    def num_chains_(self) -> int:
        return jax.tree.leaves(self.draws_)[0].shape[0]

    @property
    def _num_draws(self) -> int:
        return jax.tree.leaves(self.draws_)[0].shape[1]

    @property
    def num_rows_on_disk_(self) -> int | None:
        """Of a table that stays on disk, of which `table_` is a sample; None of any other."""
        batching = self.plan_.batching
        return batching.num_rows if isinstance(batching, StreamBatch) else None

    @property
    def frame_size_(self) -> int:
        return int(np.prod(self.frame_.event_shape))

    @property
    def num_outputs_(self) -> int:
        """Of the decoder: one per cell, or more where the likelihood asks for them."""
        return len(self.model_.likelihood.owners(self.frame_size_))

    @property
    def num_shared_(self) -> int:
        """Latents that are not the path of one column: the representation of a row."""
        return self.latent_dim_ - (self.num_outputs_ if isinstance(self.model_.decoder, networks.PrivateDecoder) else 0)

    def _flat_draws(self, chosen: np.ndarray) -> Position:
        """(chain · draw, ...) of the chosen draws."""
        return jax.tree.map(lambda a: jnp.asarray(a[:, chosen].reshape(-1, *a.shape[2:])), self.draws_)

    def _key(self, purpose: str):
        return jax.random.fold_in(jax.random.key(self.seed + 2**20), sum(map(ord, purpose)))


def merge(draws: Position) -> Position:
    """(chain, draw, ...) to (chain · draw, ...)."""
    return jax.tree.map(lambda a: jnp.asarray(a.reshape(-1, *a.shape[2:])), draws)
