"""Logarithms of columns of a table on disk: the sample says which help, all rows say which there can be."""

import numpy as np
import pandas as pd
import pytest

from gpbae import SGPBAE
from gpbae.cli import notices, ondisk
from gpbae.errors import InputError
from gpbae.sampling import outofcore
from gpbae.tabular import OnDisk, tables, transforms

N = 500
NAMES = ["rain", "a", "b [ug/m3]"]


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    monkeypatch.setattr(outofcore, "SAMPLE", 100)


@pytest.fixture
def values():
    """Rain with many zeros, and two columns above zero; all of them skewed."""
    rng = np.random.default_rng(0)
    return np.column_stack([np.maximum(rng.standard_normal(N), 0) ** 2, np.exp(2 * rng.standard_normal((N, 2)))])


def chosen():
    return outofcore.chosen_rows(outofcore.labels_of(None, N), N)


def outside():
    """The first row that is not in the sample."""
    return int(np.setdiff1d(np.arange(N), chosen())[0])


def sample(values):
    return pd.DataFrame(values[chosen()], columns=NAMES)


def found(values, wanted):
    """What is made of a wish, and the kind of transform that a fit then has of every column."""
    seen = tables.observations(sample(values))
    transform = ondisk.transform_of_all(SGPBAE(transform=wanted), seen, OnDisk(values))
    fitted = SGPBAE(transform=transform)._transforms(seen, np.ones(len(NAMES), bool))
    return transform, [type(t) for t in fitted]


LOG, LOG1P, NONE = transforms.Log, transforms.Log1p, transforms.Identity
AUTO = {
    "nothing": (None, 0.0, [LOG1P, LOG, LOG]),
    "rain below zero": (0, -1.0, [NONE, LOG, LOG]),
    "a zero": (1, 0.0, [LOG1P, LOG1P, LOG]),
    "one below zero": (1, -1.0, [LOG1P, NONE, LOG]),
    "a zero in a column whose name is a pattern": (2, 0.0, [LOG1P, LOG, LOG1P]),
}


@pytest.mark.parametrize("wanted", ["auto", {"*": "auto"}], ids=["all", "pattern"])
@pytest.mark.parametrize("name", AUTO)
def test_the_lowest_of_all_rows_decides_which_logarithm_there_is(name, wanted, values):
    column, cell, expected = AUTO[name]
    if column is not None:
        values[outside(), column] = cell
    transform, kinds = found(values, wanted)
    assert kinds == expected
    assert (transform == wanted) == (column is None)


def test_nothing_is_left_where_all_columns_go_below_zero(values):
    values[outside()] = -1.0
    assert found(values, "auto") == ("none", [])


def test_words_that_were_asked_for_stay_beside_auto(values):
    values[outside(), 0] = -1.0
    wanted = {"*": "auto", "a": "yeo-johnson"}
    assert found(values, wanted)[1] == [NONE, transforms.YeoJohnson, LOG]


@pytest.mark.parametrize(("word", "column", "cell", "instead"), [
    ("log", 1, 0.0, "a=log1p"), ("log", 1, -2.0, "a=yeo-johnson"), ("log1p", 0, -2.0, "rain=yeo-johnson")])  # fmt: skip
def test_a_logarithm_that_cannot_be_is_refused_with_column_and_row(word, column, cell, instead, values):
    values[outside(), column] = cell
    wanted = {NAMES[column]: word}
    place = f"got {cell:g} in column '{NAMES[column]}', row {outside() + 1} of those copied. Use --transform {instead},"
    with pytest.raises(InputError, match=place):
        found(values, wanted)


def test_the_notice_tells_the_logarithms_that_are_taken(values):
    values[outside(), 1] = 0.0
    transform, _ = found(values, "auto")
    said, *cautions = notices.before_fit(SGPBAE(transform="auto"), sample(values), transform)
    assert all(words.startswith("rain is 0 in") for words in cautions)
    assert said.startswith(
        "Logarithms are modelled of rain (log1p, as it has zeros), a (log1p, as it has zeros), b [ug/m3]: never"
    )
