"""Tables with gaps: EEG and Jura, whose gaps were made and can be scored, and air quality, whose gaps are its own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gpbae.data.registry import locate
from gpbae.errors import InputError

if TYPE_CHECKING:
    import pandas

EEG_CHANNELS = ("F3", "F4", "F5", "F6", "FZ", "F1", "F2")
EEG_HIDDEN = ("FZ", "F1", "F2")
EEG_RATE = 256
EEG_LAST_SEEN = 156  # the hidden channels stop here, the other four go on to 256


@dataclass(frozen=True)
class Table:
    """A table and the roles of its columns."""

    train: "pandas.DataFrame"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def x(self) -> "pandas.DataFrame":
        """Input columns, as `fit` takes them."""
        return self.train.filter(self.inputs)

    @property
    def y(self) -> "pandas.DataFrame":
        """Output columns, NaN where unknown."""
        return self.train.filter(self.outputs)


@dataclass(frozen=True)
class HeldOutTable(Table):
    """A table some of whose cells were hidden: `test` lists them with their inputs, `truth` has them in place.

    `truth` has the shape of `y` and is NaN wherever nothing was hidden, so that it meets an imputation cell by cell.
    """

    test: "pandas.DataFrame"
    truth: "pandas.DataFrame"


def eeg() -> HeldOutTable:
    """One second of seven frontal electrodes (µV); three are hidden after sample 156, the split of GPAR and SGP-VAE."""
    import pandas as pd

    rows = pd.read_csv(
        locate("eeg/co2c0000337.rd.000.gz"),
        sep=r"\s+",
        comment="#",
        names=["trial", "channel", "sample", "value"],
    )
    wide = rows.pivot(index="sample", columns="channel", values="value")
    time = wide.index.to_numpy() / EEG_RATE
    full = pd.DataFrame({"time": time} | {name: wide[name].to_numpy() for name in EEG_CHANNELS})
    hidden = np.arange(len(full)) >= EEG_LAST_SEEN
    return _hide(full, hidden, EEG_HIDDEN, inputs=("time",), outputs=EEG_CHANNELS)


def jura(soil: bool = False) -> HeldOutTable:
    """Heavy metals (mg/kg) in Swiss topsoil; cadmium is hidden at the 100 validation sites (Goovaerts 1997).

    With `soil`, rock type and land use, which the survey noted at every site, are inputs too, one column per kind.
    """
    import pandas as pd

    keys = ("jura/jura_prediction_259.csv", "jura/jura_validation_100.csv")
    prediction, validation = (pd.read_csv(locate(key)) for key in keys)
    full = pd.concat([prediction, validation], ignore_index=True)
    hidden = np.arange(len(full)) >= len(prediction)
    kinds = pd.get_dummies(full[["Rock", "Landuse"]].astype(str), dtype=float)
    inputs = ("Xloc", "Yloc", *(kinds.columns if soil else ()))
    return _hide(full.join(kinds), hidden, ("Cd",), inputs=inputs, outputs=("Ni", "Zn", "Cd"))


def air_quality() -> Table:
    """9357 hours of gas sensors in an Italian city (De Vito), 3.9 % to 90 % of a column missing by itself."""
    import pandas as pd

    path = locate("air_quality_italy/air_quality_uci.csv")
    train = pd.read_csv(path, parse_dates=["timestamp"])
    outputs = tuple(name for name in train.columns if name not in ("timestamp", "hour"))
    return Table(train=train.astype({"hour": float}), inputs=("hour",), outputs=outputs)


def score_eeg(mean: Any, var: Any, truth: Any) -> dict[str, float]:
    """SMSE and NLL (µV) per hidden column, then averaged over columns, as in the SGP-VAE and SGP-BAE papers.

    SMSE is the squared error over that of the *test* mean; NLL that of a Gaussian with predictive mean and variance.
    Cells where `truth` is NaN do not count.
    """
    columns = _hidden_columns(mean, var, truth)
    smse = [np.mean((m - y) ** 2) / np.mean((np.mean(y) - y) ** 2) for m, _, y in columns]
    return {"smse": float(np.mean(smse)), "nll": _gaussian_nll(columns)}


def score_jura(mean: Any, var: Any, truth: Any) -> dict[str, float]:
    """MAE and NLL on cadmium in mg/kg; cells where `truth` is NaN do not count."""
    columns = _hidden_columns(mean, var, truth)
    mae = [np.mean(np.abs(m - y)) for m, _, y in columns]
    return {"mae": float(np.mean(mae)), "nll": _gaussian_nll(columns)}


def _hide(
    full: "pandas.DataFrame",
    rows: np.ndarray,
    columns: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> HeldOutTable:
    """Blank the cells rows × columns, and keep what was there."""
    cells = rows[:, None] & np.isin(outputs, columns)
    y = full.filter(outputs)
    return HeldOutTable(
        train=full.filter(inputs).join(y.mask(cells)),
        inputs=inputs,
        outputs=outputs,
        test=full.filter((*inputs, *columns)).iloc[np.flatnonzero(rows)].reset_index(drop=True),
        truth=y.where(cells),
    )


Column = tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]


def _hidden_columns(mean: Any, var: Any, truth: Any) -> list[Column]:
    """Mean, variance and truth of the scored cells, column by column."""
    m, v, y = (np.asarray(a, float) for a in (mean, var, truth))
    if not m.shape == v.shape == y.shape:
        raise InputError(f"Mean, variance and truth must have one shape; got {m.shape}, {v.shape} and {y.shape}.")
    m, v, y = (a.reshape(len(a), -1).T for a in (m, v, y))
    known = np.isfinite(y)
    if not known.any():
        raise InputError("Expected truth with at least one hidden cell; got only NaN, so pass the dataset's `truth`.")
    if not (np.isfinite(m[known]).all() and (v[known] > 0).all()):
        raise InputError("Expected finite means and positive variances at the hidden cells; check the fit first.")
    return [(m[c, k], v[c, k], y[c, k]) for c, k in enumerate(known) if k.any()]


def _gaussian_nll(columns: list[Column]) -> float:
    return float(np.mean([np.mean(0.5 * np.log(2 * np.pi * v) + 0.5 * (m - y) ** 2 / v) for m, v, y in columns]))
