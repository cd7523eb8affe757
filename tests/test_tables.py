"""Labels of groups: numbers are compared as numbers, text as text."""

import numpy as np
import pytest

from gpbae import tables

FOUND = {
    "float among int": ([1, 2], [2.0, 1.0, 3.0], [1, 0, -1]),
    "int among float": ([1.0, 2.5], [1, 2], [0, -1]),
    "single precision": ([0.5, 1e3], np.float32([1e3, 0.5]), [1, 0]),
    "large int": ([2**60 + 1, 2**60], [2**60, 2**60 + 1], [1, 0]),
    "minus zero": ([0, 1], [-0.0], [0]),
    "objects": (np.array([1, 2.0], object), np.array([2, 1.0], object), [1, 0]),
    "int among mixed": ([1, "a"], [1, 2], [0, -1]),
    "text": (["1", "1.0", "01"], ["01", "1.0", "1", "1.00"], [2, 1, 0, -1]),
    "dates": (np.array(["2024-01-02", "2024-01-01"], "M8[D]"), np.array(["2024-01-01"], "M8[D]"), [1]),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_label_is_found_among_the_fitted_ones(case):
    fitted, asked, places = FOUND[case]
    fitted, asked = (tables.group_codes(labels, len(labels)).labels for labels in (fitted, asked))
    np.testing.assert_array_equal(tables.find_labels(asked, fitted), places)


def test_equal_numbers_in_one_column_of_objects_are_one_group():
    found = tables.group_codes(np.array([2, 1.0, 2.0, 1, "a"], object), 5)
    np.testing.assert_array_equal(found.codes, [0, 1, 0, 1, 2])
    assert found.labels.tolist() == ["2", "1", "a"]
