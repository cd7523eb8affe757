"""Pictures as matplotlib figures: `plots.imputation(model).savefig("filled.svg")`, or .png, or .pdf.

    imputation      cells with their gaps filled, mean and interval along x
    latents         latent functions with bands along x
    missingness     which share of which column is missing where
    calibration     coverage of intervals and the histogram of PIT values
    hyperparameters posterior densities of lengthscales and other hyper-parameters, and inducing inputs
    warp            what the hidden layers of a deep model make of the inputs
    traces          scalars along the chains
    maps            latents over two inputs
    images          observed, filled in, and how sure, for image-valued rows
    generated       images at inputs between the rows

Each takes a fitted model and returns a figure of its own; pyplot is never touched.  The rest are functions of numbers.
"""

from gpbae.plots.canvas import BLACK, BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, STYLE, VERMILION, canvas
from gpbae.plots.models import (
    calibration,
    generated,
    hyperparameters,
    images,
    imputation,
    latents,
    maps,
    missingness,
    traces,
    warp,
)
from gpbae.plots.paths import trajectories
from gpbae.plots.scalars import density, log_joint, smooth_density, temperatures

__all__ = [
    "BLACK",
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "STYLE",
    "VERMILION",
    "calibration",
    "canvas",
    "density",
    "generated",
    "hyperparameters",
    "images",
    "imputation",
    "latents",
    "log_joint",
    "maps",
    "missingness",
    "smooth_density",
    "temperatures",
    "traces",
    "trajectories",
    "warp",
]
