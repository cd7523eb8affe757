"""The page of a fitted model: what was fitted, what it found, and whether to believe it.

A section is a value: when it applies, and how it is built.  To add one, write a function and name it in SECTIONS.
"""

import dataclasses
import functools
import importlib.metadata
import io
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpbae import __version__, plots
from gpbae.overview import LEVEL, Overview, coverages
from gpbae.plots import COLOURS
from gpbae.report import charts, trust
from gpbae.report.page import Chart, Picture, Section, Table, html

ABOUT_TEMPERATURE = (
    "A sampler of the posterior keeps every block of variables at kinetic temperature 1. Colder is optimisation, "
    "hotter is too large a step; then the spread of the draws says nothing."
)
PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy", "pandas")
MOST_TABLE_ROWS = 60
WIDE = 640


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a page is about: a view of the model, the roles of its columns, and a test on hidden cells if there was."""

    view: Overview
    columns: Any = None
    evaluation: Sequence[Mapping[str, Any]] = ()

    @property
    def model(self) -> Any:
        return self.view.model

    @property
    def tests(self) -> list[Mapping[str, Any]]:
        """What the test says of all columns together, one row per way of hiding and method."""
        return [row for row in self.evaluation if row.get("column", "all") == "all"]

    @functools.cached_property
    def diagnostics(self) -> Any:
        return self.model.diagnostics()


@dataclasses.dataclass(frozen=True)
class Part:
    """A section that may apply."""

    build: Callable[[Subject], Section]
    applies: Callable[[Subject], bool] = lambda subject: True


def model_page(model: Any, columns: Any = None, evaluation: Sequence[Mapping[str, Any]] = ()) -> str:
    """The HTML of a fitted model's page; `evaluation` are the rows of a test on hidden cells (evaluation.json)."""
    subject = Subject(Overview(model, dates=getattr(columns, "dates", {})), columns, evaluation)
    name = type(model).__name__
    return html(f"{name}: a fitted model", _lead(subject), [p.build(subject) for p in SECTIONS if p.applies(subject)])


def _lead(subject: Subject) -> str:
    model, mask = subject.model, subject.view.mask
    cells = "pixel" if subject.view.is_image else "column"
    return (
        f"{type(model).__name__} with {_count(model.latent_dim_, 'latent')}, fitted to {_count(len(mask), 'row')} of "
        f"{_count(mask.shape[1], cells)}, {1 - mask.mean():.1%} of the cells missing, in "
        f"{_count(len(model.groups_), 'group')}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _trust(subject: Subject) -> Section:
    return Section("Is it to be trusted?", checks=trust.checks(subject.model, subject.diagnostics))


def _fitted(subject: Subject) -> Section:
    model, view = subject.model, subject.view
    kernels = "" if not view.quantities else "; ".join(repr(k) for k in model._given_kernels())
    sampling = f"{_count(model.num_chains_, 'chain')} of {_count(model._num_draws, 'draw')}, {_seconds(model):.0f} s"
    facts = {"model": type(model).__name__, "inputs": ", ".join(view.input_names) if view.quantities else "none",
             "outputs": " × ".join(map(str, view.shape)) + (" pixels" if view.is_image else " columns"),
             "latents": str(model.latent_dim_), "kernel": kernels, "likelihood": type(model.model_.likelihood).__name__,
             "decoder": type(model.model_.decoder).__name__, "sampled": sampling}  # fmt: skip
    return Section("What was fitted", tables=[Table(("what", ""), [pair for pair in facts.items() if pair[1]])])


def _seconds(model: Any) -> float:
    return max((event["seconds"] for event in model.history_), default=0.0)


def _data(subject: Subject) -> Section:
    view = subject.view
    text = "Dark means missing. Gaps are no error: the likelihood sums over observed cells only."
    caption = "Share of missing cells in stretches of rows."
    shown = Chart("missingness", charts.missingness(view), caption, wide=True)
    return Section("Data and gaps", [text], [] if view.is_image else [_columns_table(view)], charts=[shown])


def _columns_table(view: Overview) -> Table:
    values = view.observed(np.arange(len(view.mask)))
    rows = []
    for name, column, seen in zip(view.cell_names, values.T, view.mask.T, strict=True):
        known = column[seen]
        spread = (known.mean(), known.std(), known.min(), known.max()) if len(known) else (np.nan,) * 4
        rows.append((name, str(int(seen.sum())), f"{1 - seen.mean():.1%}", *map(_cell, spread)))
    caption = "" if len(rows) <= MOST_TABLE_ROWS else f"The first {MOST_TABLE_ROWS} of {len(rows)} columns."
    return Table(("column", "observed", "missing", "mean", "sd", "least", "largest"), rows[:MOST_TABLE_ROWS], caption)


def _imputation(subject: Subject) -> Section:
    view = subject.view
    text = (
        f"Mean and {LEVEL:.0%} interval of a new measurement in every cell, given the observed cells of its row and "
        "all other rows. Point at the chart for values; choose what to see below it."
    )
    caption = f"Against {view.along_name}.{_shown(view)}"
    return Section("Gaps filled", [text], charts=[Chart("fans", charts.fans(view), caption, wide=True)])


def _shown(view: Overview) -> str:
    """Which part of a long table is drawn."""
    words = ""
    if any(len(s.rows) < s.total for s in view.series):
        first = next(s for s in view.series if len(s.rows) < s.total)
        words += f" Of {first.total} rows the {len(first.rows)} with most gaps are shown."
    if len(view.cells) < view.mask.shape[1]:
        words += f" {len(view.cells)} of {view.mask.shape[1]} columns are shown."
    return words + (f" {len(view.series)} series of all are shown." if len(view.series) > 1 else "")


def _latents(subject: Subject) -> Section:
    view = subject.view
    text = (
        f"What the model has compressed each row to, with {LEVEL:.0%} bands. Latents are known up to a rotation: read "
        "their shapes, not their signs or their numbers."
    )
    shown = Chart("latents", charts.latents(view), f"Latents against {view.along_name}.", wide=True)
    return Section("Latent functions", [text], charts=[shown])


def _maps(subject: Subject) -> Section:
    text = (
        "Latents and columns at the places of the rows, gaps filled in. Latents are known up to a rotation: read where "
        "they change, not their signs."
    )
    caption = f"Mean, or half the width of the {LEVEL:.0%} interval.{_shown(subject.view)}"
    return Section("Maps", [text], charts=[Chart("maps", charts.maps(subject.view), caption, wide=True)])


def _images(subject: Subject) -> Section:
    file = io.BytesIO()
    plots.images(subject.model).savefig(file, format="png")
    picture = Picture(
        file.getvalue(),
        "Some rows as images: observed, predictive mean, predictive standard deviation",
        "Above: observed, missing pixels in grey. Middle: the mean. Below: its standard deviation, noise included.",
        WIDE,
    )
    return Section("Images, filled and generated", pictures=[picture])


def _hyperparameters(subject: Subject) -> Section:
    view = subject.view
    shown = []
    if view.hyperparameters:
        positive = {n: d for n, d in view.hyperparameters.items() if (d > 0).all()}
        shown = [
            Chart("intervals", charts.intervals(positive), "Median and 90% interval; the axis is logarithmic.", True),
            Chart("densities", charts.densities(view.hyperparameters), "Posterior density, one line per chain."),
        ]
    if view.inducing is not None and len(view.quantities) == 1:
        caption = "Median and 90% interval of the inducing inputs in order: where the model spends its detail."
        shown.append(Chart("inducing", charts.inducing_ranks(view, view.inducing), caption))
    if view.inducing is not None and view.is_map:
        caption = "Draws of the inducing inputs among the data."
        shown.append(Chart("inducing", charts.inducing_places(view, view.inducing), caption))
    text = (
        "A lengthscale is the distance over which latents change, in the units of the input; noise is in standard "
        "deviations of a column."
    )
    return Section("Lengthscales and inducing inputs", [text], charts=shown)


def _calibration(subject: Subject) -> Section:
    mine = [row for row in subject.tests if row["model"] == type(subject.model).__name__ and row.get("pit")]
    if mine:
        text = "Cells hidden from the fit: on the dashed line intervals keep their word."
        lines = {str(row["experiment"]): _coverage_line(row["metrics"]) for row in mine}
        counts = np.sum([row["pit"] for row in mine], axis=0)
    else:
        pit, levels = subject.view.pit, np.linspace(0, 1, 41)
        text = (
            f"In-sample: {_count(len(pit), 'observed cell')} that the fit has seen, so this shows gross faults only. "
            "For an honest test hide some cells: model.evaluate, or gpbae fit --evaluate."
        )
        lines, counts = {"observed cells": (levels, coverages(pit, levels))}, np.histogram(pit, 20, (0, 1))[0]
    caption = "Share of cells inside central intervals, against their probability."
    flat = "PIT: flat is calibrated; a hump means bands too wide, horns too narrow."
    shown = [Chart("coverage", charts.calibration(lines), caption), Chart("pit", charts.histogram(counts), flat)]
    return Section("Calibration", [text], charts=shown)


def _coverage_line(metrics: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Levels and shares from coverage50, coverage90, …, between the ends that always hold."""
    found = sorted((float(name[8:]) / 100, share) for name, share in metrics.items() if name.startswith("coverage"))
    levels, shares = zip((0.0, 0.0), *found, (1.0, 1.0), strict=True)
    return np.array(levels), np.array(shares)


def _scores(subject: Subject) -> Section:
    names = list(dict.fromkeys(name for row in subject.tests for name in row["metrics"]))
    rows = [(str(row["experiment"]), str(row["model"]), *(_cell(row["metrics"].get(name, np.nan)) for name in names))
            for row in subject.tests]  # fmt: skip
    text = (
        "Cells that were hidden, filled by this model and by simple rivals; errors are in standard deviations of a "
        "column. Lower is better, but a coverage should be what it is called."
    )
    return Section("Scores on hidden cells", [text], [Table(("hidden", "method", *names), rows)])


def _traces(subject: Subject) -> Section:
    view, name = subject.view, type(subject.model).__name__
    blocks = {name: subject.model.kinetic_temperatures_()}
    texts = [ABOUT_TEMPERATURE, "output[r,c] is the decoder's output at fitted row r, cell c, on the model's scale."]
    shown = [Chart("temperatures", charts.temperatures(blocks), "Kinetic temperature ± 2 errors; shaded: within 5%.")]
    if len(view.log_joint):
        caption = "Log joint density along warm-up and sampling: a chain that has settled wanders without trend."
        shown.append(Chart("log-joint", charts.trace(view.log_joint, "log joint (nats)", COLOURS[0]), caption))
    if view.scalars:
        caption = "Draws, one line per chain: lines that mingle without trend have mixed."
        shown.append(Chart("traces", charts.traces(view.scalars), caption, wide=True))
    notes = subject.diagnostics.attrs["warnings"]
    return Section("Traces and diagnostics", texts, [_scalars_table(subject)], notes, charts=shown)


def _scalars_table(subject: Subject) -> Table:
    frame = subject.diagnostics
    frame = frame[frame["mean"].notna()][:MOST_TABLE_ROWS]
    rows = [(str(name), *map(_cell, row)) for name, *row in frame[["mean", "sd", "r_hat", "ess"]].itertuples()]
    return Table(
        ("quantity", "mean", "sd", "R-hat", "effective draws"),
        rows,
        "All quantities: mean, spread, R-hat (below 1.1 is good), effective draws.",
        folded=True,
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if value != value else f"{value:.4g}"
    return str(value)


def _settings(subject: Subject) -> Section:
    model, columns = subject.model, subject.columns
    rows = [(name, str(value)) for name, value in model.get_params().items()]
    if columns is not None:
        rows = [("inputs", ", ".join(columns.inputs)), ("outputs", ", ".join(columns.outputs)),
                ("groups", columns.groups or "none"), *rows]  # fmt: skip
    rows.append(("step size found", _cell(float(np.mean(model.step_size_)))))
    versions = [("gpbae", __version__), ("python", platform.python_version())]
    versions += [(name, importlib.metadata.version(name)) for name in PACKAGES]
    tables = [
        Table(("setting", "value"), rows, "Every setting.", folded=True),
        Table(("package", "version"), versions, "This page was made with:"),
    ]
    return Section("Configuration and versions", tables=tables)


SECTIONS = (
    Part(_trust),
    Part(_fitted),
    Part(_data),
    Part(_images, lambda s: s.view.is_image),
    Part(_imputation, lambda s: not s.view.is_map),
    Part(_latents, lambda s: not s.view.is_map),
    Part(_maps, lambda s: s.view.is_map),
    Part(_hyperparameters, lambda s: bool(s.view.hyperparameters) or s.view.inducing is not None),
    Part(_calibration, lambda s: len(s.view.pit) > 0),
    Part(_scores, lambda s: bool(s.tests)),
    Part(_traces),
    Part(_settings),
)
