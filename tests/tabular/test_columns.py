"""Columns of a data frame become numbers and come back as they were."""

import numpy as np
import pandas as pd
import pytest

from gpbae.errors import InputError
from gpbae.tabular import columns

SERIES = {
    "floats": pd.Series([0.5, np.nan, 2.0]),
    "whole numbers": pd.Series([3, 0, 2]),
    "nullable whole numbers": pd.Series([3, None, 2], dtype="Int64"),
    "small whole numbers": pd.Series([3, 0, 2], dtype="int8"),
    "yes and no": pd.Series([True, False, True]),
    "nullable yes and no": pd.Series([True, None, False], dtype="boolean"),
    "text": pd.Series(["b", None, "a"], dtype=object),
    "strings": pd.Series(["b", None, "a"], dtype="string"),
    "categories": pd.Series(pd.Categorical(["v", None, "u"], categories=["u", "w", "v"])),
    "ordered categories": pd.Series(pd.Categorical(["v", "w", None], categories=["w", "u", "v"], ordered=True)),
    "numbered categories": pd.Series(pd.Categorical([7, 2, None])),
}


@pytest.mark.parametrize("name", SERIES)
def test_decoding_undoes_encoding(name):
    frame = pd.DataFrame({name: SERIES[name]}, index=[5, 6, 7])
    frame[name] = SERIES[name].set_axis(frame.index)
    values, codings = columns.encode(frame)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(np.isnan(values[:, 0]), frame[name].isna())
    pd.testing.assert_frame_equal(columns.decode(values, codings, frame.columns, frame.index), frame)


@pytest.mark.parametrize("name", SERIES)
def test_rows_alone_have_the_codes_of_the_whole_table(name):
    frame = pd.DataFrame({name: SERIES[name]})
    values, codings = columns.encode(frame)
    for rows in ([0], [1, 2], [1]):
        part, again = columns.encode(frame.iloc[rows], codings)
        np.testing.assert_array_equal(part, values[rows])
        assert again[0].labels == codings[0].labels


def test_a_column_of_gaps_has_the_labels_it_was_fitted_with():
    _, codings = columns.encode(pd.DataFrame({"a": ["u", "v"]}))
    values, again = columns.encode(pd.DataFrame({"a": [np.nan, np.nan]}), codings)
    assert np.isnan(values).all()
    assert columns.decode(np.ones((2, 1)), again, ["a"], None)["a"].tolist() == ["v", "v"]


def test_gaps_widen_the_type_of_a_column_where_they_must():
    frame = pd.DataFrame({"n": [1, 2], "t": [True, False]})
    values, codings = columns.encode(frame)
    values[0] = np.nan
    back = columns.decode(values, codings, frame.columns, None)
    assert str(back["t"].dtype) == "boolean"
    assert back["n"].isna().tolist() == [True, False]


def test_text_that_spells_numbers_is_numbers():
    values, codings = columns.encode(pd.DataFrame({"a": ["1.5", "2", None]}))
    np.testing.assert_array_equal(values[:, 0], [1.5, 2.0, np.nan])
    assert codings[0].holds == "numbers"


REFUSED = {
    "text among numbers": ({"a": ["1", "2", "3", "n/a"]}, None, "'n/a' in row 3"),
    "objects of two kinds": ({"a": [1.0, "x", 2.0]}, None, "numbers or labels, not both"),
    "many labels": ({"a": [f"p{i}" for i in range(101)]}, None, "at most 100"),
    "dates": ({"a": pd.date_range("2020-01-01", periods=3)}, None, "days since"),
    "complex": ({"a": [1j, 2j]}, None, "must be real"),
    "odd labels": ({"a": pd.Categorical([(1, 2), (3, 4)])}, None, "text or numbers"),
    "a new label": (
        {"a": ["u", "w"]},
        {"a": ["u", "v"]},
        "'w', which the fitted .* Leave such cells empty",
    ),
    "labels for numbers": ({"a": ["u", "w"]}, {"a": [1, 2]}, "had whole numbers"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_are_neither_numbers_nor_labels_are_refused(what):
    given, fitted, words = REFUSED[what]
    codings = None if fitted is None else columns.encode(pd.DataFrame(fitted))[1]
    with pytest.raises(InputError, match=words):
        columns.encode(pd.DataFrame(given), codings)
