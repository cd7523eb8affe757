"""Charts of a fitted model: gaps, calibration, hyper-parameters, maps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbae.overview import LEVEL, Overview
from gpbae.plots import BLUE, COLOURS, GREEN, GREY, VERMILION, smooth_density
from gpbae.report.charts.style import (
    TALL,
    axis_along,
    menu,
    place_tip,
    rounded,
    styled,
    tight,
    tip,
    titled,
)
from gpbae.scoring import metrics

MOST_COLUMNS = 40
MOST_SCALARS = 24
NUM_GRID = 80
MOST_DOTS = 800


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
    tips += [] if dates is None else [place_tip("since", "T", "from"), place_tip("until", "T", "to")]
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
    """PIT values in equal bins, flat where calibrated, and the band in which 99 of 100 such bars would lie."""
    import altair as alt

    low, high = metrics.band_of_bins(int(np.sum(counts)), len(counts))
    edges = np.linspace(0, 1, len(counts) + 1)
    density = np.asarray(counts) / max(np.sum(counts), 1) * len(counts)
    rows = [{"from": rounded(a), "to": rounded(b), "density": rounded(d, 4), "cells": int(c)}
            for a, b, d, c in zip(edges[:-1], edges[1:], density, counts, strict=True)]  # fmt: skip
    bars = alt.Chart(alt.Data(values=rows)).mark_rect(color=BLUE, opacity=0.6, stroke="white").encode(
        alt.X("from:Q", title="PIT"), alt.X2("to:Q"), alt.Y("density:Q", title="density"), alt.Y2(datum=0),
        tooltip=["from:Q", "to:Q", "cells:Q", "density:Q"],
    )  # fmt: skip
    flat = alt.Chart(alt.Data(values=[{"density": 1}])).mark_rule(color=GREY, strokeDash=[5, 4])
    band = alt.Chart(alt.Data(values=[{"from": 0, "to": 1, "density": rounded(low, 4), "high": rounded(high, 4)}]))
    band = band.mark_rect(color=GREEN, opacity=0.15).encode(alt.X("from:Q"), alt.X2("to:Q"), alt.Y("density:Q"),
                                                            alt.Y2("high:Q"))  # fmt: skip
    return styled(band + bars + flat.encode(alt.Y("density:Q")))


def intervals(named: Mapping[str, np.ndarray]) -> Any:
    """Median and 90 % interval of every hyper-parameter, on a logarithmic axis; names stand above, where long ones have
    room."""
    import altair as alt

    rows = []
    for name, draws in named.items():
        low, median, high = np.quantile(draws, [0.05, 0.5, 0.95])
        rows.append({"name": name, "median": rounded(median), "low": rounded(low), "high": rounded(high)})
    y = alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labels=False, ticks=False, domain=False))
    rules = _rules(rows, y, "name:N", None, alt.Scale(type="log"))
    names = alt.Chart(alt.Data(values=rows))
    names = names.mark_text(align="left", baseline="bottom", dy=-5, limit=alt.expr("width"))
    return styled(rules + names.encode(y, alt.Text("name:N"), x=alt.value(0)), max(70, 40 * len(rows)))


def inducing_ranks(view: Overview, places: np.ndarray) -> Any:
    """One input: where the first, second, … inducing input lies; draws are sorted, for inducing inputs are alike."""
    import altair as alt

    low, median, high = np.quantile(np.sort(places[:, :, 0], axis=1), [0.05, 0.5, 0.95], axis=0)
    parts = [(f, view.dated(v) or list(map(rounded, v))) for f, v in (("median", median), ("low", low), ("high", high))]
    rows = [{"rank": m + 1} | {field: values[m] for field, values in parts} for m in range(len(low))]
    y = alt.Y("rank:Q", title="inducing input", scale=alt.Scale(zero=False, reverse=True))
    kind = "T" if view.along_name in view.dates else "Q"
    return styled(_rules(rows, y, "rank:Q", view.along_title, tight(kind), kind))


def _rules(rows, y, name, title, scale, kind="Q") -> Any:
    import altair as alt

    fields = ("median", "low", "high")
    tips = [name, *(tip(f, f) if kind == "Q" else place_tip(f, kind, f) for f in fields)]
    base = alt.Chart(alt.Data(values=rows)).encode(y, tooltip=tips)
    spans = base.mark_rule(strokeWidth=3, color=BLUE, opacity=0.5)
    axis = axis_along(kind, [row[f] for row in rows for f in fields])
    ends = spans.encode(alt.X(f"low:{kind}", title=title, scale=scale, axis=axis), alt.X2("high"))
    dots = base.mark_point(filled=True, size=60, color=BLUE, opacity=1).encode(alt.X(f"median:{kind}", title=title))
    return ends + dots


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
        tooltip=["chain:N", alt.Tooltip("x:Q", title=x_title or "value"), tip("value", y_title or "value")],
    )
    return styled(titled(chart.add_params(picked, menu("quantity", "quantity", names)), names, "quantity"))


def maps(view: Overview) -> Any:
    """Latents and cells over two inputs: mean, or half the width of the interval."""
    import altair as alt

    bands = {f"latent {i}": (view.latents(), i) for i in range(view.latents().mean.shape[1])}
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
            *(tip(f, f) for f in ("mean", "low", "high"))]  # fmt: skip
    legend = alt.Legend(gradientLength=200)
    chart = alt.Chart(alt.Data(values=rows)).transform_filter("datum.k == quantity")
    chart = chart.transform_calculate(shade="kind == 0 ? datum.mean : (datum.high - datum.low) / 2")
    colour = alt.Color("shade:Q", scale=alt.Scale(scheme="viridis", zero=False), legend=legend)
    chart = chart.mark_circle(size=60, opacity=1).encode(x, y, colour, tooltip=tips)
    return styled(chart.add_params(shown, kind), 420)
