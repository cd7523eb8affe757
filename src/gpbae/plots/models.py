"""Pictures of a fitted model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbae.answering import wording
from gpbae.errors import InputError
from gpbae.overview import LEVEL, Overview, coverages
from gpbae.plots.canvas import BLACK, BLUE, COLOURS, GREEN, GREY, VERMILION, canvas
from gpbae.plots.scalars import smooth_density
from gpbae.scoring import metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 7.5
MOST_PANELS = 12


def imputation(model: Any, columns: Sequence[Any] | None = None, group: Any = None, level: float = LEVEL) -> "Figure":
    """Cells along x: what was observed, the predictive mean and the central interval of probability `level`.

    `columns` are names or numbers of the columns to draw, by default a few; `group` is the label of a series.
    """
    view = Overview(model, group, None if columns is None else tuple(columns))
    bands, rows = view.fans(level), view.series[0].rows
    figure, axes = canvas(len(view.cells), 1, (WIDTH, 1.7 * len(view.cells) + 0.7), sharex=True)
    x, seen = view.along[rows], view.observed(rows)
    for k, (axis, cell) in enumerate(zip(axes[:, 0], view.cells, strict=True)):
        for gap in view.gaps:
            if (gap.series, gap.cell) == (0, k):
                axis.axvspan(gap.low, gap.high, color=GREY, alpha=0.25, linewidth=0)
        axis.fill_between(x, *(b[: len(rows), k] for b in (bands.low, bands.high)), color=BLUE, alpha=0.2, linewidth=0)
        axis.plot(x, bands.mean[: len(rows), k], color=BLUE, linewidth=1.4)
        axis.plot(x, seen[:, cell], ".", color=BLACK, markersize=4)
        axis.set_ylabel(_plain(view.cell_names[cell]))
    axes[-1, 0].set_xlabel(_plain(view.along_name))
    _legend(figure, [("observed", BLACK, "."), ("mean", BLUE, "-"), (f"{level:.0%} interval", BLUE, "band"),
                     *([("missing", GREY, "band")] if view.gaps else [])])  # fmt: skip
    return figure


def latents(model: Any, group: Any = None, level: float = LEVEL) -> "Figure":
    """Every latent along x with its band; known up to a smooth map, so read shapes, not numbers."""
    view = Overview(model, group)
    bands, rows = view.latents(level), slice(len(view.series[0].rows))
    num = min(bands.mean.shape[1], MOST_PANELS)
    figure, axes = canvas(num, 1, (WIDTH, 1.5 * num + 0.7), sharex=True)
    x = view.along[view.series[0].rows]
    for i, axis in enumerate(axes[:, 0]):
        colour = COLOURS[i % len(COLOURS)]
        axis.fill_between(x, bands.low[rows, i], bands.high[rows, i], color=colour, alpha=0.2, linewidth=0)
        axis.plot(x, bands.mean[rows, i], color=colour, linewidth=1.4)
        axis.set_ylabel(f"latent {i}")
    axes[-1, 0].set_xlabel(_plain(view.along_name))
    return figure


def missingness(model: Any) -> "Figure":
    """Share of missing cells by column, in stretches of rows."""
    view = Overview(model)
    share = view.missing_share().T
    height = float(np.clip(0.28 * len(share) + 1.2, 2.0, 9.0))
    figure, axes = canvas(1, 1, (WIDTH, height))
    axis = axes[0, 0]
    shown = axis.imshow(share, aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest",
                        extent=(0, len(view.x), len(share) - 0.5, -0.5))  # fmt: skip
    if len(share) <= 30:
        axis.set_yticks(range(len(share)), [_plain(name) for name in view.cell_names])
    axis.set(xlabel=f"rows, in the order of {_plain(view.order)}")
    axis.grid(False)
    figure.colorbar(shown, label="share missing")
    return figure


def calibration(model: Any, pit: np.ndarray | None = None) -> "Figure":
    """Coverage of central intervals against their probability, and the histogram of PIT values.

    `pit` are those of hidden cells, from `model.evaluate`; without them the cells of the fit are used, which shows
    gross faults only.  Of a calibrated model 99 of 100 bars lie in the shaded band.
    """
    view = Overview(model)
    values = view.pit if pit is None else np.asarray(pit)
    num_bins = metrics.num_bins(len(values), view.num_draws if pit is None else len(values))
    figure, axes = canvas(1, 2, (WIDTH, 3.4))
    levels = np.linspace(0, 1, 41)
    axes[0, 0].plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    axes[0, 0].plot(levels, coverages(values, levels), color=BLUE)
    axes[0, 0].set(xlabel="probability of the interval", ylabel="share of cells inside")
    axes[0, 0].set_box_aspect(1)
    axes[0, 1].axhspan(*metrics.band_of_bins(len(values), num_bins), color=GREEN, alpha=0.15, linewidth=0)
    axes[0, 1].hist(values, bins=num_bins, range=(0, 1), density=True, color=BLUE, alpha=0.6)
    axes[0, 1].axhline(1, color=GREY, linestyle="--", linewidth=1)
    axes[0, 1].set(xlabel="PIT (flat if calibrated)", ylabel="density")
    figure.suptitle("cells of the fit itself" if pit is None else "hidden cells", fontsize=10)
    return figure


def hyperparameters(model: Any) -> "Figure":
    """Posterior densities of hyper-parameters, chain by chain; where there are inducing inputs, where they lie."""
    view = Overview(model)
    named = list(view.hyperparameters.items())[:MOST_PANELS]
    places = view.inducing
    num = len(named) + (places is not None)
    if num == 0:
        raise InputError(f"{type(model).__name__} sampled no hyper-parameters, so there are none to draw.")
    columns = min(3, num)
    figure, axes = canvas(-(-num // columns), columns, (2.7 * columns + 0.4, 2.3 * -(-num // columns)))
    for axis, (name, draws) in zip(axes.flat, named, strict=False):
        grid = np.linspace(draws.min() - 0.1 * np.ptp(draws), draws.max() + 0.1 * np.ptp(draws) + 1e-12, 200)
        for colour, chain in zip(COLOURS * len(draws), draws, strict=False):
            axis.plot(grid, smooth_density(chain, grid), color=colour, linewidth=1.2)
        axis.set(title=name, yticks=[])
    if places is not None:
        _inducing(axes.flat[len(named)], view, places)
    for axis in axes.flat[num:]:
        axis.set_visible(False)
    return figure


def warp(model: Any, level: float = LEVEL) -> "Figure":
    """What the hidden layers of a deep model make of each input: steep where things change fast."""
    view = Overview(model)
    if not view.is_deep:
        raise InputError(
            f"{type(model).__name__} has no hidden layers to draw; warp needs DSGPBAE with num_layers above 1."
        )
    x, bands = view.warp(level)
    num = min(x.shape[1], MOST_PANELS)
    figure, axes = canvas(1, num, (min(WIDTH, 3.4 * num + 0.6), 3.4))
    for d, axis in enumerate(axes[0]):
        order = np.argsort(x[:, d], kind="stable")
        if x.shape[1] == 1:
            axis.fill_between(x[:, 0], bands.low[:, 0], bands.high[:, 0], color=BLUE, alpha=0.2, linewidth=0)
            axis.plot(x[:, 0], bands.mean[:, 0], color=BLUE, linewidth=1.4)
        else:
            reach = np.abs(np.stack([bands.low[order, d], bands.high[order, d]]) - bands.mean[order, d])
            axis.errorbar(x[order, d], bands.mean[order, d], reach, fmt=".", color=BLUE, markersize=4, elinewidth=0.6)
        axis.plot(x[order, d], x[order, d], "--", color=GREY, linewidth=1)
        axis.set(xlabel=_plain(view.input_names[d]), ylabel=f"{_plain(view.input_names[d])}, warped")
    return figure


def _inducing(axis, view: Overview, places: np.ndarray) -> None:
    axis.set_title("inducing inputs")
    if places.shape[2] == 1:
        axis.hist(places.ravel(), bins=50, color=BLUE, alpha=0.6, density=True)
        axis.plot(view.x[:, 0], np.zeros(len(view.x)), "|", color=BLACK, alpha=0.3)
        axis.set(xlabel=_plain(view.input_names[0]), yticks=[])
        return
    few = places[:: max(1, len(places) // 20)].reshape(-1, places.shape[2])
    axis.plot(view.x[:, 0], view.x[:, 1], ".", color=GREY, markersize=2)
    axis.plot(few[:, 0], few[:, 1], ".", color=VERMILION, markersize=2, alpha=0.4)
    axis.set(xlabel=_plain(view.input_names[0]), ylabel=_plain(view.input_names[1]))


def traces(model: Any, names: Sequence[str] | None = None) -> "Figure":
    """Log joint and scalars along each chain; `names` are keys of `model.scalars_()`."""
    view = Overview(model)
    chosen = [wording.in_words(name) for name in names] if names is not None else list(view.scalars)[: MOST_PANELS - 1]
    lines = {"log joint (with warm-up)": view.log_joint, **{name: view.scalars[name].T for name in chosen}}
    columns = min(3, len(lines))
    figure, axes = canvas(-(-len(lines) // columns), columns, (2.9 * columns, 1.9 * -(-len(lines) // columns)))
    for axis, (name, values) in zip(axes.flat, lines.items(), strict=False):
        for c, chain in enumerate(values.T):
            axis.plot(chain, color=COLOURS[c % len(COLOURS)], linewidth=0.8, alpha=0.85)
        axis.set_title(name)
    for axis in axes.flat[len(lines) :]:
        axis.set_visible(False)
    return figure


def maps(model: Any, level: float = LEVEL) -> "Figure":
    """Latents over two inputs: posterior mean, and half the width of the interval below it."""
    view = Overview(model)
    if not view.is_map:
        raise InputError(f"maps needs two inputs that are quantities; this model has {len(view.quantities)}.")
    bands = view.latents(level)
    num = min(bands.mean.shape[1], 4)
    first, second = (view.x[view.rows, i] for i in view.quantities)
    figure, axes = canvas(2, num, (3.0 * num + 0.6, 5.4), sharex=True, sharey=True)
    for i in range(num):
        width = (bands.high[:, i] - bands.low[:, i]) / 2
        for axis, values, word, shades in ((axes[0, i], bands.mean[:, i], "mean", "viridis"),
                                           (axes[1, i], width, f"half {level:.0%} width", "magma")):  # fmt: skip
            dots = axis.scatter(first, second, c=values, cmap=shades, s=16)
            axis.set_title(f"latent {i}: {word}")
            figure.colorbar(dots, ax=axis)
        axes[1, i].set_xlabel(_plain(view.input_names[view.quantities[0]]))
    for axis in axes[:, 0]:
        axis.set_ylabel(_plain(view.input_names[view.quantities[1]]))
    return figure


def images(model: Any, dates: Mapping[str, Any] | None = None) -> "Figure":
    """Rows as images: what was observed, the predictive mean, and its standard deviation."""
    view = Overview(model, dates=dates or {})
    if not view.is_image:
        raise InputError(f"images needs rows of shape (height, width); this model has rows of shape {view.shape}.")
    return _grid(view, view.images)


def generated(model: Any, dates: Mapping[str, Any] | None = None) -> "Figure":
    """Images at inputs between the rows: one draw, the predictive mean, and its standard deviation."""
    view = Overview(model, dates=dates or {})
    if not view.is_image or not view.quantities:
        raise InputError(
            "generated needs a model with inputs and rows of shape (height, width); got "
            f"{type(model).__name__} with rows of shape {view.shape}."
        )
    return _grid(view, view.generated)


def _grid(view: Overview, found: Mapping[str, np.ndarray]) -> "Figure":
    """A column for every place, a row for everything found there; all but the last share one scale of colours."""
    *pictures, _ = names = [name for name in found if name != "along"]
    num = len(found["along"])
    figure, axes = canvas(len(names), num, (1.9 * num + 0.8, 5.6))
    axes = np.reshape(axes, (len(names), num))
    both = np.concatenate([found[name].ravel() for name in pictures])
    span = {"vmin": np.nanmin(both), "vmax": np.nanmax(both), "cmap": "viridis"}
    for row, name in enumerate(names):
        looks = span if name in pictures else {"cmap": "magma", "vmin": 0, "vmax": found[name].max()}
        for i in range(num):
            shown = axes[row, i].imshow(_flat(found[name][i]), **looks)
            axes[row, i].set(xticks=[], yticks=[], facecolor="#e5e7eb")
            axes[row, i].grid(False)
        axes[row, 0].set_ylabel("standard deviation" if name == "sd" else name)
        figure.colorbar(shown, ax=list(axes[row]), shrink=0.9)
    for i, place in enumerate(found["along"]):
        axes[0, i].set_title(_plain(view.place_text(place)))
    return figure


def _flat(image: np.ndarray) -> np.ndarray:
    """Channels averaged, for a picture of one colour scale."""
    return image if image.ndim == 2 else image.mean(axis=-1)


def _plain(name: str) -> str:
    """A user's name, not mathematics: matplotlib reads what stands between dollars."""
    return name.replace("$", r"\$")


def _legend(figure: "Figure", entries: list[tuple[str, str, str]]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, alpha=0.25, linewidth=0, label=label) if look == "band" else
               Line2D([], [], color=colour, label=label, linestyle="" if look == "." else look,
                      marker="." if look == "." else "") for label, colour, look in entries]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
