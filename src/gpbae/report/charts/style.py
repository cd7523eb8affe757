"""What all charts share: width, fonts, rounding, menus and switches."""

from collections.abc import Sequence
from typing import Any

HEIGHT = 260
APART = 8
"""Pixels between the labels of an axis; those that would come closer are left out."""
LONGEST_TITLE = 340
"""In pixels, so that a telephone shows it."""


def styled(chart: Any, height: int = HEIGHT) -> Any:
    """Fills its column on a desk and on a telephone; legends above, where they take no width."""
    return (
        chart.properties(width="container", height=height)
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


def menu(name: str, title: str, labels: Sequence[str]) -> Any:
    """A choice among labels; its value is the number of the label."""
    import altair as alt

    options = list(range(len(labels)))
    return alt.param(name=name, value=0, bind=alt.binding_select(options=options, labels=list(labels), name=title))


def switch(name: str, title: str) -> Any:
    """A box to tick, at first ticked."""
    import altair as alt

    return alt.param(name=name, value=True, bind=alt.binding_checkbox(name=title))
