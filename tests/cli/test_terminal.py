"""Tables in terminals of any width: what a row is about can always be read."""

import pytest

from gpbae.cli import terminal

HEADER = ("method", *(f"number {i}" for i in range(9)))
ROWS = [("SGPBAE", *range(9)), ("linear interpolation", *(10 * i for i in range(9)))]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_names_and_all_numbers_are_shown_whatever_the_width(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    terminal.show("Scores", HEADER, ROWS)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    tables = shown.count("SGPBAE")
    assert tables == shown.count("linear interpolation") and (tables == 1) == (width == 200)
    assert all(shown.count(name) == 1 for name in HEADER[1:]) and " 80 " in shown
