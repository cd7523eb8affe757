"""Sections on what a model found: gaps filled, latents, maps, images, hyper-parameters."""

import io
from typing import Any

import numpy as np

from gpbae import plots
from gpbae.overview import LEVEL, Overview
from gpbae.report import charts
from gpbae.report.page import Chart, Picture, Section, Table
from gpbae.report.subject import MOST_TABLE_ROWS, Subject, cell

WIDE = 640
ROUNDING = 1e-6
"""Share of a column's range below which a number is what a transform there and back has left of zero."""


def data(subject: Subject) -> Section:
    view = subject.view
    text = "Dark means missing. Gaps are no error: the likelihood sums over observed cells only."
    caption = "Share of missing cells in stretches of rows."
    shown = Chart("missingness", charts.missingness(view), caption, wide=True)
    return Section("Data and gaps", [text], [] if view.is_image else [_columns_table(view)], charts=[shown])


def _columns_table(view: Overview) -> Table:
    values = view.observed(np.arange(len(view.mask)))
    chosen = [words.split(":")[0] for words in view.model.likelihood_choice_.values()]
    chosen = chosen if len(chosen) == values.shape[1] else chosen * values.shape[1]  # of arrays, one for all
    rows = []
    for name, word, kind, column, seen in zip(view.cell_names, chosen, view.kinds, values.T, view.mask.T, strict=True):
        known = column[seen]
        known = np.where(np.abs(known) < ROUNDING * np.ptp(known), 0.0, known) if len(known) else known
        spread = (known.mean(), known.std(), known.min(), known.max()) if len(known) else (np.nan,) * 4
        spread = (np.nan,) * 4 if kind == "class" else spread  # codes are no quantities
        rows.append((name, word, str(int(seen.sum())), f"{1 - seen.mean():.1%}", *map(cell, spread)))
    caption = "" if len(rows) <= MOST_TABLE_ROWS else f"The first {MOST_TABLE_ROWS} of {len(rows)} columns."
    header = ("column", "likelihood", "observed", "missing", "mean", "sd", "least", "largest")
    return Table(header, rows[:MOST_TABLE_ROWS], caption)


def imputation(subject: Subject) -> Section:
    view = subject.view
    of_truths = "; of yes and no, the probability of yes and its interval" if (view.kinds == "truth").any() else ""
    of_labels = "; of labels, the probability of each" if view.labelled else ""
    centre = "Mean (median, where a transform was modelled)" if view.model.scaler_.transforms else "Mean"
    text = (
        f"{centre} and {LEVEL:.0%} interval of a new measurement in every cell, given the observed cells of its row "
        f"and all other rows{of_truths}{of_labels}. Shaded: missing. Point at a chart for values; choose what to see "
        "below it."
    )
    shown = []
    if (view.kinds != "class").any():
        caption = f"Against {view.along_name}.{shown_part(view)}"
        shown.append(Chart("fans", charts.fans(view), caption, wide=True))
    if view.labelled:
        caption = f"Labels against {view.along_name}; dots above are the labels observed.{_labels_shown(view)}"
        shown.append(Chart("labels", charts.labels(view), caption, wide=True))
    return Section("Gaps filled", [text], charts=shown)


def _labels_shown(view: Overview) -> str:
    total = int((view.kinds == "class").sum())
    return f" {len(view.labelled)} of {total} columns of labels are shown." if len(view.labelled) < total else ""


def shown_part(view: Overview) -> str:
    """Which part of a long table is drawn."""
    words = ""
    if any(len(s.rows) < s.total for s in view.series):
        first = next(s for s in view.series if len(s.rows) < s.total)
        words += f" Of {first.total} rows the {len(first.rows)} with most gaps are shown."
    if len(view.cells) < (total := int((view.kinds != "class").sum())):
        words += f" {len(view.cells)} of {total} columns {'without labels ' * (total < len(view.kinds))}are shown."
    if len(view.series) < view.num_series:
        words += f" {len(view.series)} of {view.num_series} series are shown."
    return words


UP_TO = (
    "Latents are known up to a smooth map that the decoder can undo, of which rotations, all there is for a linear "
    "decoder, are taken out:"
)


def latents(subject: Subject) -> Section:
    view = subject.view
    text = (
        f"What the model has compressed each row to, with {LEVEL:.0%} bands. {UP_TO} read "
        "their shapes, not their signs or their numbers."
    )
    shown = Chart("latents", charts.latents(view), f"Latents against {view.along_name}.", wide=True)
    return Section("Latent functions", [text], charts=[shown])


def maps(subject: Subject) -> Section:
    text = (
        f"Latents and columns at the places of the rows, gaps filled in. {UP_TO} read where they change, not their "
        "signs."
    )
    caption = f"Mean, or half the width of the {LEVEL:.0%} interval.{shown_part(subject.view)}"
    return Section("Maps", [text], charts=[Chart("maps", charts.maps(subject.view), caption, wide=True)])


def images(subject: Subject) -> Section:
    pictures = [
        Picture(
            _png(plots.images(subject.model, subject.view.dates)),
            "Some rows as images: observed, predictive mean, predictive standard deviation",
            "Above: observed, missing pixels in grey. Middle: the mean. Below: its standard deviation, noise included.",
            WIDE,
        )
    ]
    if is_generated := len(subject.view.between[0]) > 0:
        pictures.append(
            Picture(
                _png(plots.generated(subject.model, subject.view.dates)),
                "Images at inputs between the rows: one draw, predictive mean, predictive standard deviation",
                "Halfway between rows, where no pixel was seen. Above: one draw, noise included. Middle: the mean. "
                "Below: its standard deviation.",
                WIDE,
            )
        )
    return Section(f"Images, filled{' and generated' * is_generated}", pictures=pictures)


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def warp(subject: Subject) -> Section:
    text = (
        "What the hidden layers make of the inputs: steep where things change fast, flat where they are slow. The "
        "dashed line is no warp. Any stretch is as good as another, so draws have the inputs' own location and spread."
    )
    caption = f"Inputs and what becomes of them: mean and {LEVEL:.0%} interval."
    return Section(
        "The warp", [text], pictures=[Picture(_png(plots.warp(subject.model)), "Warped inputs", caption, WIDE)]
    )


def hyperparameters(subject: Subject) -> Section:
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
    units = {f"{name} in {reader.unit_name}" for name, reader in view.dates.items()}
    text = (
        "A lengthscale is the distance over which latents change, in the units of the input"
        f"{' (' + ', '.join(sorted(units)) + ')' if units else ''}; noise is in standard deviations of a column."
    )
    if view.is_deep:
        text += (
            ' "Layer 1" is the first hidden layer; what names no layer is of the last one, along the warped inputs.'
            " Those are known up to a stretch, and so is it."
        )
    return Section("Lengthscales and inducing inputs", [text], charts=shown)
