"""Charts of a fitted model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbae.overview import LEVEL, Bands, Overview
from gpbae.plots import BLACK, BLUE, COLOURS, GREY, VERMILION, smooth_density
from gpbae.report.charts.style import APART, menu, rounded, styled, switch, titled

TALL = 340
MOST_COLUMNS = 40
MOST_SCALARS = 24
NUM_GRID = 80
MOST_DOTS = 800
ABOVE = 1.04
"""Where observed labels stand over their probabilities, which end at 1."""


def fans(view: Overview) -> Any:
    """Cells along x: observed, mean and interval; the reader chooses column and series, and what to show."""
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
    switches += [] if seen is None else [switch("dots", "observed")]
    choices, base = _chosen(view, rows, what, names)
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
        dots = base.mark_circle(color=BLACK, size=22, opacity=alt.expr("dots ? 0.85 : 0"))
        layers.append(dots.transform_filter("isValid(datum.seen)").encode(x, alt.Y("seen:Q", title=None)))
    tips = [_place("x", kind, view.along_title), *(_tip(f, f) for f in ("mean", "low", "high"))]
    tips += [] if seen is None else [alt.Tooltip("seen:Q", title="observed", format=".4g")]
    near = alt.selection_point(name="near", nearest=True, on="pointerover", fields=["x"], empty=False)
    spot = base.mark_point(color=VERMILION, filled=True, size=70).encode(
        x, alt.Y("mean:Q", title=None), opacity=alt.condition(near, alt.value(1), alt.value(0)), tooltip=tips
    )
    return styled(alt.layer(*layers, spot.add_params(near)).add_params(*choices, *switches), TALL)


def _places(view: Overview) -> tuple[list, list[int]]:
    """Of every drawn row, where it lies and which series it is of."""
    where = view.dated(view.along[view.rows]) or [rounded(x, 10) for x in view.along[view.rows]]
    return where, [g for g, s in enumerate(view.series) for _ in s.rows]


def _chosen(view: Overview, rows: list[dict], what: str, names: list[str]) -> tuple[list, Any]:
    """Menus of things, and of series where there are several; and a chart of the rows that are chosen there."""
    import altair as alt

    several = len(view.series) > 1
    menus = [menu("thing", what, names)]
    menus += [menu("series", "series", [s.label for s in view.series])] if several else []
    wanted = "datum.k == thing" + (" && datum.g == series" if several else "")
    return menus, alt.Chart(alt.Data(values=rows)).transform_filter(wanted)


def _along(view: Overview, where: list) -> tuple[Any, str]:
    """The axis that rows are drawn along, and its kind."""
    import altair as alt

    kind = "T" if isinstance(where[0], str) else "Q"
    return alt.X(f"x:{kind}", title=view.along_title, scale=_tight(kind), axis=_axis(kind, where)), kind


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
    legend = alt.Legend(title="label (click to toggle)", orient="top", columns=3, labelLimit=110, symbolType="square")
    colour = alt.Color("label:N", scale=alt.Scale(range=list(COLOURS)), legend=legend)
    (x, kind), y, order = _along(view, where), _stacked(), alt.Order("c:Q")
    shade = alt.condition(picked, alt.value(0.75), alt.value(0.08))
    area = each.mark_area(line=False).encode(x, y, colour, order, opacity=shade)
    dots = each.transform_filter("datum.c == datum.seen").mark_circle(size=26, opacity=alt.expr("dots ? 1 : 0"))
    near = alt.selection_point(name="near", nearest=True, on="pointerover", fields=["x", "label"], empty=False)
    tips = [_place("x", kind, view.along_title), alt.Tooltip("label:N"),
            alt.Tooltip("p:Q", title="probability", format=".1%"), alt.Tooltip("observed:N")]  # fmt: skip
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


def _point(x, g: int, k: int, bands: Bands, n: int, seen: float) -> dict[str, Any]:
    point = {"x": x, "g": g, "k": k, "mean": rounded(bands.mean[n, k], 5), "low": rounded(bands.low[n, k], 5),
             "high": rounded(bands.high[n, k], 5)}  # fmt: skip
    return point if np.isnan(seen) else {**point, "seen": rounded(seen, 5)}


def _tight(kind: str) -> Any:
    """From the first to the last place; only numbers could begin at zero."""
    import altair as alt

    return alt.Scale(nice=False, type="utc") if kind == "T" else alt.Scale(nice=False, zero=False)


def _axis(kind: str, places: list) -> Any:
    """Of numbers, labels that keep apart; of dates, few that say the day, and the hour where days are few."""
    import altair as alt

    if kind == "Q":
        return alt.Axis(labelOverlap="greedy", labelSeparation=APART)
    days = np.ptp(np.array([place.rstrip("Z") for place in places], "datetime64[s]")) / np.timedelta64(1, "D")
    words = "%d %b %H:%M" if days < 8 else "%d %b" if days < 300 else "%b %Y"
    return alt.Axis(format=words, tickCount=8, labelOverlap="parity", labelSeparation=APART)


def _place(field: str, kind: str, title: str) -> Any:
    """A number, or a date as it is in the table wherever the page is read."""
    import altair as alt

    clock = {"timeUnit": "utcyearmonthdatehoursminutesseconds", "format": "%Y-%m-%d %H:%M"} if kind == "T" else {}
    return alt.Tooltip(f"{field}:{kind}", title=title, **clock)


def _tip(field: str, title: str) -> Any:
    import altair as alt

    return alt.Tooltip(f"{field}:Q", title=title, format=".4g")


def missingness(view: Overview) -> Any:
    """Share of missing cells: columns against stretches of rows; of very wide rows all columns together."""
    import altair as alt

    share = view.missing_share()
    names, chosen = view.cell_names, np.arange(share.shape[1])
    if view.is_image or share.shape[1] > MOST_COLUMNS:
        share, names, chosen = share.mean(axis=1, keepdims=True), [f"all {share.shape[1]} cells"], np.arange(1)
    ends = np.linspace(0, len(view.x), len(share) + 1).round().astype(int)
    dates = view.dated(np.sort(view.along)) if len(view.model.groups_) == 1 else None
    rows = [{"from": int(ends[i] + 1), "to": int(ends[i + 1]), "end": int(ends[i + 1] + 1), "column": names[c],
             "share": rounded(share[i, c], 4)} | ({} if dates is None else {"since": dates[ends[i]],
             "until": dates[ends[i + 1] - 1]}) for i in range(len(share)) for c in chosen]  # fmt: skip
    tips = ["column:N", alt.Tooltip("from:Q", title="from row"), alt.Tooltip("to:Q", title="to row"),
            alt.Tooltip("share:Q", title="missing", format=".1%")]  # fmt: skip
    tips += [] if dates is None else [_place("since", "T", "from"), _place("until", "T", "to")]
    ramp = alt.Scale(domain=[0, 1], range=["#eef2f7", "#08306b"])
    colour = alt.Color("share:Q", scale=ramp, legend=alt.Legend(title="missing", format=".0%", gradientLength=160))
    chart = alt.Chart(alt.Data(values=rows)).mark_rect().encode(
        alt.X("from:Q", title=f"rows, in the order of {view.order}", scale=alt.Scale(zero=False, nice=False)),
        alt.X2("end:Q"),
        alt.Y("column:N", title=None, sort=None, axis=alt.Axis(labelLimit=110)),
        colour,
        tooltip=tips,
    )  # fmt: skip
    return styled(chart, max(60, 20 * len(names)))


def calibration(found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Any:
    """Coverage of central intervals against their probability, (levels, shares inside) by name."""
    import altair as alt

    rows = [{"level": rounded(a), "inside": rounded(b, 4), "of": name} for name, points in found.items()
            for a, b in zip(*points, strict=True)]  # fmt: skip
    x = alt.X("level:Q", title="probability of the interval", axis=alt.Axis(format=".0%", tickCount=5))
    y = alt.Y("inside:Q", title="cells inside", axis=alt.Axis(format=".0%"))
    ideal = alt.Chart(alt.Data(values=[{"level": 0, "inside": 0}, {"level": 1, "inside": 1}]))
    tips = [alt.Tooltip("of:N"), alt.Tooltip("level:Q", title="probability", format=".1%"),
            alt.Tooltip("inside:Q", format=".1%")]  # fmt: skip
    colour = alt.Color("of:N", scale=alt.Scale(domain=list(found), range=list(COLOURS[: len(found)])))
    line = alt.Chart(alt.Data(values=rows)).mark_line(point={"size": 40}).encode(x, y, colour, tooltip=tips)
    return styled(ideal.mark_line(color=GREY, strokeDash=[5, 4]).encode(x, y) + line)


def histogram(counts: np.ndarray) -> Any:
    """PIT values in equal bins, flat where calibrated."""
    import altair as alt

    edges = np.linspace(0, 1, len(counts) + 1)
    density = np.asarray(counts) / max(np.sum(counts), 1) * len(counts)
    rows = [{"from": rounded(a), "to": rounded(b), "density": rounded(d, 4), "cells": int(c)}
            for a, b, d, c in zip(edges[:-1], edges[1:], density, counts, strict=True)]  # fmt: skip
    bars = alt.Chart(alt.Data(values=rows)).mark_rect(color=BLUE, opacity=0.6, stroke="white").encode(
        alt.X("from:Q", title="PIT"), alt.X2("to:Q"), alt.Y("density:Q", title="density"), alt.Y2(datum=0),
        tooltip=["from:Q", "to:Q", "cells:Q", "density:Q"],
    )  # fmt: skip
    flat = alt.Chart(alt.Data(values=[{"density": 1}])).mark_rule(color=GREY, strokeDash=[5, 4])
    return styled(bars + flat.encode(alt.Y("density:Q")))


def intervals(named: Mapping[str, np.ndarray]) -> Any:
    """Median and 90 % interval of every hyper-parameter, on a logarithmic axis."""
    import altair as alt

    rows = []
    for name, draws in named.items():
        low, median, high = np.quantile(draws, [0.05, 0.5, 0.95])
        rows.append({"name": name, "median": rounded(median), "low": rounded(low), "high": rounded(high)})
    return _rules(rows, alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=170)), "name:N", None,
                  alt.Scale(type="log"), max(60, 26 * len(rows)))  # fmt: skip


def inducing_ranks(view: Overview, places: np.ndarray) -> Any:
    """One input: where the first, second, … inducing input lies; draws are sorted, for inducing inputs are alike."""
    import altair as alt

    low, median, high = np.quantile(np.sort(places[:, :, 0], axis=1), [0.05, 0.5, 0.95], axis=0)
    parts = [(f, view.dated(v) or list(map(rounded, v))) for f, v in (("median", median), ("low", low), ("high", high))]
    rows = [{"rank": m + 1} | {field: values[m] for field, values in parts} for m in range(len(low))]
    y = alt.Y("rank:Q", title="inducing input", scale=alt.Scale(zero=False, reverse=True))
    kind = "T" if view.along_name in view.dates else "Q"
    return _rules(rows, y, "rank:Q", view.along_title, _tight(kind), 260, kind)


def _rules(rows, y, name, title, scale, height, kind="Q") -> Any:
    import altair as alt

    fields = ("median", "low", "high")
    tips = [name, *(_tip(f, f) if kind == "Q" else _place(f, kind, f) for f in fields)]
    base = alt.Chart(alt.Data(values=rows)).encode(y, tooltip=tips)
    spans = base.mark_rule(strokeWidth=3, color=BLUE, opacity=0.5)
    axis = _axis(kind, [row[f] for row in rows for f in fields])
    ends = spans.encode(alt.X(f"low:{kind}", title=title, scale=scale, axis=axis), alt.X2("high"))
    dots = base.mark_point(filled=True, size=60, color=BLUE, opacity=1).encode(alt.X(f"median:{kind}", title=title))
    return styled(ends + dots, height)


def inducing_places(view: Overview, places: np.ndarray) -> Any:
    """Two inputs: draws of the inducing inputs among the data."""
    import altair as alt

    few = places.reshape(-1, places.shape[2])
    few = few[np.linspace(0, len(few) - 1, min(len(few), MOST_DOTS)).astype(int)]
    data = view.x[view.rows][:, view.quantities]
    rows = [{"a": rounded(a), "b": rounded(b), "what": what} for what, points in (("data", data), ("inducing", few))
            for a, b in points]  # fmt: skip
    colour = alt.Color("what:N", scale=alt.Scale(domain=["data", "inducing"], range=[GREY, VERMILION]))
    x, y = _plane(view)
    return styled(alt.Chart(alt.Data(values=rows)).mark_circle(size=18, opacity=0.5).encode(x, y, colour), TALL)


def _plane(view: Overview) -> tuple[Any, Any]:
    import altair as alt

    first, second = (view.input_names[i] for i in view.quantities)
    return (alt.X("a:Q", title=first, scale=alt.Scale(zero=False)),
            alt.Y("b:Q", title=second, scale=alt.Scale(zero=False)))  # fmt: skip


def densities(named: Mapping[str, np.ndarray]) -> Any:
    """Posterior density of a hyper-parameter the reader chooses, a line per chain."""
    rows = []
    for k, draws in enumerate(named.values()):
        pad = 0.1 * np.ptp(draws) + 1e-12
        grid = np.linspace(draws.min() - pad, draws.max() + pad, NUM_GRID)
        for c, chain in enumerate(draws):
            points = zip(grid, smooth_density(chain, grid), strict=True)
            rows += [{"k": k, "chain": c + 1, "x": rounded(a, 5), "value": rounded(d, 4)} for a, d in points]
    return _chains(rows, list(named), None, "posterior density")


def traces(named: Mapping[str, np.ndarray]) -> Any:
    """A scalar the reader chooses, draw by draw, a line per chain."""
    chosen = dict(list(named.items())[:MOST_SCALARS])
    rows = [{"k": k, "chain": c + 1, "x": i + 1, "value": rounded(value, 5)} for k, draws in enumerate(chosen.values())
            for c, chain in enumerate(draws) for i, value in enumerate(chain)]  # fmt: skip
    return _chains(rows, list(chosen), "draw", None)


def _chains(rows, names, x_title, y_title) -> Any:
    """Lines by chain with a menu of quantities; a click on the legend leaves the chains clicked."""
    import altair as alt

    num = max((row["chain"] for row in rows), default=1)
    colours = alt.Scale(domain=list(range(1, num + 1)), range=[COLOURS[c % len(COLOURS)] for c in range(num)])
    legend = alt.Legend(title="chain (click to toggle)", symbolType="stroke", orient="top")
    picked = alt.selection_point(name="picked", fields=["chain"], bind="legend", toggle="true")
    chart = alt.Chart(alt.Data(values=rows)).transform_filter("datum.k == quantity").mark_line(strokeWidth=1.3)
    chart = chart.encode(
        alt.X("x:Q", title=x_title, scale=alt.Scale(zero=False, nice=False)),
        alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=False)),
        alt.Color("chain:N", scale=colours, legend=legend),
        opacity=alt.condition(picked, alt.value(0.85), alt.value(0.05)),
        tooltip=["chain:N", alt.Tooltip("x:Q", title=x_title or "value"), _tip("value", y_title or "value")],
    )
    return styled(titled(chart.add_params(picked, menu("quantity", "quantity", names)), names, "quantity"))


def maps(view: Overview) -> Any:
    """Latents and cells over two inputs: mean, or half the width of the interval."""
    import altair as alt

    bands = {f"latent {i}": (view.latents(), i) for i in range(view.model.latent_dim_)}
    bands |= {view.cell_names[c]: (view.fans(), k) for k, c in enumerate(view.cells)}
    a, b = (view.x[view.rows, i] for i in view.quantities)
    rows = [{"k": k, "a": rounded(a[n]), "b": rounded(b[n]), "mean": rounded(found.mean[n, i], 5),
             "low": rounded(found.low[n, i], 5), "high": rounded(found.high[n, i], 5)}
            for k, (found, i) in enumerate(bands.values()) for n in range(len(a))]  # fmt: skip
    shown = menu("quantity", "quantity", list(bands))
    kind = menu("kind", "colour shows", ["mean", f"half the {LEVEL:.0%} interval"])
    x, y = _plane(view)
    first, second = (view.input_names[i] for i in view.quantities)
    tips = [alt.Tooltip("a:Q", title=first), alt.Tooltip("b:Q", title=second),
            *(_tip(f, f) for f in ("mean", "low", "high"))]  # fmt: skip
    legend = alt.Legend(gradientLength=200)
    chart = alt.Chart(alt.Data(values=rows)).transform_filter("datum.k == quantity")
    chart = chart.transform_calculate(shade="kind == 0 ? datum.mean : (datum.high - datum.low) / 2")
    colour = alt.Color("shade:Q", scale=alt.Scale(scheme="viridis", zero=False), legend=legend)
    chart = chart.mark_circle(size=60, opacity=1).encode(x, y, colour, tooltip=tips)
    return styled(chart.add_params(shown, kind), 420)
