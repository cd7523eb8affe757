"""What a fitted model is asked: rows in, predictive distributions out."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae.answering import blocks, newcomers, posterior
from gpbae.answering.answers import LARGEST_ANSWER, Answers, unarrange
from gpbae.answering.blocks import Blocks, Given
from gpbae.answering.fitted import merge
from gpbae.answering.large import LargePredictive
from gpbae.answering.predictive import Predictive
from gpbae.answering.recognition import recognise, remaining
from gpbae.errors import InputError
from gpbae.priors import NormalPrior, Query
from gpbae.tabular import tables

Answer = Predictive | LargePredictive
LEAST_ACCEPTANCE = 0.05
"""Of proposals made while latents of new rows are refined; 80 % are aimed at."""


class Questions(Answers):
    """predict, impute, encode, sample, score and evaluate, then what they share."""

    def predict(self, x: Any = None, groups: Any = None, num_latents: int = 4, num_draws: int | None = None) -> Answer:
        """Predictive distribution of y at new inputs; of very many rows, found block by block when it is looked at."""
        self._fitted()
        x_values, rows, slots = self._query(x, groups, None)
        if self._is_large(len(x_values), num_latents, num_draws):
            found, slot = Blocks(self, num_latents, num_draws), by_row(rows, slots, len(x_values))
            return self._large(lambda k, r: found.predict(k, x_values[r], slot[r]), found, slot, tables.row_index(x))
        chosen = self._chosen(num_latents * len(x_values) * self.num_outputs_, num_draws)
        draws = self._flat_draws(chosen)
        answer = posterior.predict(self.model_, draws, self.table_, self._make_query(x_values, rows, slots),
                                   self._key("predict"), num_latents)  # fmt: skip
        latent_mean = unarrange(np.asarray(answer.latent_mean)[:, None], rows, len(x_values))[:, 0]
        latent_mean = self._aligned(latent_mean, chosen)
        features = {"hyper": self._hyper_features(draws), "latent_mean": latent_mean}
        return self._predictive(draws, answer.eta, rows, len(x_values), tables.row_index(x), features)

    def impute(self, x: Any = None, y: Any = None, groups: Any = None, num_draws: int | None = None) -> Answer:
        """Every cell given the observed cells of its row and the GP; `.filled` is y with its gaps at `.point`."""
        self._fitted()
        seen, given, rows, slots = self._given(x, y, groups)
        if self._is_large(len(given.x), 1, num_draws) and self._stand_alone(slots):
            found = Blocks(self, 1, num_draws)

            def answer_to(number: int, r: slice) -> Predictive:
                part = found.impute(number, Given(*(a[r] for a in given)), seen.frame)
                return with_filled(part, tables.Observations(seen.values[r], seen.mask[r], seen.frame), None)

            return self._large(answer_to, found, given.slot, seen.frame.index)
        chosen, z, eta = self._refined(given, rows, slots, num_draws)
        return with_filled(self._cells(seen.frame, chosen, z, eta), seen, seen.frame.index)

    def encode(self, x: Any = None, y: Any = None, groups: Any = None, num_draws: int | None = None) -> Answer:
        """Latents of rows, seen or not, with or without gaps; draws are turned into one common frame."""
        self._fitted()
        seen, given, rows, slots = self._given(x, y, groups)
        if self._is_large(len(given.x), 1, num_draws) and self._stand_alone(slots):
            found = Blocks(self, 1, num_draws)
            answer_to = lambda k, r: found.encode(k, Given(*(a[r] for a in given)), seen.frame)  # noqa: E731
            return self._large(answer_to, found, given.slot, seen.frame.index)
        chosen, z, _ = self._refined(given, rows, slots, num_draws)
        return self._latents(seen.frame, chosen, z)

    # Very many rows.

    def _is_large(self, num_rows: int, num_latents: int, num_draws: int | None) -> bool:
        """Whether the draws that an answer should have are too many to hold."""
        draws = min(self.num_chains_ * self._num_draws, blocks.NUM_DRAWS if num_draws is None else num_draws)
        return num_rows * num_latents * self.num_outputs_ * draws > LARGEST_ANSWER

    def _usual_draws(self, question: str, num_rows: int) -> int:
        """How many draws answer so many rows at once, unless a number is asked for."""
        num_latents = 4 if question == "predict" else 1
        if self._is_large(num_rows, num_latents, None):
            return min(blocks.NUM_DRAWS, self.num_chains_ * self._num_draws)
        return self.num_chains_ * len(self._chosen(num_latents * num_rows * self.num_outputs_))

    def _stand_alone(self, slots: np.ndarray) -> bool:
        """Whether every row can be answered by itself; rows of a new group are only answered together."""
        alone = isinstance(self.model_.prior, NormalPrior) or bool((slots >= 0).all())
        return alone and not self.model_.prior.couples_rows

    def _large(self, answer_to, found: Blocks, slot: np.ndarray, index: Any) -> LargePredictive:
        return LargePredictive(answer_to, len(slot), found.num_rows, index, type(self).__name__, self.progress)

    def recall(self, rows: Any, num_draws: int | None = None) -> tuple[Predictive, Predictive]:
        """Cells and latents of rows of the fitted table, by number, as `impute` and `encode` would give them."""
        self._fitted()
        numbers = np.asarray(rows, int)
        chosen = self._chosen(len(numbers) * self.num_outputs_, num_draws)
        draws = jax.tree.map(lambda a: jnp.asarray(a[:, chosen]), self.draws_)
        if self.plan_.amortised:
            table = jax.tree.map(lambda a: np.asarray(a)[numbers], self.table_._replace(group_rows=None))
            present, codes = np.unique(table.group, return_inverse=True)
            arranged = tables.arrange(codes, len(present))
            z, eta = self._answer_rows(draws, table.x, table.y, table.mask, arranged, present)
        else:
            z, eta = posterior.decode_training(self.model_, merge(draws), self.table_, jnp.asarray(numbers),
                                               self._key("redraw"))  # fmt: skip
        frame = self.frame_._replace(index=None)
        return self._cells(frame, chosen, np.asarray(z), np.asarray(eta)), self._latents(frame, chosen, np.asarray(z))

    def sample(self, x: Any, num_samples: int = 100, groups: Any = None, noise: bool = True) -> np.ndarray:
        """Joint draws of y along x, with or without observation noise: an array (num_samples, rows, columns), of images
        (num_samples, rows, height, width), also where a data frame was fitted; columns are in the order of `fit`.

        It holds numbers in the units of y; yes is 1 and no 0, and a label is its place among the columns of
        `predict(x).probabilities(name)`: 0 for the first.  Without noise each is the mean given the draw: of yes and no
        the chance of yes, of labels a mean of places, which says nothing.
        """
        self._fitted()
        x_values, rows, slots = self._query(x, groups, None)
        total = self.num_chains_ * self._num_draws
        picks = np.linspace(0, total - 1, num_samples).round().astype(int)
        everything = self._flat_draws(np.arange(self._num_draws))
        draws = jax.tree.map(lambda a: a[picks], everything)
        _, eta = posterior.sample_paths(self.model_, draws, self.table_, self._make_query(x_values, rows, slots),
                                        self._key("sample"))  # fmt: skip
        answer = self._predictive(draws, np.asarray(eta)[:, None], rows, len(x_values), None)
        if noise:
            return answer.samples
        return answer._means[:, 0].reshape(num_samples, len(x_values), *self.frame_.event_shape)

    def score(self, x: Any, y: Any, groups: Any = None) -> float:
        """Mean log predictive density of the observed cells given x alone, in the units of y."""
        self._fitted()
        seen = self._observations(y)
        if not seen.mask.any():
            raise InputError("score needs at least one observed cell; got only NaN.")
        if x is None and isinstance(self.model_.prior, NormalPrior):
            x = np.zeros((len(seen.values), 1))
        if x is not None:
            tables.inputs(x, len(seen.values))
        answer = self.predict(x, groups)
        return float(np.mean(answer.log_density(seen.values, seen.mask)[seen.mask]))

    def evaluate(self, x: Any, y: Any, groups: Any = None, holdout: float = 0.1, how: Any = "cells",
                 block_length: int = 24, rivals: bool = False, seed: int = 0):  # fmt: skip
        """Hide a share of the known cells, refit a copy on the rest, fill them and score: a row of metrics per column.

        `how` is "cells", "blocks" (of `block_length` rows along x), "rows" or ("column", name, start).  The last row,
        "all", is of all columns, in units of each one's standard deviation; a table of numbers and labels has "all
        numbers" and "all labels" instead.  With `rivals` simple ways to fill a table are
        scored on the same cells, and the rows go by method and column.
        """
        from gpbae.scoring import evaluation

        hidden = evaluation.Holdout(how, holdout, block_length, seed)
        found = evaluation.evaluate(self, x, y, groups, hidden, with_rivals=rivals)
        return found.table if rivals else found.table.xs(type(self).__name__, level="method")

    # Rows of a question, arranged by group.

    def _observations(self, y: Any) -> tables.Observations:
        names = tables.column_names(self.frame_) if self.frame_.columns is not None else None
        seen = tables.observations(y, self.frame_.event_shape, names, self.frame_.codings)
        self._fitted_likelihood.check(seen.values, seen.mask, tuple(seen.frame.names()))
        tables.check_scaled(self.scaler_.forward(seen.values), seen.mask)
        return seen

    @property
    def _fitted_likelihood(self):
        return self.model_.likelihood

    def _query(self, x: Any, groups: Any, num_rows: int | None):
        """Rows arranged by group: the query and the (G, q) table of row numbers behind it."""
        x_values = self._new_inputs(x, num_rows)
        if groups is None and self.grouped_:
            raise InputError(
                "This model was fitted with groups, so each row needs a label: pass groups=...; "
                "a label never seen is a new group."
            )
        labels = tables.group_codes(groups, len(x_values))
        slots = tables.find_labels(labels.labels, self.groups_)
        if not self.grouped_ and groups is None:
            slots = np.zeros(1, int)
        rows = tables.arrange(labels.codes, len(labels.labels))
        return x_values - self.x_location_, rows, slots

    def _new_inputs(self, x, num_rows):
        width = len(self.x_location_)
        if x is None:
            if not isinstance(self.model_.prior, NormalPrior):
                raise InputError(f"{type(self).__name__} needs inputs: pass x with {width} columns.")
            if num_rows is None:
                raise InputError("BAE knows rows only by their number: pass x with one row per prediction.")
            return np.zeros((num_rows, width))
        if isinstance(self.model_.prior, NormalPrior):
            return np.zeros((len(tables.inputs(x, num_rows)), width))
        return tables.inputs(x, num_rows, width, self.x_columns_)

    def _make_query(self, x, rows, slots) -> Query:
        valid = rows < len(x)
        return Query(jnp.asarray(x[np.minimum(rows, len(x) - 1)]), jnp.asarray(np.maximum(slots, 0)),
                     jnp.asarray(slots >= 0), jnp.asarray(valid))  # fmt: skip

    # Latents of given rows.

    def _given(self, x, y, groups):
        """Rows as the user gave them and as the model takes them; (G, q) row numbers by group, the fitted groups."""
        seen = self._observations(y)
        x_values, rows, slots = self._query(x, groups, len(seen.values))
        scaled = np.where(seen.mask, self.scaler_.forward(seen.values), 0.0)
        return seen, Given(x_values, by_row(rows, slots, len(x_values)), scaled, seen.mask), rows, slots

    def _refined(self, given: Given, rows, slots, num_draws):
        """Latents and η of given rows, (S, T, C) and (S, T, H), with the draws they belong to."""
        chosen = self._chosen(len(given.x) * self.num_outputs_, num_draws)
        draws = jax.tree.map(lambda a: jnp.asarray(a[:, chosen]), self.draws_)
        return chosen, *self._answer_rows(draws, given.x, given.y, given.mask, rows, slots)

    def _answer_rows(self, draws, x_values, scaled, mask, rows, slots):
        """Rows the model was fitted to take the latents that the chain sampled; the rest is refined."""
        numbers = self._numbers(x_values, scaled, mask, rows, slots)
        fitted = np.flatnonzero(numbers >= 0)
        if len(fitted):
            recalled = posterior.decode_training(self.model_, merge(draws), self.table_, jnp.asarray(numbers[fitted]),
                                                 self._key("redraw"))  # fmt: skip
            if len(fitted) == len(numbers):
                return tuple(map(np.asarray, recalled))
        S = self.num_chains_ * jax.tree.leaves(draws)[0].shape[1]
        z = np.zeros((S, len(x_values), self.latent_dim_))
        eta = np.zeros((S, len(x_values), self.num_outputs_), self.table_.y.dtype)
        if len(fitted):
            z[:, fitted], eta[:, fitted] = recalled
        for part_rows, part_slots in self._parts(rows, slots, numbers < 0, mask.all(axis=1)):
            valid = part_rows < len(x_values)
            part_z, part_eta = self._refine_part(draws, x_values, scaled, mask, part_rows, part_slots)
            z[:, part_rows[valid]] = part_z.reshape(S, *part_z.shape[2:])[:, valid]
            eta[:, part_rows[valid]] = part_eta.reshape(S, *part_eta.shape[2:])[:, valid]
        return z, eta

    def _refine_part(self, draws, x_values, scaled, mask, rows, slots):
        """Latents and η of rows that were not fitted, (chain, draw, G, q, C) and (chain, draw, G, q, H)."""
        safe = np.minimum(rows, len(x_values) - 1)
        given = posterior.Rows(jnp.asarray(scaled[safe], self.table_.y.dtype),
                               jnp.asarray(mask[safe] & (rows < len(x_values))[..., None]))  # fmt: skip
        encoders = eqx.combine(jax.tree.map(jnp.asarray, self.encoders_), self.encoder_static_)
        query, key, num_steps = self._make_query(x_values, rows, slots), self._key("refine"), self._refinement_steps
        has_gaps = not mask[rows[rows < len(x_values)]].all()  # else the encoder has seen all there is
        if (slots < 0).all() and has_gaps and newcomers.can_refine(self.model_, given):
            z, eta, acceptance = newcomers.refine(self.model_, draws, encoders, query, given, key, num_steps)
        else:
            found = posterior.refine(self.model_, draws, self.table_, encoders, query, given, key, num_steps)
            z, eta, acceptance = map(np.asarray, found)
        warn_of_stuck(acceptance, "groups" if (slots < 0).all() else "rows")
        return z, eta

    @property
    def _refinement_steps(self) -> int:
        return blocks.REFINEMENT_STEPS

    def _parts(self, rows, slots, left, whole):
        """Rows of known groups stand alone given the values; a new group, or an exact GP's, moves as one block.  New
        groups whose rows are all `whole` are a part of their own, so that no answer depends on other groups' gaps."""
        rows, members = remaining(rows, left)
        slots = slots[members]
        if not len(rows):
            return []
        if isinstance(self.model_.prior, NormalPrior):
            return [(np.flatnonzero(left)[:, None], np.zeros(left.sum(), int))]
        if self.model_.prior.couples_rows:
            return [(rows, slots)]
        known = slots >= 0
        valid = rows[known] < len(left)
        parts = [(rows[known][valid][:, None], np.repeat(slots[known], valid.sum(axis=1)))]
        has_gaps = ~np.append(whole, True)[rows].all(axis=1)
        for members in (~known & has_gaps, ~known & ~has_gaps):
            parts.append((rows[members], slots[members]))
        return [part for part in parts if len(part[0])]

    def _numbers(self, x_values, scaled, mask, rows, slots) -> np.ndarray:
        """Of every row its number in the fitted table, −1 where its latents were not sampled."""
        if self.plan_.amortised:
            return np.full(len(x_values), -1)
        return recognise(self.table_, x_values, scaled, mask, by_row(rows, slots, len(x_values)))


def by_row(rows: np.ndarray, slots: np.ndarray, num_rows: int) -> np.ndarray:
    """The fitted group of every row, from that of every group."""
    out = np.zeros(num_rows, int)
    valid = rows < num_rows
    out[rows[valid]] = np.broadcast_to(slots[:, None], rows.shape)[valid]
    return out


def warn_of_stuck(acceptance: np.ndarray, what: str) -> None:
    """Say how many groups (or rows) hardly moved in some chain while they were refined; (chain, group)."""
    stuck = (acceptance.min(axis=0) < LEAST_ACCEPTANCE).sum()
    if stuck:
        warnings.warn(
            f"The latents of {stuck} of {acceptance.shape[1]} new {what} hardly moved while they were refined (fewer "
            f"than {LEAST_ACCEPTANCE:.0%} of the proposals were accepted), so their intervals may be too narrow. Fit "
            "the model with these rows to be sure.",
            stacklevel=6,
        )


def with_filled(answer: Predictive, seen: tables.Observations, index: Any) -> Predictive:
    """With the table whose gaps are at the answer's point."""
    answer.filled = seen.frame.decode(np.where(seen.mask, seen.values, answer.point_values), index)
    return answer
