"""Batches: every row once, padding marked, the factor N/B where it belongs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
from gpbae.autoencoder import Position
from gpbae.sampling import batches, inference

TABLE = checks.ragged_table()
N, G, n = 12, 4, 5


def test_full_batch_is_the_table():
    batch = checks.full_batch(TABLE)
    for name in ("x", "y", "mask"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(TABLE, name))
    assert batch.scale == 1 and np.all(batch.valid)


def test_row_batch_is_distinct_rows_with_the_factor_n_over_b():
    batching = batches.RowBatch(5)
    selection = batching.select(jax.random.key(0), TABLE)
    assert len(set(selection.rows.tolist())) == 5
    batch = batching.batch(TABLE, selection)
    np.testing.assert_array_equal(batch.y, TABLE.y[selection.rows])
    np.testing.assert_array_equal(batch.slot, TABLE.group[selection.rows])
    np.testing.assert_allclose(batch.scale, N / 5)


def test_group_batch_is_whole_groups_with_padding_marked():
    batching = batches.GroupBatch(2)
    selection = batching.select(jax.random.key(1), TABLE)
    batch = batching.batch(TABLE, selection)
    for i, g in enumerate(selection.groups.tolist()):
        size = checks.SIZES[g]
        block = np.asarray(batch.blocks[i])
        np.testing.assert_array_equal(block[size:], 2 * n)
        np.testing.assert_array_equal(batch.slot[block[:size]], i)
        members = np.flatnonzero(TABLE.group == g)
        np.testing.assert_array_equal(np.sort(batch.x[block[:size]], axis=0), np.sort(TABLE.x[members], axis=0))
    assert np.sum(batch.valid) == sum(checks.SIZES[g] for g in selection.groups.tolist())
    assert not np.any(batch.mask[~batch.valid])
    assert batch.scale == G / 2


@pytest.mark.parametrize("batching", [batches.RowBatch(3), batches.GroupBatch(1)], ids=["rows", "groups"])
def test_every_row_is_equally_likely(batching):
    def counts(index):
        rows = batching.select(jax.random.fold_in(jax.random.key(3), index), TABLE).rows
        return jnp.zeros(N).at[rows].add(1.0, mode="drop")

    per_draw = jax.jit(jax.vmap(counts))(jnp.arange(2000))
    checks.assert_within_errors(per_draw, 0.25)


@pytest.mark.parametrize("population", [10, batches.LARGEST_SHUFFLE + 1])
def test_draws_stay_inside_the_population(population):
    drawn = np.asarray(batches._draw(jax.random.key(0), population, 8))
    assert drawn.min() >= 0 and drawn.max() < population


@pytest.mark.parametrize("by_groups", [False, True], ids=["rows", "groups"])
def test_what_is_put_back_is_what_was_taken(by_groups):
    """Moving a part moves its rows and groups only, and padding is dropped."""
    batching, selections = (checks.group_partition if by_groups else checks.row_partition)(TABLE, 2)
    plan = checks.make_plan(batching)
    rng = np.random.default_rng(0)
    whole = Position(jnp.zeros(3), jnp.asarray(rng.normal(size=(G, 2))), jnp.asarray(rng.normal(size=(N, 2))))
    part = inference.take_position(whole, selections[0], plan)
    same = inference.put_position(whole, part, selections[0], plan)
    np.testing.assert_array_equal(same.local, whole.local)
    np.testing.assert_array_equal(same.values, whole.values)
    moved = inference.put_position(whole, jax.tree.map(lambda a: a + 1, part), selections[0], plan)
    rows = set(selections[0].rows.tolist()) - {N}
    groups = set(selections[0].groups.tolist())
    np.testing.assert_allclose(moved.local - whole.local, [[float(i in rows)] * 2 for i in range(N)], atol=1e-12)
    np.testing.assert_allclose(moved.values - whole.values, [[float(g in groups)] * 2 for g in range(G)], atol=1e-12)


def test_newborn_latents_inherit_no_momentum():
    checks.check_newborn_latents_inherit_no_momentum()


def test_sampling_sweeps_leave_the_preconditioner_alone():
    checks.check_sampling_sweeps_freeze_the_preconditioner()
