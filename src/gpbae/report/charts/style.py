"""What all charts share: width, fonts, rounding, menus and switches."""

from collections.abc import Sequence
from typing import Any

HEIGHT = 260


def styled(chart: Any, height: int = HEIGHT) -> Any:
    """Fills its column on a desk and on a telephone; legends above, where they take no width."""
    return (
        chart.properties(width="container", height=height)
        .configure_axis(gridColor="#e5e7eb", labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
        .configure_legend(orient="top", title=None, labelFontSize=12, symbolStrokeWidth=3)
        .configure_view(stroke=None)
    )


def rounded(value: Any, digits: int = 6) -> float | None:
    """Fewer digits make a smaller page; what is not a number is left out."""
    number = float(f"{float(value):.{digits}g}")
    return number if abs(number) < float("inf") else None


def menu(name: str, title: str, labels: Sequence[str]) -> Any:
    """A choice among labels; its value is the number of the label."""
    import altair as alt

    options = list(range(len(labels)))
    return alt.param(name=name, value=0, bind=alt.binding_select(options=options, labels=list(labels), name=title))


def switch(name: str, title: str) -> Any:
    """A box to tick, at first ticked."""
    import altair as alt

    return alt.param(name=name, value=True, bind=alt.binding_checkbox(name=title))
