"""Before a fit the user is told what was chosen, and what looks like a gap."""

import numpy as np
import pandas as pd
import pytest

from gpbae.cli import arguments, notices

RNG = np.random.default_rng(0)


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "level": RNG.normal(8.0, 1.5, 200),
            "turbidity": np.exp(RNG.normal(0.0, 0.8, 200)),
            "catch": RNG.poisson(2.0, 200),
        }
    )


def said(y):
    estimator = arguments.estimator("SGPBAE", arguments.suited("SGPBAE", y))
    return " ".join(notices.before_fit(estimator, y))


def test_skewed_columns_are_logged_beside_counts_too(table):
    assert arguments.suited("SGPBAE", table)["transform"] == "auto"
    assert "Logarithms are modelled of turbidity:" in said(table)
    assert "poisson for catch" in said(table)


def test_a_plain_table_gets_no_words(table):
    assert said(table[["level"]]) == ""


@pytest.mark.parametrize(("column", "code"), [("level", -999.0), ("level", 99.0), ("turbidity", -200.0)])
def test_a_number_that_stands_for_missing_is_named(table, column, code):
    table.loc[::9, column] = code
    assert f"{column}: {code:g} occurs 23 times" in said(table)
    assert f"--missing {column}={code:g}" in said(table)


def test_values_that_belong_to_the_column_are_not_suspected(table):
    table["clipped"] = np.maximum(table["level"], 7.0)  # the least value repeats, but the others begin right above
    table["outlier"] = np.r_[1000.0, RNG.normal(size=199)]  # far, but once
    table["share"] = RNG.choice([0.0, 0.5, 1.0], 200)
    assert "occurs" not in said(table)
