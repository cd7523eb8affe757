"""Tables at the door: labels are compared as what they are, numbers are such that arithmetic can bear them."""

import numpy as np
import pandas as pd
import pytest

from gpbae import SGPBAE
from gpbae.errors import GapWarning, InputError
from gpbae.tabular import tables

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


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e8, 1e300])
def test_standardising_undoes_any_scale(scale):
    values = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    scaler = tables.fit_scaler(values * scale, np.ones((9, 2), bool), True)
    expected = (values - values.mean(axis=0)) / values.std(axis=0)
    if scale > 1e-290:  # below, a column counts as constant
        np.testing.assert_allclose(scaler.forward(values * scale), expected, rtol=1e-9)
    assert np.isfinite(scaler.forward(values * scale)).all()


ODD = {
    "ragged": (lambda: tables.observations([[1.0], [1.0, 2.0]]), "rows of one length"),
    "too large": (lambda: tables.observations(np.array([[1e301]])), r"within ±1e\+150"),
    "squares overflow": (lambda: tables.inputs(np.array([1e200, 0.0])), "Change its units"),
    "squares vanish": (lambda: tables.inputs(np.array([1e-200, 0.0])), "Change its units"),
}


@pytest.mark.parametrize("what", ODD)
def test_numbers_that_arithmetic_cannot_bear_are_refused(what):
    call, words = ODD[what]
    with pytest.raises(InputError, match=words):
        call()


def test_a_code_for_a_gap_is_told_to_who_fits_in_python(monkeypatch):
    """Of numbers alone, and not of pixels."""
    monkeypatch.setattr(SGPBAE, "_sample", lambda *args: None)
    y = pd.DataFrame({"level": np.arange(20.0), "site": ["a", "b"] * 10, "rain": np.arange(20) % 7 * 0.5})
    y.loc[[3, 5, 8], "level"] = -999.0
    with pytest.warns(GapWarning, match=r"^level: -999 occurs 3 times, .* fit with NaN in its place\.$"):
        SGPBAE(progress=False).fit(np.arange(20.0), y)
    with pytest.warns(GapWarning, match="^column 0: -999 occurs 3 times"):
        SGPBAE(progress=False).fit(np.arange(20.0), y[["level"]].to_numpy())
    SGPBAE(progress=False).fit(np.arange(20.0), y.replace(-999.0, np.nan))
    SGPBAE(progress=False).fit(np.arange(20.0), y[["level"]].to_numpy().reshape(20, 1, 1))


@pytest.mark.parametrize("blank", [None, float("nan")])
def test_a_blank_label_is_refused(blank):
    with pytest.raises(InputError, match="must not hold blanks"):
        tables.group_codes(np.array(["a", blank, "b"], dtype=object), 3)


def test_groups_that_cannot_be_held_side_by_side_are_refused(monkeypatch):
    monkeypatch.setattr(tables, "LARGEST_ARRANGEMENT", 20)
    assert tables.arrange(np.repeat([0, 1], [10, 1]), 2).shape == (2, 10)
    with pytest.raises(InputError, match="2 groups of up to 11 rows are too uneven"):
        tables.arrange(np.repeat([0, 1], [11, 1]), 2)
