"""What a user's columns say: numbers, dates, gaps, yes and no, categories; and which of them a name stands for."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from gpbae.cli import commas, dates, files, parsing, pieces, roles
from gpbae.errors import InputError


def frame(**columns):
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


# Cells.

KINDS = {
    "numbers": (["1.5", "", "2"], parsing.NUMBER),
    "decimal commas": (["1,5", "2,25", ""], parsing.NUMBER),
    "whole numbers": (["1", "2", "NA"], parsing.WHOLE),
    "yes and no": (["yes", "No", ""], parsing.BOOLEAN),
    "truths": ([True, False, None], parsing.BOOLEAN),
    "labels": (["low", "high", ""], parsing.CATEGORY),
    "labels like yes and no": (["N", "S", "E", "W", "N"], parsing.CATEGORY),
    "nothing": (["", "NA", "?"], parsing.NUMBER),
}


@pytest.mark.parametrize("what", KINDS)
def test_a_column_is_recognised_by_its_cells(what):
    cells, expected = KINDS[what]
    assert parsing.kind(pd.Series(cells, dtype=object), "a") == expected


def test_numbers_are_read_as_written():
    found = parsing.numbers(pd.Series([" 1e3", "-2.5", "1,25", "n/a", "NULL"]), "a")
    np.testing.assert_array_equal(found, [1000, -2.5, 1.25, np.nan, np.nan])


SLIPS = {
    "one": (["1", "2", "x", "4"], "must hold numbers; got 'x' in row 3. If it means missing, fit with --missing x;"),
    "two": (["<1", "2", "n d", "4", "5"], "'<1' in row 1, one of 2 such cells. .* --missing '<1' --missing 'n d';"),
    "a trace": (["0.2", "T", "0.0", "1.3"], "must hold numbers; got 'T' in row 2. If it means missing, fit with"),
    "yes and no beside numbers": (["yes", "no", "1", "0"], "must hold numbers; got 'yes' in row 1, one of 2"),
    "numbers beside yes and no": (["yes", "no", "5", "yes"], "must hold yes or no; got '5' in row 3"),
    "most": (["n.d."] * 5 + ["1.5", "2.5"], "got 'n.d.' in row 1, one of 5"),
    "beside yes and no": (["yes", "no"] * 20 + ["maybe"], "must hold yes or no; got 'maybe' in row 41"),
}


@pytest.mark.parametrize("what", SLIPS)
def test_words_among_numbers_are_named_with_their_row_and_what_to_do(what):
    cells, words = SLIPS[what]
    with pytest.raises(InputError, match=words):
        parsing.kind(pd.Series(cells), "a")


def test_a_cell_is_found_by_its_line_in_the_file(tmp_path):
    """Of which some are empty, and some belong to one cell."""
    (tmp_path / "t.csv").write_text('note,a\n"one\ntwo",1\n\n,2\n,x\n,3\n')
    with pytest.raises(InputError, match="got 'x' on line 6"):
        parsing.kind(files.read(tmp_path / "t.csv")["a"], "a")
    *_, last = pieces.read(tmp_path / "t.csv", 3)
    assert last.index.tolist() == [7]


def test_words_that_mean_missing_are_gaps_beside_numbers_that_do():
    table = frame(a=["n.d.", "1", "-200"], b=["<1", "2", "N.D. "], c=["low", "n.d.", "high"])
    columns = roles.Columns((), ("a", "b", "c"), missing=roles.parse_missing(["n.d.", "-200", "b=<1"]))
    assert roles.kinds(table, columns) == {"a": parsing.WHOLE, "b": parsing.WHOLE, "c": parsing.CATEGORY}
    assert roles.Columns.from_json(columns.to_json()).missing == ((None, "n.d."), (None, -200.0), ("b", "<1"))
    found = roles.outputs(table, dataclasses.replace(columns, kinds=roles.kinds(table, columns)))
    np.testing.assert_array_equal(found[["a", "b"]], [[np.nan, np.nan], [1, 2], [np.nan, np.nan]])
    assert found["c"].isna().tolist() == [False, True, False]
    assert roles.gaps(table, columns)["c"].tolist() == [False, True, False]


def test_numbers_that_mean_missing_are_gaps_in_their_column_only():
    table = frame(a=["-200", "1"], b=["-200", "2"], c=["-200.0", "-9"])
    columns = roles.Columns((), ("a", "b", "c"), missing=roles.parse_missing(["a=-200", "-9"]))
    np.testing.assert_array_equal(roles.outputs(table, columns), [[np.nan, -200, -200], [1, 2, np.nan]])


@pytest.mark.parametrize(("what", "cell"), [(parsing.NUMBER, "T"), (parsing.WHOLE, "y"), (parsing.BOOLEAN, "2")])
def test_yes_and_no_are_read_again_as_they_were_fitted_whatever_a_piece_shows(what, cell):
    columns = roles.Columns((), ("a",), kinds={"a": what})
    with pytest.raises(InputError, match=f"got '{cell}' in row 1"):
        roles.outputs(frame(a=[cell]), columns)
    with pytest.raises(InputError, match=f"got '{cell}' in row 1"):
        roles.inputs(frame(a=[cell]), dataclasses.replace(columns, inputs=("a",)))


COMMAS = {
    "decimals of their own number": (["999", "1,234", "12,25"], [999, 1.234, 12.25], parsing.NUMBER),
    "below one": (["0,500", "1,234"], [0.5, 1.234], parsing.NUMBER),
    "no thousands": (["1234,567", "1,234"], [1234.567, 1.234], parsing.NUMBER),
    "millions": (["999", "-1,234", "1,234,567"], [999, -1234, 1234567], parsing.WHOLE),
    "thousands and decimals": (["999", "1,234.5", "2,500", ""], [999, 1234.5, 2500, np.nan], parsing.NUMBER),
}


@pytest.mark.parametrize("what", COMMAS)
def test_a_cell_that_leaves_no_choice_says_what_the_commas_of_its_column_are(what):
    cells, numbers, kind = COMMAS[what]
    np.testing.assert_array_equal(parsing.numbers(pd.Series(cells), "a"), numbers)
    assert parsing.kind(pd.Series(cells), "a") == kind


@pytest.mark.parametrize("cells", [["999", "1,234", "2,500"], ["1,234", "2,500"]])
def test_commas_that_could_be_either_are_refused_until_they_are_told(cells):
    words = r"got '1,234' in row \d, which is 1.234 or 1234. Fit with --decimal comma or --decimal point"
    for read in (parsing.kind, parsing.numbers, parsing.is_numeric):
        with pytest.raises(InputError, match=words):
            read(pd.Series(cells), "a")
    with pytest.raises(InputError, match=words):
        roles.inputs(frame(a=cells), roles.Columns(("a",), ()))
    told = [parsing.numbers(pd.Series(cells), "a", parsing.Writing(decimal=d)) for d in commas.Decimal]
    np.testing.assert_array_equal([found[-1] for found in told], [2.5, 2500])
    assert parsing.kind(pd.Series([*cells, "low", "high", "mid", "none at all"]), "a") == parsing.CATEGORY


def test_commas_that_are_both_are_refused():
    with pytest.raises(InputError, match="got '1,234,567' in row 2"):
        parsing.kind(pd.Series(["0,5", "1,234,567", "2"]), "a")


def test_a_column_is_read_as_its_neighbours_are_unless_they_disagree(tmp_path):
    (tmp_path / "t.csv").write_text("t;a;b;note\n1;1,234;0,5;x, 1,2\n2;2,500;;1,234,567 of them\n")
    table, plain = files.read(tmp_path / "t.csv"), roles.Columns(("t",), ("a", "b"))
    columns = dataclasses.replace(plain, decimal=roles.decimal(table, plain))
    assert roles.Columns.from_json(columns.to_json()).decimal == commas.Decimal.COMMA
    np.testing.assert_array_equal(roles.outputs(table, columns), [[1.234, 0.5], [2.5, np.nan]])
    assert roles.outputs(table[:1][["a"]].assign(b="0,5"), columns)["a"].tolist() == [1.234]  # a piece of it
    assert roles.decimal(table.assign(c=["1,234,567", "1"]), plain) is None


# Names.


@pytest.mark.parametrize(
    ("names", "found"),
    [(["temp_in"], ["temp_in"]), (["temp_*"], ["temp_in", "temp_out"]), (["y"], ["y[0]", "y[1]"]), (["?O"], ["CO"])],
)
def test_names_and_patterns_stand_for_columns(names, found):
    table = pd.DataFrame(columns=["temp_in", "temp_out", "y[0]", "y[1]", "CO"])
    assert roles.resolve(table, names) == found


@pytest.mark.parametrize(("name", "meant"), [("water_temp", "Water Temp"), ("watertmp", "Water Temp"), ("%", "%%")])
def test_a_name_is_taken_for_one_that_differs_in_case_and_blanks_before_any_other(name, meant):
    table = pd.DataFrame(columns=["water_temp_2", "Water Temp", "air_temp", "%%"])
    with pytest.raises(InputError, match=f"Did you mean '{meant}'?"):
        roles.resolve(table, [name])


def test_all_outputs_are_numbers_with_a_value_and_no_other_role():
    table = frame(t=["1", "2"], a=["3", ""], b=["", ""], c=["x", "y"], d=["yes", "no"], e=["-200", "-200"])
    columns = roles.Columns(("t",), (), missing=((None, -200.0),))
    assert roles.all_outputs(table, ["t"], columns) == ["a", "d"]


# Dates.

WRITTEN = {
    "ISO": (["2004-03-10T18:00", "2004-03-10T19:30"], [0, 1.5]),
    "ISO with blank": (["2004-03-10 18:00:00", "2004-03-10 19:30:00"], [0, 1.5]),
    "day first": (["28/02/2004 23:00", "29/02/2004 01:00"], [0, 2]),
    "month first": (["02/28/2004 23:00", "02/29/2004 01:00"], [0, 2]),
    "points": (["28.02.2004 23.00.00", "29.02.2004 01.00.00"], [0, 2]),
    "clocks forward": (["2024-03-31T01:30+01:00", "2024-03-31T03:30+02:00"], [0, 1]),
    "clocks back": (["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-27T04:30+01:00"], [0, 1, 3]),
    "offsets in hours": (["2024-10-27T02:30+02", "2024-10-27T02:30+01"], [0, 1]),
    "without colons": (["20240101T1800Z", "20240101T1930Z"], [0, 1.5]),
    "unsorted": (["2024-01-01T05:00Z", "2024-01-01T01:00Z"], [4, 0]),
    "timestamps": (pd.to_datetime(["2024-01-01 05:00", "2024-01-01 01:00"]), [4, 0]),
    "timestamps of a zone": (
        pd.to_datetime(["2024-03-31 01:30", "2024-03-31 03:30"]).tz_localize("Europe/Rome"),
        [0, 1],
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_dates_become_hours_that_really_passed(what):
    cells, hours = WRITTEN[what]
    found = dates.fit(cells, "t")
    assert found is not None and found.unit == "h"
    np.testing.assert_allclose(found.numbers(cells, "t"), hours, atol=1e-9)
    again = dates.Dates(**found._asdict())
    np.testing.assert_allclose(again.numbers(pd.Series(again.dates(hours)), "t"), hours, atol=1e-9)


@pytest.mark.parametrize(("last", "unit"), [("2004-01-01T00:10", "s"), ("2004-01-03", "h"), ("2005-01-01", "D")])
def test_the_unit_suits_the_range(last, unit):
    found = dates.fit(["2004-01-01", last], "t")
    assert found is not None and found.unit == unit


def test_a_new_table_is_read_with_the_origin_of_the_fitted_one():
    found = dates.fit(["2004-01-01", "2004-03-01"], "t")
    assert found is not None
    np.testing.assert_allclose(found.numbers(["2004-03-02", "2003-12-31"], "t"), [61, -1])
    assert found.number("2004-01-11") == 10


BAD_DATES = {
    "day or month": (["01/02/2004", "03/04/2004"], "--date-format"),
    "one is none": (["2004-01-01", "soon"], "got 'soon' in row 2"),
    "blank": (["2004-01-01", ""], "in row 2"),
    "blank at first": (["", "2004-01-01", "2004-01-02"], "got '' in row 1"),
    "blank at first, day first": (["", "28/02/2004", "29/02/2004"], "got '' in row 1"),
    "blanks at first": (["", "", "2004-01-01"], "got '' in row 1"),
    "a word at first": (["UTC", "2004-01-01T00:00", "2004-01-01T01:00"], "got 'UTC' in row 1"),
    "blank among times with an offset": (["2004-01-01T00:00Z", "", "2004-01-01T01:00Z"], "a date in.*got '' in row 2"),
    "half with an offset": (["2004-01-01T00:00Z", "2004-01-01T01:00"], "all of its times with an offset or none"),
}


@pytest.mark.parametrize("what", BAD_DATES)
def test_dates_that_cannot_be_read_are_refused(what):
    cells, words = BAD_DATES[what]
    with pytest.raises(InputError, match=words):
        dates.fit(cells, "t")


def test_a_cell_among_dates_is_named_with_its_line_before_groups_are_thought_of(tmp_path):
    (tmp_path / "t.csv").write_text("t,a\n,1\n2024-06-03 00:00,2\n2024-06-03 01:00,3\n")
    with pytest.raises(InputError, match=r"got '' on line 2\. Write it like the others"):
        roles.find_dates(files.read(tmp_path / "t.csv"), ["t"], None)


def test_a_given_format_settles_which_is_the_day():
    cells = ["01/02/2004", "03/04/2004"]
    found = dates.fit(cells, "t", "%d/%m/%Y")
    assert found is not None and found.origin.startswith("2004-02-01")


@pytest.mark.parametrize("cells", [["20200130", "20200201"], [20200130, 20200201], [20200130.0, 20200201.0]])
def test_a_given_format_reads_dates_that_look_like_numbers(cells):
    table = pd.DataFrame({"t": cells, "depth": [1.5, 2.5]})
    found = roles.find_dates(table, ["t", "depth"], "%Y%m%d")
    assert list(found) == ["t"] and found["t"].numbers(table["t"], "t").tolist() == [0, 48]
    assert found["t"].number("20200131") == 24
    plain = roles.Columns(("t", "depth"), ())
    assert roles.days_as_numbers(table, plain) == {"t": "20200130"}
    assert roles.days_as_numbers(table, dataclasses.replace(plain, dates=found)) == {}
    with pytest.raises(InputError, match="Expected an input with dates as in --date-format '%H:%M'; got"):
        roles.find_dates(table, ["t", "depth"], "%H:%M")


@pytest.mark.parametrize("cells", [["20201330", "20200201"], ["20200130", "202002"], ["20200130", "5.5"]])
def test_numbers_that_are_no_days_are_not_taken_for_them(cells):
    assert not dates.are_days(pd.Series(cells))


def test_a_cell_that_breaks_a_given_format_of_digits_is_named():
    with pytest.raises(InputError, match="got '20200231' in row 3"):
        roles.find_dates(frame(t=["20200130", "20200201", "20200231"]), ["t"], "%Y%m%d")


LOCAL, ZONED = ["2004-03-10T18:00", "2004-03-10T19:00"], ["2004-03-10T18:00+02:00", "2004-03-10T19:00+02:00"]


@pytest.mark.parametrize("as_cells", [list, pd.to_datetime])
@pytest.mark.parametrize(("fitted", "asked", "words"), [(LOCAL, ZONED, "without an offset"), (ZONED, LOCAL, "with an")])
def test_times_are_asked_for_as_they_were_fitted_with_an_offset_or_without(fitted, asked, words, as_cells):
    found = dates.fit(fitted, "t")
    assert found is not None
    with pytest.raises(InputError, match=rf"Column 't' must give its times {words}.* 18:00|{words}.*T18:00"):
        found.numbers(as_cells(asked), "t")
    with pytest.raises(InputError, match=f"Expected a time {words}.*; got '{asked[0][:10]}"):
        found.number(asked[0])
    assert found.numbers(pd.Series([], dtype=str), "t").size == 0
    assert found.number("2004-03-10") == (-16 if fitted is ZONED else -18)  # a day alone


def test_mixed_offsets_asked_of_local_times_are_refused_too():
    found = dates.fit(LOCAL, "t")
    assert found is not None
    with pytest.raises(InputError, match="without an offset"):
        found.numbers(["2004-03-10T18:00+02:00", "2004-03-10T18:00+01:00"], "t")


@pytest.mark.parametrize("pattern", ["%d/%m/%Y", "%d/%m/%Y %H:%M"])
def test_one_date_is_read_as_the_fitted_ones(pattern):
    cells = pd.Series(pd.to_datetime(["2004-04-03", "2004-05-04"])).dt.strftime(pattern)
    found = dates.fit(cells, "t", pattern)
    assert found is not None and found.number("04/04/2004") == found.number("2004-04-04") == 1
    assert found.number("04/04/2004 12:00") == 1.5
    with pytest.raises(InputError, match=f"Expected a date, as 2004-03-28 or {pattern}; got '04/13/2004'"):
        found.number("04/13/2004")


def test_text_that_is_no_date_is_told_of_groups():
    with pytest.raises(InputError, match=r"got 'Roma' in row 1\. .*--groups station"):
        roles.find_dates(frame(station=["Roma", "Milano"]), ["station"], None)


# Rows and roles.


def test_a_stretch_is_half_open_and_in_the_units_of_the_input():
    table = frame(t=["2004-01-01", "2004-02-01", "2004-03-01"], n=["1", "2", "3"])
    by_date = roles.Columns(("t",), ("n",), dates=roles.find_dates(table, ["t"], None))
    assert roles.within(table, by_date, "2004-02-01", "2004-03-01").tolist() == [False, True, False]
    assert roles.within(table, roles.Columns(("n",), ("t",)), "2", None).tolist() == [False, True, True]
    with pytest.raises(InputError, match="No row"):
        roles.within(table, by_date, "2005-01-01", None)


def test_roles_are_kept_in_a_file():
    columns = roles.Columns(("t",), ("a",), "g", {"t": dates.Dates("2004-01-01T00:00:00", "D")}, (("a", -200.0),),
                            {"a": parsing.NUMBER})  # fmt: skip
    assert roles.Columns.from_json(columns.to_json()) == columns


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_tables_are_parted_by_commas_semicolons_or_tabs(mark, tmp_path):
    (tmp_path / "t.csv").write_text(f"\ufeffa{mark}b\n1{mark}x y\n", encoding="utf-8")
    table = files.read(tmp_path / "t.csv")
    assert table.to_dict("list") == {"a": ["1"], "b": ["x y"]}


def test_yes_and_no_are_filled_in_the_words_of_the_column():
    table = frame(a=["ja", "Yes", "No", ""])[1:]
    columns = roles.Columns((), ("a",), kinds=roles.kinds(table, roles.Columns((), ("a",))))
    assert roles.outputs(table, columns)["a"].isna().tolist() == [False, False, True]
    filled = pd.DataFrame({"a": pd.array([True, False, True], "boolean")}, index=table.index)
    assert roles.fill(table, filled, columns)["a"].tolist() == ["Yes", "No", "Yes"]
    fitted, piece = dataclasses.replace(columns, words={"a": ["No", "Yes"]}), table[2:]
    assert roles.fill(piece, filled[2:], fitted)["a"].tolist() == ["Yes"]  # which it does not show itself


def test_filling_touches_gaps_only():
    table = frame(a=["1.50", "-200", ""])
    columns = roles.Columns((), ("a",), missing=((None, -200.0),))
    assert roles.fill(table, pd.DataFrame({"a": [9.0, 8.0, 7.0]}), columns)["a"].tolist() == ["1.50", 8.0, 7.0]


def test_predictions_of_yes_and_no_are_in_the_words_of_the_column():
    table = pd.DataFrame({"rain": ["no", "yes", None, "no"], "wet": [True, False, True, True]})
    plain = roles.Columns((), ("rain", "wet"))
    kinds = roles.kinds(table, plain)
    kept = roles.Columns((), ("rain", "wet"), kinds=kinds, words=roles.words(table, kinds))
    again = roles.Columns.from_json(kept.to_json())
    told = roles.in_words(pd.DataFrame({"rain": [True, False], "wet": [True, False]}), again)
    assert told["rain"].tolist() == ["yes", "no"]
    assert told["wet"].tolist() == [True, False]
