"""Pictures: every function takes numbers and returns a matplotlib Figure, without touching the global state."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by colour-blind readers too.
BLACK, BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#000000", "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE)
GREY = "#6b7280"
NUM_LINES = 25

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 130,
    "savefig.facecolor": "white",
}


def canvas(rows: int, columns: int, size: tuple[float, float], **kwargs) -> "tuple[Figure, np.ndarray]":
    """A figure of its own, drawn by Agg wherever it is saved, and its (rows, columns) of axes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=STYLE["savefig.dpi"])
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)


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


def density(
    draws: Float[np.ndarray, "chains draws"], label: str, truth: float | None = None, level: float = 0.9
) -> "Figure":
    """Posterior density of one scalar, chain by chain and pooled, with its central interval and the true value."""
    figure, axes = canvas(1, 1, (6.4, 4.2))
    axis = axes[0, 0]
    flat = draws.ravel()
    grid = _grid(flat, truth)
    for chain in draws:
        axis.plot(grid, smooth_density(chain, grid), color=BLUE, linewidth=0.9, alpha=0.5)
    pooled = smooth_density(flat, grid)
    low, high = np.quantile(flat, [0.5 - level / 2, 0.5 + level / 2])
    inside = (grid >= low) & (grid <= high)
    axis.fill_between(grid[inside], pooled[inside], color=BLUE, alpha=0.2, linewidth=0,
                      label=f"{level:.0%} interval: {low:.2f} to {high:.2f}")  # fmt: skip
    axis.plot(grid, pooled, color=BLUE, linewidth=2, label="posterior (thin: chain by chain)")
    axis.plot(flat, np.zeros_like(flat), "|", color=BLUE, alpha=0.5, markersize=9)
    if truth is not None:
        axis.axvline(truth, color=VERMILION, linestyle="--", linewidth=1.8, label=f"true value: {truth:g}")
    axis.set(xlabel=label, ylabel="posterior density")
    axis.set_ylim(bottom=0)
    axis.margins(x=0)
    figure.legend(loc="outside upper left", frameon=False)
    return figure


def _grid(values: np.ndarray, truth: float | None) -> np.ndarray:
    ends = [values.min(), values.max(), *([] if truth is None else [truth])]
    pad = 0.25 * (max(ends) - min(ends)) or 0.1 * max(abs(ends[0]), 1.0)
    return np.linspace(min(ends) - pad, max(ends) + pad, 300)


def smooth_density(values: Float[np.ndarray, " S"], grid: Float[np.ndarray, " G"]) -> Float[np.ndarray, " G"]:
    """Gaussian kernel estimate with Scott's bandwidth; a constant sample becomes a narrow bump."""
    width = values.std(ddof=1) * len(values) ** -0.2 if len(values) > 1 else 0.0
    width = max(width, 2 * (grid[1] - grid[0]))
    return np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).mean(axis=1) / (width * np.sqrt(2 * np.pi))


def log_joint(traces: Mapping[str, Float[np.ndarray, "sweeps chains"]]) -> "Figure":
    """Log joint density along each run, one line per chain, one panel per model."""
    figure, axes = canvas(1, len(traces), (4.6 * len(traces), 3.2))
    for axis, colour, (name, trace) in zip(axes[0], COLOURS, traces.items(), strict=False):
        axis.plot(np.arange(1, len(trace) + 1), trace, color=colour, linewidth=1.1, alpha=0.8)
        axis.set(title=name, xlabel="draw or warm-up sweep", ylabel="log joint density (nats)")
    return figure


def temperatures(
    blocks: Mapping[str, Mapping[str, tuple[float, float]]], target: float = 1.0, tolerance: float = 0.05
) -> "Figure":
    """Kinetic temperature ± 2 Monte-Carlo errors of each model's blocks of variables, against the one asked for."""
    names = list(dict.fromkeys(block for found in blocks.values() for block in found))
    figure, axes = canvas(1, 1, (6.4, 1.2 + 0.42 * len(names)))
    axis = axes[0, 0]
    axis.axvspan(target * (1 - tolerance), target * (1 + tolerance), color=GREEN, alpha=0.15, linewidth=0,
                 label=f"within {tolerance:.0%}")  # fmt: skip
    for i, (colour, (name, found)) in enumerate(zip(COLOURS, blocks.items(), strict=False)):
        rows = [names.index(block) + 0.12 * (i - (len(blocks) - 1) / 2) for block in found]
        values, errors = np.array(list(found.values())).T
        axis.errorbar(values, rows, xerr=2 * errors, fmt="os^Dv"[i % 5], color=colour, label=name)
    axis.axvline(target, color=BLACK, linewidth=0.9)
    axis.set(yticks=range(len(names)), yticklabels=names, xlabel="kinetic temperature", ylim=(len(names) - 0.5, -0.5))
    figure.legend(loc="outside upper left", ncols=len(blocks) + 1, frameon=False)
    return figure
