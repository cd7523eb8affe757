"""The paper's figures, each a function of numbers that returns a matplotlib Figure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpbae.plots import BLACK, BLUE, COLOURS, GREY, VERMILION, canvas, smooth_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arrays = Mapping[str, np.ndarray]
NUM_BANDS = 3  # standard deviations
LARGEST_RHAT = 1.1


def series(models: Mapping[str, Arrays], names: Sequence[str], x_label: str, unit: str) -> "Figure":
    """Columns in time: what was seen, what was hidden, and mean ± 3 sd of what each model says; a row per model."""
    figure, axes = canvas(len(models), len(names), (3.9 * len(names), 2.5 * len(models) + 0.6), sharex=True,
                          sharey="col")  # fmt: skip
    for row, (colour, (model, a)) in enumerate(zip(_cycle(COLOURS), models.items(), strict=False)):
        hidden = np.isfinite(a["truth"])
        for c, name in enumerate(names):
            axis, where = axes[row, c], hidden[:, c]
            t, mean, sd = a["time"][where], a["mean"][where, c], a["sd"][where, c]
            axis.plot(a["time"], a["seen"][:, c], color=GREY, linewidth=1, label="seen")
            axis.fill_between(t, mean - NUM_BANDS * sd, mean + NUM_BANDS * sd, color=colour, alpha=0.2, linewidth=0,
                              label=f"mean ± {NUM_BANDS} sd")  # fmt: skip
            axis.plot(t, mean, color=colour, linewidth=1.5)
            axis.plot(t, a["truth"][where, c], ".", color=BLACK, markersize=3, label="hidden truth")
            axis.set_title(f"{model}, {name}")
        axes[row, 0].set_ylabel(unit)
    for axis in axes[-1]:
        axis.set_xlabel(x_label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False)
    return figure


def cadmium(models: Mapping[str, Arrays]) -> "Figure":
    """Predicted against true values with intervals, and a map of the predictions; a row per model."""
    figure, axes = canvas(len(models), 3, (12.6, 3.8 * len(models) + 0.3), width_ratios=[1, 1, 1])
    for (left, middle, right), colour, (model, a) in zip(axes, _cycle(COLOURS), models.items(), strict=False):
        covered = np.mean((a["truth"] >= a["lower"]) & (a["truth"] <= a["upper"]))
        errors = np.clip(np.stack([a["mean"] - a["lower"], a["upper"] - a["mean"]]), 0, None)
        left.errorbar(a["truth"], a["mean"], yerr=errors, fmt="o", markersize=3.5, color=colour, ecolor=colour,
                      elinewidth=0.8, alpha=0.65)  # fmt: skip
        top = 1.05 * max(a["truth"].max(), np.quantile(a["upper"], 0.95))
        left.plot([0, top], [0, top], color=BLACK, linewidth=1, linestyle="--")
        left.set(xlim=(0, top), ylim=(0, top), xlabel="true cadmium (mg/kg)", ylabel="predicted (mg/kg)",
                 title=f"{model}: {covered:.0%} inside the 90% interval")  # fmt: skip
        shades = {"cmap": "viridis", "vmin": 0, "vmax": np.quantile(np.concatenate([a["seen"], a["truth"]]), 0.98)}
        _map(middle, a, a["truth"], "true cadmium", shades)
        drawn = _map(right, a, a["mean"], f"{model}, predictive mean", shades)
        figure.colorbar(drawn, ax=[middle, right], label="cadmium (mg/kg)", shrink=0.85)
    return figure


def _map(axis, a: Arrays, values, title, shades):
    axis.scatter(*a["seen_sites"].T, c=a["seen"], s=9, alpha=0.8, linewidths=0, **shades)
    drawn = axis.scatter(*a["sites"].T, c=values, s=46, edgecolors=BLACK, linewidths=0.7, **shades)
    axis.set(xlabel="east (km)", ylabel="north (km)", title=title)
    axis.set_aspect("equal")
    return drawn


def against_inducing(by_count: Mapping[int, Sequence[float]], exact: Sequence[float], label: str) -> "Figure":
    """A score against the number of inducing inputs: mean ± sd over seeds, and the exact GP's as a line."""
    figure, axes = canvas(1, 1, (6.4, 4.2))
    axis = axes[0, 0]
    counts = list(by_count)
    means = [np.mean(values) for values in by_count.values()]
    spreads = [np.std(values, ddof=1) if len(values) > 1 else 0.0 for values in by_count.values()]
    axis.errorbar(counts, means, yerr=spreads, fmt="o-", color=BLUE, capsize=3, label="SGP-BAE")
    if exact:
        axis.axhline(float(np.mean(exact)), color=VERMILION, linestyle="--", label="GP-BAE (exact)")
    axis.set(xlabel="number of inducing inputs M", ylabel=label, xticks=counts)
    axis.set_ylim(bottom=0)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


def densities(draws: Mapping[str, np.ndarray], label: str, truth: float) -> "Figure":
    """Posterior densities of one scalar under several models, and the true value."""
    figure, axes = canvas(1, 1, (6.4, 4.2))
    axis = axes[0, 0]
    pooled = np.concatenate([*draws.values(), [truth]])
    pad = 0.2 * max(float(np.ptp(pooled)), 1e-3)
    grid = np.linspace(pooled.min() - pad, pooled.max() + pad, 400)
    for colour, (name, values) in zip(_shades(len(draws)), draws.items(), strict=True):
        low, high = np.quantile(values, [0.05, 0.95])
        axis.plot(grid, smooth_density(values, grid), color=colour, linewidth=1.8,
                  label=f"{name}: {low:.2f} to {high:.2f}")  # fmt: skip
    axis.axvline(truth, color=BLACK, linestyle="--", linewidth=1.3, label=f"true value: {truth:g}")
    axis.set(xlabel=label, ylabel="posterior density")
    axis.set_ylim(bottom=0)
    axis.margins(x=0)
    figure.legend(loc="outside upper left", ncols=3, frameon=False, title="90% interval", alignment="left")
    return figure


def positions(draws: Mapping[str, np.ndarray], label: str, span: tuple[int, int]) -> "Figure":
    """Posterior of inducing inputs on a line, in order within a draw; draws (chain, draw, M, 1), a panel per model."""
    figure, axes = canvas(len(draws), 1, (7.2, 1.45 * len(draws) + 0.8), sharex=True)
    for axis, (name, values) in zip(axes[:, 0], draws.items(), strict=True):
        ordered = np.sort(values[..., 0].reshape(-1, values.shape[2]), axis=1)
        pad = 0.05 * (span[1] - span[0])
        grid = np.linspace(min(span[0], ordered.min()) - pad, max(span[1], ordered.max()) + pad, 600)
        for place, colour in zip(ordered.T, _shades(ordered.shape[1]), strict=True):
            density = smooth_density(place, grid)
            axis.fill_between(grid, density / density.max(), color=colour, alpha=0.35, linewidth=0)
            axis.plot(grid, density / density.max(), color=colour, linewidth=0.8)
        axis.plot(ordered.mean(axis=0), np.full(ordered.shape[1], -0.08), "|", color=BLACK, markersize=8)
        axis.set(ylabel=name, yticks=[], ylim=(-0.18, 1.08))
        for end in span:
            axis.axvline(end, color=GREY, linestyle=":", linewidth=1)
    axes[-1, 0].set_xlabel(label)
    axes[0, 0].set_title("posterior of the inducing inputs")
    return figure


def digits(models: Mapping[str, Arrays]) -> "Figure":
    """Truth, then for every model its mean image and the epistemic variance below."""
    first = next(iter(models.values()))
    rows = [("truth", first["truth"], "gray_r")]
    for model, a in models.items():
        rows += [(f"{model}\nmean", a["mean"], "gray_r"), (f"{model}\nvariance", a["epistemic"], "magma")]
    num = len(first["truth"])
    figure, axes = canvas(len(rows), num, (1.15 * num + 1.6, 1.2 * len(rows)))
    for line, (name, images, colours) in zip(axes, rows, strict=True):
        scale = {"vmin": 0, "vmax": 1} if colours == "gray_r" else {"vmin": 0, "vmax": max(float(images.max()), 1e-9)}
        for axis, image in zip(line, images, strict=False):
            drawn = axis.imshow(image, cmap=colours, **scale)
            axis.set(xticks=[], yticks=[])
            axis.grid(False)
            axis.spines[:].set_visible(False)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
        if colours == "magma":
            figure.colorbar(drawn, ax=line, shrink=0.8)
    return figure


def embedding(points: np.ndarray, angles: np.ndarray, correlation: float) -> "Figure":
    """Points in the plane coloured by an angle, on a colour circle."""
    figure, axes = canvas(1, 1, (6.2, 5.2))
    axis = axes[0, 0]
    drawn = axis.scatter(*points.T, c=np.degrees(angles), cmap="hsv", vmin=0, vmax=360, s=7, linewidths=0)
    axis.set(xlabel="t-SNE 1", ylabel="t-SNE 2", title=f"circular correlation with the angle: {correlation:.2f}")
    figure.colorbar(drawn, ax=axis, label="angle (degrees)", ticks=range(0, 361, 90))
    return figure


def in_time(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], label: str, lines: Mapping[str, float]) -> "Figure":
    """A score against seconds, one line per model, beside constant ones."""
    figure, axes = canvas(1, 1, (6.4, 4.2))
    axis = axes[0, 0]
    for i, (name, (seconds, values)) in enumerate(curves.items()):
        colour, mark = COLOURS[i % len(COLOURS)], (".", "x", "+")[i // len(COLOURS) % 3]  # more curves than colours
        axis.plot(seconds, values, color=colour, marker=mark if len(values) < 60 else None, label=name)
    for style, (name, value) in zip(_cycle(("--", ":", "-.")), lines.items(), strict=False):
        axis.axhline(value, color=BLACK, linestyle=style, linewidth=1, label=name)
    axis.set(xlabel="seconds of the processor since the fit began", ylabel=label)
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    return figure


def r_hat(values: Mapping[str, np.ndarray]) -> "Figure":
    """Histogram of R-hat per model, with its median and the usual limit."""
    figure, axes = canvas(1, len(values), (3.4 * len(values) + 0.4, 3.2), sharey=True)
    for axis, colour, (name, found) in zip(axes[0], _cycle(COLOURS), values.items(), strict=False):
        top = max(1.15, float(np.quantile(found, 0.98)))
        axis.hist(
            np.clip(found, None, top), bins=30, range=(min(0.98, float(found.min())), top), color=colour, alpha=0.8
        )
        axis.axvline(LARGEST_RHAT, color=BLACK, linestyle="--", linewidth=1)
        axis.set(xlabel="split R-hat", title=f"{name}: median {np.median(found):.2f}")
    axes[0, 0].set_ylabel("predictive means")
    return figure


def traces(models: Mapping[str, np.ndarray]) -> "Figure":
    """Some scalars along each chain, (chain, draw, scalar); a row per model."""
    num = max(values.shape[2] for values in models.values())
    figure, axes = canvas(len(models), num, (3.6 * num, 1.9 * len(models) + 0.3), sharex="row")
    for line, (model, values) in zip(axes, models.items(), strict=True):
        for i, axis in enumerate(line):
            if i >= values.shape[2]:
                axis.set_visible(False)
                continue
            for colour, chain in zip(_cycle(COLOURS), values[..., i], strict=False):
                axis.plot(np.arange(1, len(chain) + 1), chain, color=colour, linewidth=0.9, alpha=0.85)
            axis.set_title(f"{model}, cell {i + 1}")
        line[0].set_ylabel("predictive mean")
    for axis in axes[-1]:
        axis.set_xlabel("draw")
    return figure


def _cycle(colours: Sequence[str]):
    while True:
        yield from colours


def _shades(number: int) -> list[tuple[float, ...]]:
    """Colours in an order, for things that have one."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.9 * i / max(number - 1, 1)) for i in range(number)]
