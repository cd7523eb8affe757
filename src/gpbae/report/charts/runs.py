"""Charts of a run: paths, one scalar along the chains, kinetic temperatures."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbae.answering.diagnostics import NUM_ERRORS, TEMPERATURE_TOLERANCE
from gpbae.plots import BLACK, COLOURS, GREEN
from gpbae.report.charts.style import rounded, styled

MAX_VIDEOS = 8


def paths(truth: np.ndarray, draws: Mapping[str, np.ndarray], level: float = 0.9) -> Any:
    """Position in time with bands; the reader chooses video and coordinate.  truth (V, F, 2), draws (S, V, F, 2)."""
    import altair as alt

    words = ["horizontal", "vertical"]
    shown = range(min(len(truth), MAX_VIDEOS))
    rows = [row for v in shown for c, word in enumerate(words) for row in _path_rows(truth, draws, level, v, c, word)]
    choices = alt.binding_select(options=[v + 1 for v in shown], name="unseen video")
    video = alt.param(name="video", value=1, bind=choices)
    word = alt.param(name="coordinate", value=words[0], bind=alt.binding_select(options=words, name="coordinate"))
    domain = ["truth", *draws]
    colours = alt.Scale(domain=domain, range=[BLACK, *COLOURS[: len(draws)]])
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolSize=300)  # lines, though bands share it
    colour = alt.Color("who:N", scale=colours, legend=legend)
    dashes = alt.Scale(domain=domain, range=[[5, 4], *[[1, 0]] * len(draws)])
    dash = alt.StrokeDash("who:N", scale=dashes, legend=legend)
    time = alt.X("frame:Q", title="time (frames)", axis=alt.Axis(tickMinStep=1, format="d"))
    base = alt.Chart(alt.Data(values=rows)).transform_filter("datum.video == video && datum.coordinate == coordinate")
    band = base.mark_area(opacity=0.2).encode(time, alt.Y("low:Q", title="position"), alt.Y2("high:Q"), colour)
    tips = [alt.Tooltip("who:N", title="whose"), alt.Tooltip("frame:Q", title="frame"),
            alt.Tooltip("mean:Q", format=".2f", title="position"), alt.Tooltip("low:Q", format=".2f", title="from"),
            alt.Tooltip("high:Q", format=".2f", title="to")]  # fmt: skip
    line = base.mark_line(strokeWidth=1.8).encode(time, alt.Y("mean:Q", title="position"), colour, dash)
    dots = base.mark_circle(size=60, opacity=0).encode(time, alt.Y("mean:Q"), tooltip=tips)
    return styled(alt.layer(band, line, dots).add_params(video, word))


def _path_rows(truth, draws, level, v, c, word):
    named = {name: p[:, v, :, c] for name, p in draws.items()}
    ends = [0.5 - level / 2, 0.5 + level / 2]
    bands = {name: (p.mean(axis=0), *np.quantile(p, ends, axis=0)) for name, p in named.items()}
    bands["truth"] = (truth[v, :, c],) * 3
    for who, (mean, low, high) in bands.items():
        for frame in range(truth.shape[1]):
            yield {"video": v + 1, "coordinate": word, "who": who, "frame": frame, "mean": rounded(mean[frame]),
                   "low": rounded(low[frame]), "high": rounded(high[frame])}  # fmt: skip


def trace(values: np.ndarray, title: str, colour: str = COLOURS[0], step: str = "blocks of warm-up, then draws") -> Any:
    """One scalar along each chain, (steps, chains)."""
    import altair as alt

    rows = [{"step": i + 1, "chain": c + 1, "value": rounded(value)} for i, line in enumerate(values)
            for c, value in enumerate(line) if np.isfinite(value)]  # fmt: skip
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    return styled(
        alt.Chart(alt.Data(values=rows))
        .mark_line(opacity=0.75, strokeWidth=1.3, color=colour)
        .encode(
            alt.X("step:Q", title=step, axis=alt.Axis(tickMinStep=1, format="d")),
            y,
            detail="chain:N",
            tooltip=[alt.Tooltip(f"{f}:Q", title=f) for f in ("chain", "step", "value")],
        )
    )


def temperatures(blocks: Mapping[str, Mapping[str, tuple[float, float]]], meant: float = 1.0) -> Any:
    """Kinetic temperature of each block of variables, one mark per model, against the one that is meant: as the lights
    judge it, by whether a line of NUM_ERRORS Monte-Carlo errors reaches the shade."""
    import altair as alt

    rows = [{"model": model, "block": block, "temperature": rounded(value), "from": rounded(value - NUM_ERRORS * error),
             "to": rounded(value + NUM_ERRORS * error)} for model, found in blocks.items()
            for block, (value, error) in found.items() if np.isfinite(value)]  # fmt: skip
    tolerance = TEMPERATURE_TOLERANCE * meant
    values = [row[end] for row in rows for end in ("from", "to")] + [meant - 2 * tolerance, meant + 2 * tolerance]
    scale = alt.Scale(domain=[min(values), max(values)], nice=True, zero=False)
    x = alt.X("temperature:Q", title=f"kinetic temperature ({meant:g} is exact)", scale=scale)
    band = alt.Chart(alt.Data(values=[{"low": meant - tolerance, "high": meant + tolerance}]))
    band = band.mark_rect(color=GREEN, opacity=0.15).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    rule = alt.Chart(alt.Data(values=[{"low": meant}])).mark_rule(color=BLACK).encode(x=alt.X("low:Q", scale=scale))
    models = alt.Scale(domain=list(blocks), range=list(COLOURS[: len(blocks)]))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("block:N", title=None, sort=None),
        yOffset=alt.YOffset("model:N", sort=None),
        color=alt.Color("model:N", scale=models),
    )
    tips = ["model:N", "block:N", *(alt.Tooltip(f"{f}:Q", format=".3f") for f in ("temperature", "from", "to"))]
    shape = alt.Shape("model:N", scale=alt.Scale(domain=list(blocks)))
    points = base.mark_point(filled=True, size=90, opacity=1).encode(x, shape=shape, tooltip=tips)
    errors = base.mark_rule(strokeWidth=2).encode(x=alt.X("from:Q", scale=scale), x2="to:Q")
    return styled(band + rule + errors + points)
