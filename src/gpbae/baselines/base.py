"""What all baselines share: arguments, the table at the door, the folder of a run, and answers in the user's units."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from gpbae.answering.answers import LARGEST_ANSWER
from gpbae.answering.predictive import Predictive
from gpbae.answering.questions import Questions
from gpbae.contract import Contract
from gpbae.errors import GpbaeError, InputError
from gpbae.likelihoods import AbstractLikelihood
from gpbae.processes import progress
from gpbae.sampling import checkpoint
from gpbae.sampling.batches import Table
from gpbae.sampling.building import Building, check_count, check_flag, check_positive
from gpbae.tabular import tables


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Baseline(Contract):
    """A model that is optimised, not sampled: a fixed number of steps, and no look at cells that are not given.

    num_steps : steps of the optimiser; training stops there and nowhere else.
    num_draws : draws in an answer.
    standardise : work on standardised columns and centred inputs; undone on the way out.
    transform : of real-valued columns, as of `gpbae.BAE`.
    progress : whether to show it, or a function that is told of every event.
    """

    num_steps: int = 3000
    num_draws: int = 200
    standardise: bool = True
    transform: Any = "none"
    seed: int = 0
    progress: bool | Callable[[dict[str, Any]], None] = True

    def fit(self, x: Any, y: Any, groups: Any = None, run_dir: Any = None):
        """Fit to a table y (NaN = missing) with inputs x and optional group labels; `run_dir` keeps the result."""
        self._check()
        table = self._read(x, y, groups)
        begun, processor = time.monotonic(), time.process_time()
        with self._keeping(run_dir, x, y, groups) as keeper, progress.display(self._title(), self.progress) as listener:
            self.history_ = []

            def say(event: dict[str, Any]) -> None:
                event = {**event, "seconds": time.monotonic() - begun,
                         "processor_seconds": time.process_time() - processor}  # fmt: skip
                self.history_.append(event)
                keeper.record(event)
                listener(event)
                if keeper.is_stopping():
                    keeper.stop(f"step {event['done']} of {event['total']}")

            self._train(table, say)
            self.table_ = table
            keeper.finish(self)
        return self

    def _title(self) -> str:
        return type(self).__name__

    def _keeping(self, run_dir, x, y, groups):
        if run_dir is None:
            return contextlib.nullcontext(checkpoint.Keeper())
        from gpbae.saving import runfolder

        return runfolder.keeping(run_dir, self, x, y, groups)

    def _check(self) -> None:
        for argument in dataclasses.fields(self):
            if isinstance(argument.default, bool) and argument.name != "progress":
                check_flag(argument.name, getattr(self, argument.name))
            elif isinstance(argument.default, float):
                check_positive(argument.name, getattr(self, argument.name))
        for name, least in (("num_steps", 0), ("num_draws", 2), ("seed", 0)):
            check_count(name, getattr(self, name), least)

    def _train(self, table: Table, say: Callable[[dict[str, Any]], None]) -> None:
        raise NotImplementedError

    # The table at the door.

    @property
    def _fitted_likelihood(self) -> AbstractLikelihood:
        return self.likelihood_

    def _read(self, x: Any, y: Any, groups: Any) -> Table:
        seen = tables.observations(y)
        if not seen.mask.any():
            raise InputError("y must have at least one observed cell; got only NaN.")
        labels = tables.group_codes(groups, len(seen.values))
        x_values = self._inputs(x, len(seen.values))
        self.likelihood_ = self._likelihood(seen).initialise(seen.values, seen.mask)
        kinds = self.likelihood_.kinds(seen.values.shape[1])
        active = np.array([self.standardise and kind == "real" for kind in kinds])
        wanted = Building._transforms(self, seen, np.array([kind == "real" for kind in kinds]))  # type: ignore[arg-type]
        self.scaler_ = tables.fit_scaler(seen.values, seen.mask, active, wanted)
        self.frame_, self.groups_, self.grouped_ = seen.frame, labels.labels, groups is not None
        self.x_columns_, self.x_location_ = tables.column_names(x), self._x_location(x_values)
        return self._table(x_values - self.x_location_, seen, labels.codes, len(labels.labels))

    def _table(self, x, seen: tables.Observations, codes, num_groups: int) -> Table:
        y = np.where(seen.mask, self.scaler_.forward(seen.values), 0.0)
        rows = tables.arrange(codes, num_groups)
        return Table(jnp.asarray(x), jnp.asarray(y, jnp.float32), jnp.asarray(seen.mask),
                     jnp.asarray(codes, jnp.int32), jnp.asarray(rows, jnp.int32))  # fmt: skip

    def _likelihood(self, seen: tables.Observations) -> AbstractLikelihood:
        raise NotImplementedError

    def _inputs(self, x: Any, num_rows: int) -> np.ndarray:
        if x is None:
            raise InputError(f"{type(self).__name__} needs inputs: pass x with one row per row of y.")
        return tables.inputs(x, num_rows)

    def _x_location(self, x_values: np.ndarray) -> np.ndarray:
        return x_values.mean(axis=0) if self.standardise else np.zeros(x_values.shape[1])

    # Questions.

    def predict(self, x: Any = None, groups: Any = None, num_draws: int | None = None) -> Predictive:
        """Predictive distribution of y at new inputs, cell by cell."""
        self._fitted()
        rows, index = self._rows(x, None, groups), tables.row_index(x)
        return self._answer(rows, index, self._num_answers(rows, num_draws))

    def impute(self, x: Any = None, y: Any = None, groups: Any = None, num_draws: int | None = None) -> Predictive:
        """Every cell given the observed cells; `.filled` is y with its gaps at the mean."""
        self._fitted()
        seen = self._observations(y)
        rows = self._rows(x, seen, groups)
        answer = self._answer(rows, seen.frame.index, self._num_answers(rows, num_draws))
        filled = np.where(seen.mask, seen.values, answer.point_values)
        answer.filled = seen.frame.decode(filled, seen.frame.index)  # type: ignore[attr-defined]
        return answer

    def score(self, x: Any, y: Any, groups: Any = None) -> float:
        """Mean log predictive density of the observed cells given x alone, in the units of y."""
        self._fitted()
        seen = self._observations(y)
        if not seen.mask.any():
            raise InputError("score needs at least one observed cell; got only NaN.")
        return float(np.mean(self.predict(x, groups).log_density(seen.values, seen.mask)[seen.mask]))

    evaluate = Questions.evaluate
    _observations = Questions._observations

    def save(self, path: Any) -> None:
        """Write this fitted model to a folder that `gpbae.load` reads."""
        from gpbae.saving import io

        io.save(self, path)

    def _answer(self, rows: Table, index: Any, num_draws: int) -> Predictive:
        return self._predictive(self._eta(rows, num_draws), index)

    def _eta(self, rows: Table, num_draws: int) -> Float[np.ndarray, "S N P"]:
        """Draws of the decoder's output for given rows."""
        raise NotImplementedError

    def _fitted(self) -> None:
        if not hasattr(self, "table_"):
            raise GpbaeError(f"This {type(self).__name__} is not fitted yet; call fit(x, y) first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "table_")

    def _rows(self, x: Any, seen: tables.Observations | None, groups: Any) -> Table:
        """Rows of a question; `group` counts the fitted groups first, then new ones in order of appearance."""
        num_rows = None if seen is None else len(seen.values)
        x_values = self._asked(x, num_rows)
        if groups is None and self.grouped_:
            raise InputError(
                "This model was fitted with groups, so each row needs a label: pass groups=...; a label never seen is "
                "a new group."
            )
        if seen is None:
            nothing = np.full((len(x_values), int(np.prod(self.frame_.event_shape))), np.nan)
            seen = tables.Observations(nothing, np.zeros(nothing.shape, bool), self.frame_)
        labels = tables.group_codes(groups, len(x_values))
        slots = tables.find_labels(labels.labels, self.groups_) if self.grouped_ or groups is not None else np.zeros(1)
        fresh = np.cumsum(slots < 0) - 1 + len(self.groups_)
        codes = np.where(slots < 0, fresh, slots).astype(np.int32)[labels.codes]
        return self._table(x_values - self.x_location_, seen, codes, int(codes.max()) + 1)

    def _asked(self, x: Any, num_rows: int | None) -> np.ndarray:
        if x is None:
            raise InputError(f"{type(self).__name__} needs inputs: pass x with {len(self.x_location_)} columns.")
        return tables.inputs(x, num_rows, len(self.x_location_), self.x_columns_)

    def _evidence(self, rows: Table) -> Table:
        """The fitted rows, and of the given ones those with something observed that were not fitted."""
        fitted = self.table_
        known = set(map(_identity, *(np.asarray(a) for a in fitted[:4])))
        given = [np.asarray(a) for a in rows[:4]]
        fresh = np.array([bool(m.any()) and _identity(x, y, m, g) not in known
                          for x, y, m, g in zip(*given, strict=True)], bool)  # fmt: skip
        joined = [np.concatenate([np.asarray(a), b[fresh]]) for a, b in zip(fitted[:4], given, strict=True)]
        num_groups = max(int(joined[3].max()), int(given[3].max())) + 1
        blocks = tables.arrange(joined[3], num_groups)
        return Table(*(jnp.asarray(a) for a in joined), jnp.asarray(blocks, jnp.int32))

    def _num_answers(self, rows: Table, num_draws: int | None) -> int:
        """Draws of an answer: as many as asked for and memory allows."""
        check_count("num_draws", num_draws, 1, or_none=True)
        wanted = self.num_draws if num_draws is None else num_draws
        return int(min(wanted, max(2, LARGEST_ANSWER // rows.y.size)))

    def _predictive(self, eta: Float[np.ndarray, "S N P"], index: Any, likelihood: Any = None, kind=Predictive):
        """Draws of the latents under the one decoder there is, so nothing of their spread is the decoder's."""
        alone = jax.tree.map(lambda a: a[None], self.likelihood_ if likelihood is None else likelihood)
        return kind(np.asarray(eta)[None], alone, self.scaler_, self.frame_, index, self.seed)


def _identity(x, y, mask, group) -> bytes:
    return x.tobytes() + y.tobytes() + mask.tobytes() + int(group).to_bytes(8, "little")


def normal_scores(num_draws: int, shape: tuple[int, ...], seed: int) -> Float[np.ndarray, "S ..."]:
    """Standard normal draws with exact mean and nearly exact spread in every cell: quantiles in random order."""
    scores = ndtri((np.arange(num_draws) + 0.5) / num_draws)
    scores /= np.sqrt(np.mean(scores**2))
    rng = np.random.default_rng([seed, 17])
    order = np.argsort(rng.random((num_draws, *shape), dtype=np.float32), axis=0)
    return scores[order]
