"""Before a fit the user is told what was chosen, and what looks like a gap."""

import numpy as np
import pandas as pd
import pytest

from gpbae.cli import arguments, notices, reading, roles
from gpbae.errors import InputError

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


@pytest.mark.parametrize(("share", "is_said"), [(0.6, True), (0.05, False)])
def test_columns_with_many_zeros_are_said_to_have_too_few_of_them(table, share, is_said):
    table["rain"] = np.where(np.arange(200) < 200 * share, 0.0, np.random.default_rng(1).gamma(0.8, 6.0, 200))
    table.loc[199, "rain"] = np.nan
    assert "turbidity, rain (log1p, as it has zeros):" in said(table)
    assert (f"rain is 0 in {share:.0%} of its cells" in said(table)) == is_said
    assert "turbidity is 0" not in said(table) and "catch is 0" not in said(table)


def test_a_plain_table_gets_no_words(table):
    assert said(table[["level"]]) == ""


@pytest.mark.parametrize(("column", "code"), [("level", -999.0), ("level", 99.0), ("turbidity", -200.0)])
def test_a_number_that_stands_for_missing_is_named(table, column, code):
    table.loc[::9, column] = code
    assert f"{column}: {code:g} occurs 23 times" in said(table)
    assert f"--missing {column}={code:g}" in said(table)


def test_a_single_code_far_away_is_named_too(table):
    table.loc[5, "level"] = -999.0
    assert "level: -999 occurs once, far from all other values" in said(table)


def test_values_that_belong_to_the_column_are_not_suspected(table):
    table["clipped"] = np.maximum(table["level"], 7.0)  # the least value repeats, but the others begin right above
    table["outlier"] = np.r_[1000.0, RNG.normal(size=199)]  # far, but once
    table["share"] = RNG.choice([0.0, 0.5, 1.0], 200)
    assert "occurs" not in said(table)


# Rows that look like several series.

DATES = [f"2004-03-{1 + day:02d}" for day in range(10) for _ in range(2)]
SERIES = {
    "words": (dict(number=["1", "2"] * 10, station=["A", "B"] * 10), "If station says", "--groups station."),
    "whole numbers": (dict(depth=["0.5", "1.5"] * 10, site=["7", "8"] * 10), "If site says", "--groups site."),
    "fewest": (dict(plot=list("ABCD") * 5, **{"the site": ["N", "S"] * 10}), "If the site", "--groups 'the site'."),
    "none": (dict(row=[f"r{i}" for i in range(20)], half=["A"] * 10 + ["B"] * 10), "If a column", "--groups COLUMN."),
}


def hints(tmp_path, columns, outputs="y", **wish):
    pd.DataFrame({"t": DATES, "y": RNG.normal(size=20).round(3)} | columns).to_csv(tmp_path / "data.csv", index=False)
    return " ".join(notices.of_series(reading.read(tmp_path / "data.csv", reading.Wish("t", outputs, **wish))))


@pytest.mark.parametrize("what", SERIES)
def test_inputs_that_occur_repeatedly_hint_at_the_column_that_tells_series_apart(what, tmp_path):
    columns, *words = SERIES[what]
    said = hints(tmp_path, columns)
    assert "20 of 20 rows have the same t as another row." in said and all(word in said for word in words)


def test_what_is_modelled_is_hinted_at_last_and_said_to_be(tmp_path):
    """Numbers are modelled unless told otherwise, so a site that is a number is one of the outputs."""
    site, plot = {"site": ["7", "8"] * 10}, {"plot": list("ABCD") * 5}
    said = hints(tmp_path, site, "all")
    assert "If site, modelled now, says" in said and said.endswith("--groups site, and do not name it in --outputs.")
    assert "If plot says" in hints(tmp_path, site | plot, "all")


def test_series_that_are_told_apart_get_no_hint(tmp_path):
    assert hints(tmp_path, {"station": ["A", "B"] * 10}, groups="station") == ""
    assert hints(tmp_path, {"t": [*DATES[::2], *(f"2005-01-{1 + i:02d}" for i in range(9)), DATES[0]]}) == ""


# Labels and rows that may have been typed or copied wrong.


def read_of(tmp_path, rows):
    (tmp_path / "data.csv").write_text("t,y,site\n" + "\n".join(rows) + "\n")
    return reading.read(tmp_path / "data.csv", reading.Wish("t", "y", groups="site"))


def test_labels_that_differ_in_case_or_blanks_only_are_told(tmp_path):
    read = read_of(tmp_path, ["1,2,South", "1,3,North", "2,4,south ", "3,5,South"])
    (said,) = notices.of_rows(read)
    assert said.startswith("'South' and 'south ' in site are series of their own; ")
    assert list(notices.of_labels(read_of(tmp_path, ["1,2,South", "1,3,North"]))) == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1,2,a", "2,3,a", "1,2,a", "2,3,b"], "1 row repeats an earlier one in every cell, first on line 4."),
        (["1,2,a", "2,3,a", "1,2,a", "1,2,a"], "2 rows repeat earlier ones in every cell, first on line 4."),
        (["1,2,a", "1,3,a", "1,2,b"], ""),
    ],
)
def test_rows_that_repeat_another_are_counted(rows, words, tmp_path):
    assert words in " ".join(found := list(notices.of_rows(read_of(tmp_path, rows)))) and bool(found) == bool(words)


@pytest.mark.parametrize("cell", ["", "  "])
def test_a_blank_among_labels_is_refused_with_its_line(cell, tmp_path):
    with pytest.raises(InputError, match=r"'site' must hold a label in every row; got a blank on line 3\."):
        read_of(tmp_path, ["1,2,a", f"2,3,{cell}", "3,4,a"])


def test_a_missing_label_of_any_table_is_refused():
    columns = roles.Columns(("t",), ("y",), "site")
    for cells in (["a", None, None], [1.0, np.nan, np.nan]):
        with pytest.raises(InputError, match="a blank in row 2, one of 2 such cells"):
            roles.labels(pd.DataFrame({"site": cells}), columns)


# Latents, and columns without a value.


def test_the_number_of_latents_is_said_unless_it_was_given(table):
    model = arguments.estimator("SGPBAE", {"latent_dim": 4})
    assert list(notices.of_latents(model, ["seed"])) == [
        "4 latents were chosen to suit the table; change with --latent-dim."
    ]
    assert list(notices.of_latents(model, ["latent_dim"])) == []
    assert list(notices.of_latents(arguments.estimator("SGPBAE", {}), [])) == []  # the fit is to choose
    assert list(notices.of_latents(arguments.estimator("GPAR", {}), [])) == []


def test_a_named_column_without_a_value_is_told(tmp_path, capsys):
    pd.DataFrame({"t": range(5), "turbidity": np.nan, "oxygen": 1.0}).to_csv(tmp_path / "data.csv", index=False)
    read = reading.read(tmp_path / "data.csv", reading.Wish("t", "turbidity,oxygen"))
    assert read.columns.outputs == ("turbidity", "oxygen")
    said = capsys.readouterr().err
    assert "Without a value in 5 rows: turbidity." in said and "--exclude turbidity." in said
    reading.read(tmp_path / "data.csv", reading.Wish("t", "oxygen"))
    assert "Without a value" not in capsys.readouterr().err
