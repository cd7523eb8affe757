"""Datasets: one generated, the others read from `$GPBAE_DATA_DIR` or a cache, verified, never unpickled."""

from gpbae.data.archives import GeneCounts, Patients, TemperatureMaps, era5_uk, mouse_olfactory_bulb, physionet2012
from gpbae.data.ball import MovingBall, affine_rmse, moving_ball, moving_ball_reference
from gpbae.data.digits import RotatedMNIST, Views, rotated_mnist
from gpbae.data.registry import DATASETS, fetch, locate
from gpbae.data.tables import HeldOutTable, Table, air_quality, eeg, jura, score_eeg, score_jura

__all__ = [
    "DATASETS",
    "GeneCounts",
    "HeldOutTable",
    "MovingBall",
    "Patients",
    "RotatedMNIST",
    "Table",
    "TemperatureMaps",
    "Views",
    "affine_rmse",
    "air_quality",
    "eeg",
    "era5_uk",
    "fetch",
    "jura",
    "locate",
    "mouse_olfactory_bulb",
    "moving_ball",
    "moving_ball_reference",
    "physionet2012",
    "rotated_mnist",
    "score_eeg",
    "score_jura",
]
