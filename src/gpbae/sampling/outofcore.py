"""Fit a table that stays on disk: what must be chosen from the data is chosen from a sample, the chains see all of it.

Where a run comes by every row several times, rows keep their latents in a file (`keptlatents`) and every step sees
others (`visits`).  Of a longer table latents are born at every sweep, near their law given all else, where the
encoder's guess leads (`Plan.placed`), and a batch stays for the sweep: what is seen once has nothing to keep.
"""

import contextlib
import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gpbae.errors import InputError
from gpbae.likelihoods import AbstractLikelihood
from gpbae.priors import SeededPrior
from gpbae.processes import distributed
from gpbae.sampling.batches import StreamBatch
from gpbae.sampling.keptlatents import KeptLatents, Latents
from gpbae.tabular import tables
from gpbae.tabular.ondisk import ROWS_AT_A_TIME, Feed, OnDisk, Rows, distinct, independent

SAMPLE = 10_000
BATCH = 256
LARGEST_BATCH = SAMPLE
GROUPS_PER_ROW = 4
FEWEST_VISITS = 3
"""Of a row in a run, from which on latents are kept."""
LARGEST_BLOCK = 2**24
"""Cells of the sweeps of all chains that are computed at once.  Two such parts are in memory, a third is read, which
takes 30 bytes for a cell."""


def fit(estimator: Any, x: Any, y: OnDisk, groups: Any = None, run_dir: Any = None) -> Any:
    """Sample the posterior given all rows; the table that is kept with the model, and in `run_dir`, is the sample."""
    _check(estimator, x, y)
    labels = labels_of(groups, len(y))
    _refuse_many_groups(estimator, len(labels.labels))
    chosen = chosen_rows(labels, len(y))
    sample = sample_of(x, y, groups, chosen)
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(*sample)
    if model.prior.couples_rows or isinstance(model.prior, SeededPrior):
        raise InputError(
            f"{type(estimator).__name__} with this prior needs the latents of all rows; use SGPBAE or BAE."
        )
    size, num_chains = _batch_size(estimator, y.shape), estimator.num_chains
    num_visits = num_visits_of_a_sweep(estimator, y.shape)
    at_once = sweeps_at_once(estimator, y.shape)
    batching = StreamBatch(size, len(y), unseen=1 - size / len(y) if num_visits else 1.0)
    plan = dataclasses.replace(plan, batching=batching, amortised=True, refresh=False, collapsed=False, placed=True,
                               visits=num_visits or 1)  # fmt: skip
    model = dataclasses.replace(model, values_are_local=False)
    slots = tables.find_labels(labels.labels, estimator.groups_).astype(np.int32)

    def gather(numbers: np.ndarray) -> Rows:
        kept.touch(numbers)
        values = y.rows(numbers).reshape(*numbers.shape, -1)
        mask = ~np.isnan(values)
        _refuse_impossible(numbers, values, mask, model.likelihood, estimator.frame_)
        scaled = np.where(mask, estimator.scaler_.forward(values), 0.0).astype(table.y.dtype)
        inputs = np.zeros((*numbers.shape, 1)) if x is None or _is_blind(estimator) else _rows(x, numbers)
        inputs = inputs.reshape(*numbers.shape, -1)
        _refuse_unusable(numbers, inputs, "x", "Drop that row.")
        return Rows(inputs - estimator.x_location_, scaled, mask, slots[labels.codes[numbers]])

    with contextlib.ExitStack() as stack:
        keeper = stack.enter_context(estimator._keeping(run_dir, *sample, rows_on_disk=len(y)))
        if num_visits:
            folder = keeper.folder_for_latents() or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            kept = KeptLatents(folder, num_chains, len(y), model.prior.latent_dim)
            feed = Feed(gather, distinct(len(y), size, num_visits), num_chains, estimator.seed, at_once)
        else:
            kept = Latents()
            feed = Feed(gather, independent(len(y), size), num_chains, estimator.seed, at_once)
        with contextlib.closing(feed):
            estimator._sample(model, plan, table, decoder_of, encoder_of, latents, keeper, feed, kept)
        keeper.finish(estimator)
        kept.remove()
    return estimator


def num_visits_of_a_sweep(estimator: Any, shape: tuple[int, ...]) -> int:
    """Batches that a sweep sees where rows of a table of this shape keep their latents, one for every step, for a batch
    that stays for several makes the noise hot; 0 where latents are born anew.

    By itself, rows keep their latents where memory holds those of a sweep, and where a run is expected to come by
    several times: what is seen once is only born.
    """
    steps = estimator.sampler_steps
    cells = steps * _cells_of_a_visit(estimator, shape)
    if estimator.latents == "persistent" and cells > LARGEST_BLOCK:
        raise InputError(
            f"Latents of a table on disk are kept where a sweep has at most {LARGEST_BLOCK} cells; got {cells} "
            "(num_chains × sampler_steps × batch_size × columns). Make one of these smaller, or pass latents='auto'."
        )
    if estimator.latents != "auto":
        return steps if estimator.latents == "persistent" else 0
    sweeps = estimator.num_warmup + estimator.num_samples * estimator.thinning
    comes_by = sweeps * steps * _batch_size(estimator, shape) >= FEWEST_VISITS * shape[0]
    return steps if comes_by and cells <= LARGEST_BLOCK and not distributed.is_on() else 0


def sweeps_at_once(estimator: Any, shape: tuple[int, ...]) -> int:
    """Of the sweeps of a block, how many have their rows in memory: all, or a part that goes into them evenly."""
    cells = (num_visits_of_a_sweep(estimator, shape) or 1) * _cells_of_a_visit(estimator, shape)
    divisors = (n for n in range(estimator.thinning, 0, -1) if estimator.thinning % n == 0)
    return next((n for n in divisors if n * cells <= LARGEST_BLOCK), 1)


def _batch_size(estimator: Any, shape: tuple[int, ...]) -> int:
    return min(estimator.batch_size or BATCH, shape[0])


def _cells_of_a_visit(estimator: Any, shape: tuple[int, ...]) -> int:
    """Of all chains."""
    return estimator.num_chains * _batch_size(estimator, shape) * math.prod(shape[1:])


def _check(estimator: Any, x: Any, y: OnDisk) -> None:
    if estimator.latents == "persistent" and distributed.is_on():
        raise InputError(
            "Latents of a table on disk are kept by one process; got several. Pass latents='amortised', or fit in one."
        )
    if (estimator.batch_size or BATCH) > LARGEST_BATCH:
        raise InputError(
            f"batch_size of a table on disk must be at most {LARGEST_BATCH}, of which gradient noise is measured; "
            f"got {estimator.batch_size}."
        )
    if x is not None and len(x) != len(y):
        raise InputError(f"x and y must have the same number of rows; got {len(x)} and {len(y)}.")


def _refuse_many_groups(estimator: Any, num_groups: int) -> None:
    """Each has values of its own; of a group that hardly any batch sees they would stand still."""
    size = estimator.batch_size or BATCH
    if not _is_blind(estimator) and num_groups > GROUPS_PER_ROW * size:
        enough = -(-num_groups // GROUPS_PER_ROW)
        larger = f"pass batch_size={enough} or more, or " if enough <= LARGEST_BATCH else ""
        raise InputError(
            f"A batch of {size} rows of a table on disk sees too little of {num_groups} groups to move their values; "
            f"{larger}fit some of the groups in memory."
        )


def labels_of(groups: Any, num_rows: int) -> tables.Groups:
    """Labels of the rows; without any, one label for all of them and no memory.  Codes may stay on disk, too."""
    if isinstance(groups, tables.Groups):
        if len(groups.codes) != num_rows:
            raise InputError(f"groups must have one label per row; got {len(groups.codes)} for {num_rows} rows.")
        return groups
    if groups is not None:
        return tables.group_codes(groups, num_rows)
    one = tables.group_codes(None, 1)
    return one._replace(codes=np.broadcast_to(one.codes, num_rows))


def sample_of(x: Any, y: OnDisk, groups: Any, chosen: np.ndarray) -> tuple[Any, Any, Any]:
    """These rows of a table, as a user would give them."""
    labels = labels_of(groups, len(y))
    some_x = x.sample(chosen) if isinstance(x, OnDisk) else None if x is None else np.asarray(x)[chosen]
    return some_x, y.sample(chosen), None if groups is None else labels.labels[labels.codes[chosen]]


def chosen_rows(labels: tables.Groups, num_rows: int) -> np.ndarray:
    """Random rows, and one of every group that has none among them, in the order of the file.

    The same for every seed of a model, so that runs of one table are known by it.
    """
    rng = np.random.default_rng(7)
    chosen = rng.choice(num_rows, min(SAMPLE, num_rows), replace=False)
    if len(labels.labels) == 1:
        return np.sort(chosen)
    missing = np.ones(len(labels.labels), bool)
    missing[np.unique(labels.codes[np.sort(chosen)])] = False
    return np.sort(np.concatenate([chosen, _one_of_every_group(labels, missing, rng)]))


def _one_of_every_group(labels: tables.Groups, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random row of every wanted group: its first one might be unlike the others.  Found some rows at a time, for
    codes may be many and on disk."""
    row, least = np.full(len(wanted), -1), np.full(len(wanted), np.inf)
    for start in range(0, len(labels.codes), ROWS_AT_A_TIME):
        codes = np.asarray(labels.codes[start : start + ROWS_AT_A_TIME])
        lots = rng.random(len(codes))
        order = np.argsort(lots)
        found, places = np.unique(codes[order], return_index=True)
        drawn = order[places]
        better = lots[drawn] < least[found]
        row[found[better]], least[found[better]] = start + drawn[better], lots[drawn[better]]
    return row[wanted & (row >= 0)]


def _rows(x: Any, numbers: np.ndarray) -> np.ndarray:
    return x.rows(numbers) if isinstance(x, OnDisk) else np.asarray(x)[numbers]


def _is_blind(estimator: Any) -> bool:
    """Models without inputs forget them."""
    return not hasattr(estimator, "kernel")


def _refuse_impossible(
    numbers: np.ndarray, values: np.ndarray, mask: np.ndarray, likelihood: AbstractLikelihood, frame: tables.Frame
) -> None:
    """Rows outside the sample, by which the likelihood was chosen, are seen here for the first time."""
    seen = np.where(mask, values, 0.0)
    _refuse_unusable(numbers, seen, "y", "Mark it as NaN.", frame.names())
    flat = (-1, values.shape[-1])
    likelihood.check(values.reshape(flat), mask.reshape(flat), tuple(frame.names()))


def _refuse_unusable(numbers: np.ndarray, values: np.ndarray, name: str, remedy: str, columns: Any = None) -> None:
    """What a table in memory is refused for at once: values whose squares are no numbers."""
    bad = ~(np.abs(values) <= tables.SQUARABLE)
    if bad.any():
        *place, column = np.argwhere(bad)[0]
        raise InputError(
            f"{name} must be finite and within ±{tables.SQUARABLE:g}; got {values[tuple([*place, column])]:g} in row "
            f"{numbers[tuple(place)]}, column {column if columns is None else columns[column]}. {remedy}"
        )
