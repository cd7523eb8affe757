"""What all charts share: width, fonts, rounding, axes, tips, menus and switches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

HEIGHT, TALL = 260, 340
APART = 8
"""Pixels between the labels of an axis; those that would come closer are left out."""
LONGEST_WORD = "60"
LONGEST_TITLE = 340
"""In pixels, so that a telephone shows it."""


def styled(chart: Any, height: int = HEIGHT) -> Any:
    """Fills its column on a desk and on a telephone; legends above, where they take no width."""
    return (
        chart.properties(width="container", height=height)
        .configure(customFormatTypes=True)
        .configure_axis(gridColor="#e5e7eb", labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
        .configure_axisQuantitative(labelOverlap="greedy", labelSeparation=APART)
        .configure_title(anchor="start", frame="bounds", fontSize=12, fontWeight="normal", limit=LONGEST_TITLE)
        .configure_legend(orient="top", title=None, labelFontSize=12, symbolStrokeWidth=3)
        .configure_view(stroke=None)
    )


def rounded(value: Any, digits: int = 6) -> float | None:
    """Fewer digits make a smaller page; what is not a number is left out."""
    number = float(f"{float(value):.{digits}g}")
    return number if abs(number) < float("inf") else None


def titled(chart: Any, titles: Sequence[str], chosen: str) -> Any:
    """Above its vertical axis, what is chosen from a menu: an axis cannot change its own title."""
    import altair as alt

    chart = chart.add_params(alt.param(name="titles", value=list(titles)))
    return chart.properties(title=alt.TitleParams(alt.expr(f"titles[{chosen}]")))


def menu(name: str, title: str, labels: Sequence[str], first: int = 0) -> Any:
    """A choice among labels; its value is the number of the label, at first that of `first`."""
    import altair as alt

    options = list(range(len(labels)))
    return alt.param(name=name, value=first, bind=alt.binding_select(options=options, labels=list(labels), name=title))


def switch(name: str, title: str) -> Any:
    """A box to tick, at first ticked."""
    import altair as alt

    return alt.param(name=name, value=True, bind=alt.binding_checkbox(name=title))


def tight(kind: str) -> Any:
    """From the first to the last place; only numbers could begin at zero."""
    import altair as alt

    return alt.Scale(nice=False, type="utc") if kind == "T" else alt.Scale(nice=False, zero=False)


def axis_along(kind: str, places: list) -> Any:
    """Of numbers, labels that keep apart; of dates, few that say the day, and the hour where days are few."""
    import altair as alt

    if kind == "Q":
        return alt.Axis(labelOverlap="greedy", labelSeparation=APART)
    days = np.ptp(np.array([place.rstrip("Z") for place in places], "datetime64[s]")) / np.timedelta64(1, "D")
    words = "%d %b %H:%M" if days < 8 else "%d %b" if days < 300 else "%b %Y"
    return alt.Axis(format=words, tickCount=8, labelOverlap="parity", labelSeparation=APART)


def place_tip(field: str, kind: str, title: str) -> Any:
    """A number, or a date as it is in the table wherever the page is read."""
    import altair as alt

    clock = {"timeUnit": "utcyearmonthdatehoursminutesseconds", "format": "%Y-%m-%d %H:%M"} if kind == "T" else {}
    return alt.Tooltip(f"{field}:{kind}", title=title, **clock)


def tip(field: str, title: str) -> Any:
    import altair as alt

    return alt.Tooltip(f"{field}:Q", title=title, format=".4g")


def word_tip(field: str) -> Any:
    """A word, cut where it is very long: without a format of their own, words are undefined at the nearest point."""
    import altair as alt

    return alt.Tooltip(f"{field}:N", formatType="truncate", format=LONGEST_WORD)
