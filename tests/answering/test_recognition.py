"""Rows of a question that were fitted are known again; everything else is new."""

import numpy as np

import checks
from gpbae.answering.recognition import recognise, remaining

OPTIMISED = True

TABLE = checks.ragged_table()
X, Y, MASK, GROUP = (np.nan_to_num(a) for a in (TABLE.x, TABLE.y, TABLE.mask, TABLE.group))


def test_fitted_rows_are_known_in_any_order_and_copies_take_their_turn():
    order = np.array([5, 0, 3, 0])
    np.testing.assert_array_equal(recognise(TABLE, X[order], Y[order], MASK[order], GROUP[order]), order)


def test_a_row_with_another_input_cell_gap_or_group_is_new():
    rows = np.arange(4)
    x, y, mask, group = X[rows].copy(), Y[rows].copy(), np.ones_like(MASK[rows]), GROUP[rows].copy()
    full = TABLE._replace(y=Y, mask=np.ones_like(MASK))
    x[0] += 1e-9
    y[1, 0] += 1e-3
    mask[2, 0] = False
    np.testing.assert_array_equal(recognise(full, x, y, mask, group), [-1, -1, -1, 3])
    np.testing.assert_array_equal(recognise(full, X[rows], Y[rows], MASK[rows] | True, group + 1), [-1] * 4)


def test_what_a_missing_cell_holds_does_not_matter():
    y = np.where(MASK, Y, 99.0)
    np.testing.assert_array_equal(recognise(TABLE, X, y, MASK, GROUP), np.arange(len(X)))


def test_remaining_rows_keep_their_group():
    rows = np.array([[0, 3, 4], [1, 5, 5], [2, 5, 5]])
    left = np.array([True, False, True, True, False])
    table, members = remaining(rows, left)
    np.testing.assert_array_equal(table, [[0, 3], [2, 5]])
    np.testing.assert_array_equal(members, [0, 2])
    table, members = remaining(rows, ~left & left)
    assert table.shape == (0, 1) and len(members) == 0
