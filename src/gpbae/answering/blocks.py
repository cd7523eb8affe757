"""Many rows, block by block: every block has the same shape, so it is compiled once, and memory does not grow."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae.answering import posterior
from gpbae.answering.answers import Answers
from gpbae.answering.fitted import merge
from gpbae.answering.predictive import Predictive
from gpbae.answering.recognition import Recogniser
from gpbae.priors import NormalPrior, Query
from gpbae.sampling.batches import Table
from gpbae.tabular.tables import Frame

NUM_DRAWS = 64
"""Draws that answer each of many rows: the error of a mean is then an eighth of its standard deviation at most."""
LARGEST_BLOCK = 4_000_000
MOST_ROWS = 16_384
REFINEMENT_STEPS = 5


class Given(NamedTuple):
    """Rows of a question in the units of the model: inputs, the fitted group of each (−1 for none), cells, gaps."""

    x: np.ndarray
    slot: np.ndarray
    y: np.ndarray
    mask: np.ndarray


class Blocks:
    """A fitted model made ready to answer one block after the other; `number` chooses the block's random key."""

    def __init__(self, model: Answers, num_latents: int = 1, num_draws: int | None = None):
        self.model, self.num_latents = model, num_latents
        wanted = NUM_DRAWS if num_draws is None else num_draws
        self.chosen = model._spread(max(1, -(-wanted // model.num_chains_)))
        self.remembers = model.model_.prior.couples_rows
        draws = model.draws_ if self.remembers else model.draws_._replace(local=None)
        self.draws = jax.tree.map(lambda a: jnp.asarray(a[:, self.chosen]), draws)
        per_row = len(self.chosen) * model.num_chains_ * num_latents * model.num_outputs_
        room = min(MOST_ROWS, max(1, LARGEST_BLOCK // per_row))
        self.num_rows = 2 ** int(np.log2(room))
        self.encoders = eqx.combine(jax.tree.map(jnp.asarray, model.encoders_), model.encoder_static_)
        keeps_latents = not model.plan_.amortised and not self.remembers
        self.recogniser = Recogniser(model.table_) if keeps_latents else None

    def predict(self, number: int, x: np.ndarray, slot: np.ndarray) -> Predictive:
        """At inputs of at most `num_rows` rows."""
        model, draws = self.model, merge(self.draws)
        query = self._query(x, slot)
        answer = posterior.predict(model.model_, draws, model.table_, query, self._key("predict", number),
                                   self.num_latents)  # fmt: skip
        eta = np.asarray(answer.eta).reshape(*answer.eta.shape[:2], self.num_rows, -1)
        latent_mean = np.asarray(answer.latent_mean).reshape(len(eta), self.num_rows, -1)
        features = {"hyper": model._hyper_features(draws), "latent_mean": model._aligned(latent_mean, self.chosen)}
        return Predictive(eta, model._observed_likelihood(draws), model.scaler_, model.frame_._replace(index=None),
                          None, model.seed, features, len(x))  # fmt: skip

    def impute(self, number: int, given: Given, frame: Frame) -> Predictive:
        """Cells given those that are there."""
        z, eta = self._latents_and_outputs(number, given)
        return self.model._cells(frame._replace(index=None), self.chosen, z, eta, len(given.x))

    def encode(self, number: int, given: Given, frame: Frame) -> Predictive:
        """Latents given the cells."""
        z, _ = self._latents_and_outputs(number, given)
        return self.model._latents(frame._replace(index=None), self.chosen, z, len(given.x))

    def _key(self, purpose: str, number: int):
        return jax.random.fold_in(self.model._key(purpose), number)

    def _padded(self, a: np.ndarray) -> np.ndarray:
        """Up to the block's shape with copies of the first row, which are cut off again."""
        return np.concatenate([a, np.repeat(a[:1], self.num_rows - len(a), axis=0)])

    def _query(self, x: np.ndarray, slot: np.ndarray) -> Query:
        """Without groups all rows share their values; with groups every row brings its own."""
        x, slot = self._padded(x), self._padded(slot)
        if not self.model.grouped_ or isinstance(self.model.model_.prior, NormalPrior):
            return Query(jnp.asarray(x)[None], jnp.zeros(1, int), jnp.ones(1, bool), jnp.ones((1, self.num_rows), bool))
        return Query(jnp.asarray(x)[:, None], jnp.asarray(np.maximum(slot, 0)), jnp.asarray(slot >= 0),
                     jnp.ones((self.num_rows, 1), bool))  # fmt: skip

    def _latents_and_outputs(self, number: int, given: Given) -> tuple[np.ndarray, np.ndarray]:
        """(S, B, C) and (S, B, H): fitted rows as the chain sampled them, the others placed."""
        numbers = self._numbers(given)
        fitted, new = np.flatnonzero(numbers >= 0), np.flatnonzero(numbers < 0)
        if not len(new):
            return self._recalled(number, numbers)
        z, eta = self._placed(number, Given(*(a[new] for a in given)))
        if not len(fitted):
            return z, eta
        order = np.argsort(np.concatenate([new, fitted]))
        old = self._recalled(number, numbers[fitted])
        both = [
            np.concatenate([a[:, : len(new)], b[:, : len(fitted)]], axis=1) for a, b in zip((z, eta), old, strict=True)
        ]
        at = self._padded(order)
        return both[0][:, at], both[1][:, at]

    def _numbers(self, given: Given) -> np.ndarray:
        if self.recogniser is None:
            return np.full(len(given.x), -1)
        return self.recogniser.numbers(given.x, given.y, given.mask, given.slot)

    def _recalled(self, number: int, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of fitted rows, by number."""
        at = self._padded(numbers)
        whole = self.model.table_
        part = self._table(Given(*(np.asarray(a)[at] for a in (whole.x, whole.group, whole.y, whole.mask))))
        pick = lambda a: jnp.asarray(a[:, self.chosen[:, None], at[None]])  # noqa: E731
        draws = self.draws._replace(local=jax.tree.map(pick, self.model.draws_.local))
        found = posterior.decode_training(self.model.model_, merge(draws), part, None, self._key("redraw", number))
        return np.asarray(found[0]), np.asarray(found[1])

    def _placed(self, number: int, given: Given) -> tuple[np.ndarray, np.ndarray]:
        """Of rows never seen."""
        part = self._table(Given(*map(self._padded, given)))
        model, key = self.model.model_, self._key("refine", number)
        if posterior.can_place(model):
            z, eta = posterior.place(model, self.draws, part, self.encoders, key)
        else:
            query = Query(
                part.x[:, None], part.group, jnp.ones(self.num_rows, bool), jnp.ones((self.num_rows, 1), bool)
            )
            rows = posterior.Rows(part.y[:, None], part.mask[:, None])
            z, eta, _ = posterior.refine(model, self.draws, part, self.encoders, query, rows, key, REFINEMENT_STEPS)
        S = z.shape[0] * z.shape[1]
        return np.asarray(z).reshape(S, self.num_rows, -1), np.asarray(eta).reshape(S, self.num_rows, -1)

    def _table(self, given: Given) -> Table:
        """Rows as a table of their own, for which `slot` still counts the fitted groups."""
        dtype = self.model.table_.y.dtype
        return Table(jnp.asarray(given.x), jnp.asarray(given.y, dtype), jnp.asarray(given.mask),
                     jnp.asarray(given.slot, jnp.int32), jnp.arange(self.num_rows, dtype=jnp.int32)[None])  # fmt: skip
