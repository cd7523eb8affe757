"""Larger real datasets for users' own questions: patients over time, weather maps, gene counts over a tissue."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer

from gpbae.data.registry import locate
from gpbae.errors import InputError


@dataclass(frozen=True)
class Patients:
    """Hourly measurements of many patients, stacked; `groups` is the record id of a row's patient.

    `static` and `died` have one row per patient, in the order of `record_id`.
    """

    x: Float[np.ndarray, "N 1"]
    y: Float[np.ndarray, "N P"]
    groups: Integer[np.ndarray, " N"]
    variables: tuple[str, ...]
    record_id: Integer[np.ndarray, " G"]
    static: Float[np.ndarray, "G A"]
    static_names: tuple[str, ...]
    died: Integer[np.ndarray, " G"]


@dataclass(frozen=True)
class TemperatureMaps:
    """Temperature (K) on a grid of latitudes and longitudes; x counts hours since 1 March 2019."""

    x: Float[np.ndarray, "N 1"]
    y: Float[np.ndarray, "N lat lon"]
    latitude: Float[np.ndarray, " lat"]
    longitude: Float[np.ndarray, " lon"]


@dataclass(frozen=True)
class GeneCounts:
    """Counts of genes at places of a tissue section."""

    x: Float[np.ndarray, "N 2"]
    y: Integer[np.ndarray, "N P"]
    genes: tuple[str, ...]
    spots: tuple[str, ...]

    def log_normalised(self, num_genes: int = 300) -> tuple[Float[np.ndarray, "N n"], tuple[str, ...]]:
        """log(1 + counts per 10 000) of the most variable genes, and their names: a Gaussian's view of the counts."""
        if not 1 <= num_genes <= len(self.genes):
            raise InputError(f"num_genes must be between 1 and {len(self.genes)}; got {num_genes}.")
        y = np.log1p(1e4 * self.y / self.y.sum(axis=1, keepdims=True))
        chosen = np.sort(np.argsort(-y.var(axis=0), kind="stable")[:num_genes])
        return y[:, chosen], tuple(self.genes[i] for i in chosen)


def physionet2012() -> Patients:
    """PhysioNet 2012, set A: 37 variables over 48 hours of 4000 patients, 80 % missing, outliers left in."""
    a = _load("physionet2012/physionet2012_set_a_hourly.npz")
    num_patients, num_hours, num_variables = a["x"].shape
    return Patients(
        x=np.tile(np.arange(num_hours, dtype=float), num_patients)[:, None],
        y=a["x"].reshape(-1, num_variables),
        groups=np.repeat(a["record_id"], num_hours),
        variables=_names(a["variables"]),
        record_id=a["record_id"],
        static=a["static"],
        static_names=_names(a["static_names"]),
        died=a["in_hospital_death"],
    )


def era5_uk() -> TemperatureMaps:
    """ERA5 temperature over the British Isles: 744 hourly maps of 33 × 49 pixels, none missing.

    Contains modified Copernicus Climate Change Service information 2019.
    """
    a = _load("era5_uk_t2m/era5_t2m_uk_2019_03.npz")
    hours = a["time_hours_since_2019_03_01"].astype(float)[:, None]
    return TemperatureMaps(x=hours, y=a["t2m_kelvin"], latitude=a["lat"], longitude=a["lon"])


def mouse_olfactory_bulb() -> GeneCounts:
    """Spatial transcriptomics of the mouse olfactory bulb, replicate 11 (Ståhl et al. 2016)."""
    a = _load("mob_spatial_transcriptomics/mob_rep11.npz")
    return GeneCounts(x=a["xy"], y=a["counts"], genes=_names(a["genes"]), spots=_names(a["spots"]))


def _load(key: str) -> dict[str, np.ndarray]:
    with np.load(locate(key), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _names(values: np.ndarray) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
