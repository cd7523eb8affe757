"""The datasets as values: files, checksums, public sources, licences. No file is read here.

`sha256` is of the file's bytes; `contents` of its numbers (see `registry.contents_sha256`), for files that a user makes
with another tool. `url` is a direct download with the checksum `url_sha256`, turned into the file by `convert` where
the public form is another one. Without a `url`, `remedy` says how the file is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class File:
    """One file: what it must contain, and how it is come by."""

    sha256: str
    contents: str = ""
    url: str = ""
    url_sha256: str = ""
    convert: Callable[[Path, Path], None] | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Dataset:
    """One row of `gpbae data list`."""

    title: str
    licence: str
    source: str
    files: tuple[str, ...] = ()


def keep_threes(mnist: Path, threes: Path) -> None:
    """The digit 3 of Keras' `mnist.npz`, in file order: a tenth of the size and all that rotated MNIST needs."""
    arrays = {}
    with np.load(mnist, allow_pickle=False) as full:
        for split in ("train", "test"):
            index = np.flatnonzero(full[f"y_{split}"] == 3).astype(np.int32)
            arrays |= {f"{split}_images": full[f"x_{split}"][index], f"{split}_index": index}
    np.savez_compressed(threes, **arrays)


def _jura_in_r(table: str, name: str) -> str:
    return f'in R run data(jura, package="gstat"); write.csv({table}, "{name}", row.names=FALSE).'


FILES: dict[str, File] = {
    "eeg/co2c0000337.rd.000.gz": File(
        sha256="e85afe423d78f8802929a1faf328a129acf4d90698eb0838ac2198de4c9371fc",
        url="https://raw.githubusercontent.com/seredes/EEG_data/ccdf1fa767f77bec4200be1f6caf956fca524f42/"
        "SMNI_CMI_TRAIN/co2c0000337/co2c0000337.rd.000.gz",
        remedy="download SMNI_CMI_TRAIN.tar.gz from https://archive.ics.uci.edu/dataset/121/eeg+database "
        "and take co2c0000337/co2c0000337.rd.000.gz out of it.",
    ),
    "jura/jura_prediction_259.csv": File(
        sha256="afd7e84b5762424a145c4ce15648245ae696612e81ae8da891289d5cef9796e8",
        contents="abcbb308cfc026891f8baf4f18567047b05f738380e68a8a0f24417c55536594",
        remedy=_jura_in_r("prediction.dat", "jura_prediction_259.csv"),
    ),
    "jura/jura_validation_100.csv": File(
        sha256="8dfe16fd3fd8139b5d35e8e95a751097c1a05fcdf1ed9ea7a66b4eac5abc102d",
        contents="a490d99ec69dc66f49b85710c776c7ae0c7e88361e27adfc9bcee7e9ff599f99",
        remedy=_jura_in_r("validation.dat", "jura_validation_100.csv"),
    ),
    "mnist/mnist_threes.npz": File(
        sha256="2d2e6d23de2c26756011cab8ad250079a49c1bb3301134e31f99b527ec300952",
        contents="6bbc8b22468e30bba7436d4c7b2025494d721a9a906c07c838de1b27e88180db",
        url="https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
        url_sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        convert=keep_threes,
        remedy="save train_images, train_index, test_images, test_index of the digit 3 in MNIST's file order.",
    ),
    "moving_ball/moving_ball_reference.npz": File(
        sha256="587e72b08fbbf96b8598809881b68e50611219c086dfefa1f3b171f1285230a8",
        contents="0bfb3b85a73833c09b2fcc07e9c7f1ab7c5cb13fdb9d3b7885cc2489055ff6db",
        remedy="it is one fixed draw and nobody needs it, for moving_ball(seed=...) generates the data.",
    ),
    "air_quality_italy/air_quality_uci.csv": File(
        sha256="b78a2eacfbc23a76247a48c590553c7c0ac7233c9e6b94b06ee1ea3ee2af1574",
        contents="bee30b6650e50563e69e1b6c5100612094941a8c930d254144e9e7f540217769",
        remedy="take AirQualityUCI.csv from https://archive.ics.uci.edu/dataset/360/air+quality and write its 9357 "
        "rows as timestamp (2004-03-10T18:00), hour (0, 1, ...) and the 13 values in order, with -200 left blank.",
    ),
    "physionet2012/physionet2012_set_a_hourly.npz": File(
        sha256="a81a9e3feb70caed4bee65e9d3259cf551532d020a663fde4b7939f15fa54988",
        contents="cb58bfc15af2f75beb656ad356b5f4a432efff28f0d7834a429cba46bb8be9dd",
        remedy="take set-a and Outcomes-a.txt from https://physionet.org/content/challenge-2012/1.0.0/ and save hourly "
        "means as x (4000, 48, 37) with variables, static, static_names, record_id and in_hospital_death.",
    ),
    "era5_uk_t2m/era5_t2m_uk_2019_03.npz": File(
        sha256="9fda3e8c77e8b21cbc047fb09fda4430d820c99400685a1cd987b8c1a2d3282e",
        contents="065bfed110e38e2958f1cd21df4fe20e8bda1ba340d24ea740182f1ddd17e14f",
        remedy='decode xarray.tutorial.open_dataset("era5-2mt-2019-03-uk.grib") and save t2m_kelvin, lat, lon and '
        "time_hours_since_2019_03_01.",
    ),
    "mob_spatial_transcriptomics/mob_rep11.npz": File(
        sha256="86ded0bf2d7b3e8834d0a290dff287a9dd0aef0970ccc98d4cbd6570234e9146",
        contents="3fcfce030afe042b886ffc0a9328e53ba56ddd293cf44ee32f78c2ea88cedc30",
        remedy="take Rep11_MOB_0 and MOB_sample_info from Bioconductor's spatialDE and save counts, genes, spots, xy "
        "and total_counts of the 260 spots that have coordinates.",
    ),
}

DATASETS: dict[str, Dataset] = {
    "moving-ball": Dataset("Videos of a ball on a Gaussian-process path", "generated", "gpbae.data.moving_ball()"),
    "rotated-mnist": Dataset(
        "400 handwritten threes at 16 angles, one angle held out",
        "CC BY-SA 3.0",
        "https://github.com/ratschlab/SVGP-VAE",
        ("mnist/mnist_threes.npz",),
    ),
    "eeg": Dataset(
        "7 electrodes over one second, 3 of them cut short",
        "CC BY 4.0",
        "https://archive.ics.uci.edu/dataset/121/eeg+database",
        ("eeg/co2c0000337.rd.000.gz",),
    ),
    "jura": Dataset(
        "Heavy metals in topsoil at 359 sites, cadmium hidden at 100",
        "GPL (with R's gstat)",
        "https://r-spatial.github.io/gstat/reference/jura.html",
        ("jura/jura_prediction_259.csv", "jura/jura_validation_100.csv"),
    ),
    "air-quality": Dataset(
        "Hourly gas sensors in an Italian city, with gaps",
        "CC BY 4.0",
        "https://archive.ics.uci.edu/dataset/360/air+quality",
        ("air_quality_italy/air_quality_uci.csv",),
    ),
    "physionet2012": Dataset(
        "48 hours of 4000 intensive-care patients, 80 % missing",
        "ODC-By 1.0",
        "https://physionet.org/content/challenge-2012/1.0.0/",
        ("physionet2012/physionet2012_set_a_hourly.npz",),
    ),
    "era5-uk": Dataset(
        "Hourly temperature maps of the British Isles, March 2019",
        "Copernicus, free with credit",
        "https://cds.climate.copernicus.eu",
        ("era5_uk_t2m/era5_t2m_uk_2019_03.npz",),
    ),
    "mouse-olfactory-bulb": Dataset(
        "Counts of 16218 genes at 260 places (Ståhl et al. 2016)",
        "cite the authors",
        "https://www.spatialresearch.org",
        ("mob_spatial_transcriptomics/mob_rep11.npz",),
    ),
}
