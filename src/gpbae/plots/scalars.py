"""Single numbers of a run: posterior densities, the log joint, kinetic temperatures."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gpbae.plots.canvas import BLACK, BLUE, COLOURS, GREEN, VERMILION, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
