"""Pictures of measurements."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gpbae.speed import targets
from gpbae.speed.shapes import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


KINDS = (("step_ms", "step"), ("gradient_ms", "its gradient"), ("products_ms", "its products"))
ROOM = 1.25
"""Above the highest bar; a target beyond that is written, not drawn."""


def against_floor(rows: list[Row]) -> "Figure":
    """Steps, gradients and products as multiples of the products; where there is a target, a line across."""
    from gpbae.plots.canvas import BLUE, GREEN, GREY, canvas

    drawn, places = canvas(1, 1, (1.5 * len(rows) + 2.2, 3.8))
    place, where = places[0, 0], np.arange(len(rows))
    milliseconds = np.array([[row["metrics"][name] for row in rows] for name, _ in KINDS])
    heights = milliseconds / milliseconds[-1]
    for n, ((_, label), colour) in enumerate(zip(KINDS, (BLUE, GREEN, GREY), strict=True)):
        bars = place.bar(where + 0.28 * (n - 1), heights[n], 0.26, color=colour, label=label)
        place.bar_label(bars, [f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in milliseconds[n]],
                        label_type="center", color="white", fontsize=8)  # fmt: skip
    place.set_ylim(0, ROOM * heights.max())
    for n, row in enumerate(rows):
        for target in targets.of(row):
            _mark(place, n, target, milliseconds[-1, n])
    place.set_xticks(where, [row["experiment"].replace(", ", "\n") for row in rows])
    place.set_ylabel("multiple of the products")
    handles = dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    place.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0), title="numbers: ms")
    return drawn


def _mark(place: Any, n: int, target: targets.Target, floor: float) -> None:
    """A line at the target, or a word where that is far above."""
    from gpbae.plots.canvas import BLACK

    height, top = target.most / floor if target.metric == "step_ms" else target.most, place.get_ylim()[1]
    if height < top:
        place.hlines(height, n - 0.44, n + 0.44, color=BLACK, linestyles="--", label="target")
    else:
        place.text(n, 0.97 * top, f"target: {height:.0f} ↑", ha="center", va="top", fontsize=8)


def growth(rows: list[Row]) -> "Figure":
    """Step time and memory against each axis, on logarithmic scales."""
    from matplotlib.ticker import NullFormatter

    from gpbae.plots.canvas import BLUE, VERMILION, canvas

    names = list(dict.fromkeys(r["experiment"] for r in rows if r["experiment"].startswith("growth")))
    drawn, places = canvas(2, -(-len(names) // 2), (3.0 * -(-len(names) // 2), 5.6))
    for name, place in zip(names, places.ravel(), strict=False):
        points = [r["metrics"] for r in rows if r["experiment"] == name]
        for key, colour, label in (("step_cpu_ms", BLUE, "step, CPU ms"), ("megabytes", VERMILION, "MB")):
            place.loglog([p["n"] for p in points], [p[key] for p in points], "o-", color=colour, label=label)
        place.set(title=name.removeprefix("growth in "))
        for scale in (place.xaxis, place.yaxis):
            scale.set_minor_formatter(NullFormatter())  # within one decade they would overlap
    places[0, 0].legend()
    for place in places.ravel()[len(names) :]:
        place.set_visible(False)
    return drawn
