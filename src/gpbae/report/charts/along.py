"""Charts of cells, labels and latents along an input."""

from typing import Any

import numpy as np

from gpbae.overview import LEVEL, Bands, Overview
from gpbae.plots import BLACK, BLUE, COLOURS, GREY, VERMILION
from gpbae.report.charts.style import (
    TALL,
    axis_along,
    menu,
    place_tip,
    rounded,
    styled,
    switch,
    tight,
    tip,
    titled,
    word_tip,
)

ABOVE = 1.04
"""Where observed labels stand over their probabilities, which end at 1."""


def fans(view: Overview) -> Any:
    """Cells along x: observed, mean, interval and gaps; the reader chooses column and series, and what to show.  The
    column with the widest gap comes first."""
    names = [view.cell_names[c] for c in view.cells]
    seen = view.observed(view.rows)[:, view.cells]
    return titled(_fan(view, view.fans(), names, "column", seen), [view.measure(int(c)) for c in view.cells], "thing")


def latents(view: Overview) -> Any:
    """Latent functions along x with their bands."""
    bands = view.latents()
    names = [f"latent {i}" for i in range(bands.mean.shape[1])]
    return titled(_fan(view, bands, names, "latent"), names, "thing")


def _fan(view: Overview, bands: Bands, names: list[str], what: str, seen: np.ndarray | None = None) -> Any:
    import altair as alt

    where, which = _places(view)
    cells = np.full(bands.mean.shape, np.nan) if seen is None else seen
    rows = [_point(where[n], which[n], k, bands, n, cells[n, k]) for n in range(len(where)) for k in range(len(names))]
    switches = [switch("mean", "mean"), switch("band", f"{LEVEL:.0%} interval")]
    switches += [] if seen is None else [switch("dots", "observed"), switch("missing", "gaps")]
    choices, base = _chosen(view, rows, what, names, 0 if seen is None else view.widest)
    x, kind = _along(view, where)
    y = alt.Scale(zero=False)
    band = base.mark_area(color=BLUE, opacity=alt.expr("band ? 0.2 : 0")).encode(
        x, alt.Y("low:Q", title=None, scale=y), alt.Y2("high:Q")
    )
    line = base.mark_line(color=BLUE, strokeWidth=1.6, opacity=alt.expr("mean ? 1 : 0")).encode(
        x, alt.Y("mean:Q", title=None)
    )
    layers = [band, line]
    if seen is not None:
        layers.insert(0, _gaps(view, x))
        dots = base.mark_circle(color=BLACK, size=22, opacity=alt.expr("dots ? 0.85 : 0"))
        layers.append(dots.transform_filter("isValid(datum.seen)").encode(x, alt.Y("seen:Q", title=None)))
    tips = [place_tip("x", kind, view.along_title), *(tip(f, f) for f in ("mean", "low", "high"))]
    tips += [] if seen is None else [alt.Tooltip("seen:Q", title="observed", format=".4g")]
    near = alt.selection_point(name="near", nearest=True, on="pointerover", fields=["x"], empty=False)
    spot = base.mark_point(color=VERMILION, filled=True, size=70).encode(
        x, alt.Y("mean:Q", title=None), opacity=alt.condition(near, alt.value(1), alt.value(0)), tooltip=tips
    )
    return styled(alt.layer(*layers, spot.add_params(near)).add_params(*choices, *switches), TALL)


def _gaps(view: Overview, x: Any) -> Any:
    """Shaded stretches where the chosen column is missing."""
    import altair as alt

    lows, highs = (view.dated(a) or [rounded(v, 10) for v in a] for a in _ends(view))
    rows = [{"g": gap.series, "k": gap.cell, "x": a, "to": b} for gap, a, b in zip(view.gaps, lows, highs, strict=True)]
    rows += _nowhere(view)
    shade = _among(view, rows).mark_rect(color=GREY, opacity=alt.expr("missing ? 0.25 : 0"))
    return shade.encode(x, alt.X2("to"))


def _nowhere(view: Overview) -> list[dict[str, Any]]:
    """A gap without width for every column and series: of no rows at all a browser would say that they have no end."""
    where, which = _places(view)
    first = {g: place for place, g in zip(reversed(where), reversed(which), strict=True)}
    return [{"g": g, "k": k, "x": x, "to": x} for g, x in first.items() for k in range(len(view.cells))]


def _ends(view: Overview) -> tuple[np.ndarray, np.ndarray]:
    return np.array([gap.low for gap in view.gaps]), np.array([gap.high for gap in view.gaps])


def _point(x, g: int, k: int, bands: Bands, n: int, seen: float) -> dict[str, Any]:
    point = {"x": x, "g": g, "k": k, "mean": rounded(bands.mean[n, k], 5), "low": rounded(bands.low[n, k], 5),
             "high": rounded(bands.high[n, k], 5)}  # fmt: skip
    return point if np.isnan(seen) else {**point, "seen": rounded(seen, 5)}


def labels(view: Overview) -> Any:
    """Labels along x: the probability of each, stacked, and above them the label that was observed; a click on the
    legend leaves the labels clicked."""
    import altair as alt

    where, _ = _places(view)
    names, found = [view.cell_names[c] for c in view.labelled], [view.label_chances(c) for c in view.labelled]
    menus, base = _chosen(view, _label_rows(view, found), "column", names)
    words = alt.param(name="words", value=[called for called, _, _ in found])
    each = base.transform_calculate(observed="isValid(datum.seen) ? words[datum.k][datum.seen] : 'missing'")
    each = each.transform_flatten(["c", "p"]).transform_calculate(label="words[datum.k][datum.c]")
    picked = alt.selection_point(name="picked", fields=["label"], bind="legend", toggle="true")
    legend = alt.Legend(title="label (click to toggle)", orient="top", direction="vertical", symbolType="square")
    colour = alt.Color("label:N", scale=alt.Scale(range=list(COLOURS)), legend=legend)
    (x, kind), y, order = _along(view, where), _stacked(), alt.Order("c:Q")
    shade = alt.condition(picked, alt.value(0.75), alt.value(0.08))
    area = each.mark_area(line=False).encode(x, y, colour, order, opacity=shade)
    dots = each.transform_filter("datum.c == datum.seen").mark_circle(size=26, opacity=alt.expr("dots ? 1 : 0"))
    near = alt.selection_point(name="near", nearest=True, on="pointerover", fields=["x", "label"], empty=False)
    tips = [place_tip("x", kind, view.along_title), word_tip("label"),
            alt.Tooltip("p:Q", title="probability", format=".1%"), word_tip("observed")]  # fmt: skip
    spot = each.mark_point(color=BLACK, filled=True, size=50).encode(
        x, y, order, detail="label:N", opacity=alt.condition(near, alt.value(1), alt.value(0)), tooltip=tips
    )
    layers = area.add_params(picked), dots.encode(x, alt.YDatum(ABOVE), colour), spot.add_params(near)
    chart = alt.layer(*layers).add_params(*menus, switch("dots", "observed"), words)
    return styled(titled(chart, [f"probability of each {name}" for name in names], "thing"), TALL)


def _label_rows(view: Overview, found: list[tuple]) -> list[dict[str, Any]]:
    """A row for every drawn row and column of labels, with all probabilities, to be taken apart where it is shown."""
    where, which = _places(view)
    return [{"x": where[n], "g": which[n], "k": k, "c": list(range(chances.shape[1])),
             "p": [rounded(p, 4) for p in chances[n]], "seen": None if seen[n] < 0 else int(seen[n])}
            for k, (_, chances, seen) in enumerate(found) for n in range(len(where))]  # fmt: skip


def _stacked() -> Any:
    """Probabilities on top of each other, with room above them."""
    import altair as alt

    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%")
    return alt.Y("p:Q", title=None, stack="zero", scale=alt.Scale(domain=[0, 2 * ABOVE - 1], nice=False), axis=axis)


def _places(view: Overview) -> tuple[list, list[int]]:
    """Of every drawn row, where it lies and which series it is of."""
    where = view.dated(view.along[view.rows]) or [rounded(x, 10) for x in view.along[view.rows]]
    return where, [g for g, s in enumerate(view.series) for _ in s.rows]


def _chosen(view: Overview, rows: list[dict], what: str, names: list[str], first: int = 0) -> tuple[list, Any]:
    """Menus of things, and of series where there are several; and a chart of the rows that are chosen there."""
    menus = [menu("thing", what, names, first)]
    menus += [menu("series", "series", [s.label for s in view.series])] if len(view.series) > 1 else []
    return menus, _among(view, rows)


def _among(view: Overview, rows: list[dict]) -> Any:
    """A chart of the rows that menus have chosen."""
    import altair as alt

    wanted = "datum.k == thing" + (" && datum.g == series" if len(view.series) > 1 else "")
    return alt.Chart(alt.Data(values=rows)).transform_filter(wanted)


def _along(view: Overview, where: list) -> tuple[Any, str]:
    """The axis that rows are drawn along, and its kind."""
    import altair as alt

    kind = "T" if isinstance(where[0], str) else "Q"
    return alt.X(f"x:{kind}", title=view.along_title, scale=tight(kind), axis=axis_along(kind, where)), kind
