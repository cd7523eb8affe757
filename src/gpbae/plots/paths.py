"""Paths in the plane and in time, true and inferred."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gpbae.plots.canvas import BLACK, COLOURS, GREY, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUM_LINES = 25


def trajectories(
    truth: Float[np.ndarray, "V F 2"],
    draws: Mapping[str, Float[np.ndarray, "S V F 2"]],
    half_canvas: float | None = None,
    level: float = 0.9,
) -> "Figure":
    """True and inferred paths: a row of planes per model with some draws, then each coordinate in time with bands."""
    num_videos = len(truth)
    num_rows = len(draws) + 2
    figure, axes = canvas(num_rows, num_videos, (3.1 * num_videos, 2.9 * len(draws) + 4.2), sharey="row",
                           height_ratios=[1.5] * len(draws) + [1, 1])  # fmt: skip
    for row, (name, paths) in enumerate(draws.items()):
        for v in range(num_videos):
            _plane(axes[row, v], truth[v], paths[:, v], COLOURS[row % len(COLOURS)], half_canvas)
            axes[row, v].set_title(f"{name}, unseen video {v + 1}")
            axes[row, v].set_xlabel("horizontal position")
        axes[row, 0].set_ylabel("vertical position")
    for c, word in enumerate(("horizontal", "vertical")):
        row = len(draws) + c
        for v in range(num_videos):
            _in_time(axes[row, v], truth[v, :, c], {n: p[:, v, :, c] for n, p in draws.items()}, level)
            axes[row, v].set_xlabel("time (frames)")
        axes[row, 0].set_ylabel(f"{word} position")
    _legend(figure, draws, half_canvas, level)
    return figure


def _plane(axis: "Axes", truth, paths, colour, half_canvas) -> None:
    for path in paths[_spread(len(paths), NUM_LINES)]:
        axis.plot(path[:, 0], path[:, 1], color=colour, alpha=0.18, linewidth=0.8)
    mean = paths.mean(axis=0)
    axis.plot(mean[:, 0], mean[:, 1], color=colour, linewidth=1.6)
    axis.plot(truth[:, 0], truth[:, 1], color=BLACK, linewidth=1.2, linestyle="--")
    axis.plot(*truth[0], "o", color=BLACK, markersize=4)
    reach = 1.15 * np.abs(truth).max()
    if half_canvas is not None:
        corner = half_canvas * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
        axis.plot(corner[:, 0], corner[:, 1], color=GREY, linewidth=0.9, linestyle=":")
        reach = max(reach, 1.15 * half_canvas)
    axis.set(xlim=(-reach, reach), ylim=(reach, -reach))  # row 0 of a picture is its top
    axis.set_box_aspect(1)


def _in_time(axis: "Axes", truth, draws, level) -> None:
    t = np.arange(len(truth))
    for colour, paths in reversed(list(zip(COLOURS, draws.values(), strict=False))):
        low, high = np.quantile(paths, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        axis.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)
        axis.plot(t, paths.mean(axis=0), color=colour, linewidth=1.3)
    axis.plot(t, truth, color=BLACK, linewidth=1.2, linestyle="--")
    axis.margins(x=0.02)


def _legend(figure: "Figure", draws, half_canvas, level) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=BLACK, linestyle="--", marker="o", markersize=4, label="truth (dot: start)")
    ]
    for colour, name in zip(COLOURS, draws, strict=False):
        handles.append(Line2D([], [], color=colour, label=f"{name}, posterior mean"))
        handles.append(Patch(color=colour, alpha=0.25, linewidth=0, label=f"{name}, draws and {level:.0%} band"))
    if half_canvas is not None:
        handles.append(Line2D([], [], color=GREY, linestyle=":", label="edge of the picture"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)


def _spread(available: int, wanted: int) -> np.ndarray:
    return np.unique(np.linspace(0, available - 1, min(available, wanted)).round().astype(int))
