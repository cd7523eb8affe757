"""Interactive charts for pages, as Altair values that hold their own numbers.

A user's names are data and labels here, never field names or expressions, so they cannot become code.
"""

from gpbae.report.charts.along import fans, labels, latents
from gpbae.report.charts.fitted import (
    calibration,
    densities,
    histogram,
    inducing_places,
    inducing_ranks,
    intervals,
    maps,
    missingness,
    traces,
)
from gpbae.report.charts.runs import paths, temperatures, trace

__all__ = [
    "calibration",
    "densities",
    "fans",
    "histogram",
    "inducing_places",
    "inducing_ranks",
    "intervals",
    "labels",
    "latents",
    "maps",
    "missingness",
    "paths",
    "temperatures",
    "trace",
    "traces",
]
