"""From draws of latents and decoder outputs to predictive distributions in the units and the frame of the user."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpbae.answering.fitted import Fitted
from gpbae.answering.predictive import Predictive
from gpbae.autoencoder import Position
from gpbae.tabular import tables

LARGEST_ANSWER = 60_000_000


class Answers(Fitted):
    """Which draws an answer uses, and what is made of them."""

    rotations_: np.ndarray

    def _chosen(self, cells_per_draw: int, num_draws: int | None = None) -> np.ndarray:
        """Draws per chain to use: as many as the answer's size allows, evenly spread."""
        most = max(1, LARGEST_ANSWER // max(1, cells_per_draw * self.num_chains_))
        wanted = self._num_draws if num_draws is None else max(1, -(-num_draws // self.num_chains_))
        return self._spread(min(most, wanted))

    def _spread(self, count: int) -> np.ndarray:
        """So many draws of each chain, evenly spread, or all."""
        available = self._num_draws
        return np.unique(np.linspace(available - 1, 0, min(available, count)).round().astype(int))

    def _aligned(self, z: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Latents (S, T, C) of the chosen draws, turned into one common frame."""
        return np.einsum("stc,scd->std", z, self.rotations_[:, chosen].reshape(-1, self.latent_dim_, self.latent_dim_))

    def _cells(self, frame, chosen, z, eta, num_rows: int | None = None) -> Predictive:
        draws = self._flat_draws(chosen)
        features = {"hyper": self._hyper_features(draws), "latents": self._aligned(z, chosen)}
        return Predictive(eta[:, None], self._observed_likelihood(draws), self.scaler_, frame, frame.index, self.seed,
                          features, num_rows)  # fmt: skip

    def _latents(self, frame, chosen, z, num_rows: int | None = None) -> Predictive:
        """Those that rows are told by; the path of a single column is in that column's own answer."""
        num = self.num_shared_
        columns = None if frame.columns is None else [f"latent{i}" for i in range(num)]
        unit = tables.Scaler(np.zeros(num), np.ones(num))
        return Predictive(self._aligned(z, chosen)[:, None, :, :num], None, unit, tables.Frame((num,), columns),
                          frame.index, self.seed, None, num_rows)  # fmt: skip

    def _warped(self, index, h) -> Predictive:
        """Inputs after hidden layers, (S, Q, T, D), by the names of the inputs."""
        unit = tables.Scaler(np.zeros(h.shape[-1]), np.ones(h.shape[-1]))
        frame = tables.Frame((h.shape[-1],), self.x_columns_)
        return Predictive(h, None, unit, frame, index, self.seed)

    def _predictive(self, draws, eta, rows, num_rows, index, features=None) -> Predictive:
        """Answers arranged by group, (S, R, G, q, H), back in the order of the rows."""
        flat = unarrange(np.asarray(eta), rows, num_rows)
        return Predictive(flat, self._observed_likelihood(draws), self.scaler_, self.frame_, index, self.seed, features)

    def _observed_likelihood(self, draws: Position) -> Any:
        return jax.vmap(self.model_.observe)(draws.shared) if jax.tree.leaves(
            draws.shared["likelihood"]) else self._broadcast_likelihood(draws)  # fmt: skip

    def _broadcast_likelihood(self, draws: Position):
        S = jax.tree.leaves(draws)[0].shape[0]
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (S, *a.shape)), self.model_.likelihood)

    def _hyper_features(self, draws: Position) -> np.ndarray:
        """Sampled kernel hyper-parameters and noise, one row per draw."""
        hyper = {k: v for k, v in draws.shared["prior"].items() if k in ("kernel", "log_latent_noise")}
        leaves = jax.tree.leaves((hyper, draws.shared["likelihood"]))
        S = jax.tree.leaves(draws)[0].shape[0]
        flat = [np.asarray(a, np.float64).reshape(S, -1) for a in leaves]
        return np.concatenate(flat, axis=1) if flat else np.zeros((S, 0))


def unarrange(blocked: np.ndarray, rows: np.ndarray, num_rows: int) -> np.ndarray:
    """(S, R, G, q, P) by group back to (S, R, T, P) by row."""
    valid = rows < num_rows
    out = np.empty((*blocked.shape[:2], num_rows, blocked.shape[-1]), blocked.dtype)
    out[:, :, rows[valid]] = blocked[:, :, valid]
    return out
