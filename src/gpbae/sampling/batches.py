"""Which rows a step sees: the whole table, random rows, or random whole groups."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from gpbae.priors import Batch
from gpbae.processes import devices

LARGEST_SHUFFLE, CHEAP_SHUFFLE = 20_000, 512


class Table(NamedTuple):
    """The training rows; `group_rows` lists the rows of each group, padded with N."""

    x: Float[Array, "N D"]
    y: Float[Array, "N P"]
    mask: Bool[Array, "N P"]
    group: Int[Array, " N"]
    group_rows: Int[Array, "G n"]


class Selection(NamedTuple):
    """Rows and groups of a batch; padding points beyond the last row."""

    rows: Int[Array, " B"]
    groups: Int[Array, " g"]


@dataclasses.dataclass(frozen=True)
class FullBatch:
    """All rows, every step: the gradient is exact."""

    is_exact = True
    unseen = 1.0
    values_are_local = False

    def select(self, key: Key[Array, ""], table: Table) -> Selection:
        return Selection(jnp.arange(table.x.shape[0]), jnp.arange(table.group_rows.shape[0]))

    def batch(self, table: Table, selection: Selection) -> Batch:
        valid = jnp.ones(table.x.shape[0], bool)
        return _apart(Batch(table.x, table.y, table.mask, valid, table.group, table.group_rows, jnp.ones(())))


@dataclasses.dataclass(frozen=True)
class RowBatch:
    """B random rows, drawn anew and independently each time; every group's values are global."""

    size: int
    is_exact = False
    unseen = 1.0
    values_are_local = False

    def select(self, key: Key[Array, ""], table: Table) -> Selection:
        return Selection(_draw(key, table.x.shape[0], self.size), jnp.arange(table.group_rows.shape[0]))

    def batch(self, table: Table, selection: Selection) -> Batch:
        r = selection.rows
        blocks = jnp.arange(self.size)[None]
        scale = jnp.asarray(table.x.shape[0] / self.size)
        valid = jnp.ones(self.size, bool)
        return _apart(Batch(table.x[r], table.y[r], table.mask[r], valid, table.group[r], blocks, scale))


@dataclasses.dataclass(frozen=True)
class GroupBatch:
    """Whole random groups; a group's values and latents are local."""

    num_groups: int
    is_exact = False
    unseen = 1.0
    values_are_local = True

    def select(self, key: Key[Array, ""], table: Table) -> Selection:
        groups = _draw(key, table.group_rows.shape[0], self.num_groups)
        return Selection(table.group_rows[groups].reshape(-1), groups)

    def batch(self, table: Table, selection: Selection) -> Batch:
        N, G, n = table.x.shape[0], *table.group_rows.shape
        r = selection.rows
        valid = r < N
        positions = jnp.arange(self.num_groups * n)
        blocks = jnp.where(valid, positions, self.num_groups * n).reshape(self.num_groups, n)
        safe = jnp.minimum(r, N - 1)
        mask = table.mask[safe] & valid[:, None]
        scale = jnp.asarray(G / self.num_groups)
        return _apart(Batch(table.x[safe], table.y[safe], mask, valid, positions // n, blocks, scale))


@dataclasses.dataclass(frozen=True)
class StreamBatch:
    """B rows of a table of `num_rows` that is elsewhere: the table at hand is the batch itself where `is_given`, else a
    sample of rows, of which B are taken as they are taken of the whole, independently.

    `unseen` is the variance of its gradient that comes from which rows were drawn, over that of independent rows,
    1 − B/N where rows of a batch are distinct.  Latents that are drawn anew at every visit add theirs whatever it is.
    """

    size: int
    num_rows: int
    is_given: bool = False
    unseen: float = 1.0
    is_exact = False
    values_are_local = False

    def select(self, key: Key[Array, ""], table: Table) -> Selection:
        groups = jnp.arange(table.group_rows.shape[0])
        if self.is_given:
            return Selection(jnp.arange(self.size), groups)
        return Selection(jax.random.randint(key, (self.size,), 0, table.x.shape[0]), groups)

    def batch(self, table: Table, selection: Selection) -> Batch:
        whole = RowBatch(self.size).batch(table, selection)
        return whole._replace(scale=jnp.asarray(self.num_rows / self.size))


Batching = FullBatch | RowBatch | GroupBatch | StreamBatch


def _apart(batch: Batch) -> Batch:
    """Where several processes share the rows of a chain, each has its part of a batch."""
    x, y, mask, valid, slot = devices.apart((batch.x, batch.y, batch.mask, batch.valid, batch.slot))
    return batch._replace(x=x, y=y, mask=mask, valid=valid, slot=slot)


def _draw(key: Key[Array, ""], population: int, size: int) -> Int[Array, " size"]:
    """Without replacement while a shuffle is cheap, with replacement beyond; unbiased either way.

    A shuffle of 4096 rows takes 1.4 ms, of 20 000 8 ms, more than a step of a few hundred rows.  With replacement the
    gradient's variance is 1/(1 − size/population) times as large: up to a seventh more for an eighth of the population.
    """
    if population <= min(LARGEST_SHUFFLE, max(CHEAP_SHUFFLE, 8 * size)):
        return jax.random.choice(key, population, (size,), replace=False)
    return jax.random.randint(key, (size,), 0, population)
