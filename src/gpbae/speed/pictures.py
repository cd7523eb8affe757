"""Pictures of measurements."""

from typing import TYPE_CHECKING

import numpy as np

from gpbae.speed import targets
from gpbae.speed.shapes import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def against_floor(rows: list[Row]) -> "Figure":
    """Steps, gradients and products as multiples of the products; where there is a target, a line across."""
    from gpbae.plots.canvas import BLACK, BLUE, GREEN, GREY, canvas

    drawn, places = canvas(1, 1, (1.6 * len(rows) + 2.2, 3.6))
    place, where = places[0, 0], np.arange(len(rows))
    floors = np.array([row["metrics"]["products_ms"] for row in rows])
    kinds = (("step_ms", BLUE, "step"), ("gradient_ms", GREEN, "its gradient"), ("products_ms", GREY, "its products"))
    for number, (name, colour, label) in enumerate(kinds):
        heights = np.array([row["metrics"][name] for row in rows])
        bars = place.bar(where + 0.27 * (number - 1), heights / floors, 0.25, color=colour, label=label)
        place.bar_label(bars, [f"{height:.2g} ms" for height in heights], fontsize=7, padding=2)
    for number, (row, floor) in enumerate(zip(rows, floors, strict=True)):
        for target in targets.of(row):
            height = target.most / floor if target.metric == "step_ms" else target.most
            label = "target" if number == 0 else None
            place.hlines(height, number - 0.42, number + 0.42, color=BLACK, linestyles="--", label=label)
    place.set_xticks(where, [row["experiment"].replace(", ", "\n") for row in rows])
    place.set_ylabel("multiple of the products")
    place.margins(y=0.12)
    place.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return drawn


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
