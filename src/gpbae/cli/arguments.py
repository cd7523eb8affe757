"""The arguments of a model as a user writes them: a TOML file, or NAME=value on the command line."""

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbae import baselines, estimators
from gpbae.cli import expressions
from gpbae.errors import InputError
from gpbae.saving import settings

LONG_TABLE = 400
NOISE_FLOOR = 0.05
"""In standard deviations of a column.  Columns that follow from each other, as absolute humidity does from temperature
and relative humidity, would be copied to a noise of 0.005, and chains between such walls hardly move."""
CHOSEN = ("transform", "likelihood", "latent_dim")
"""What `suited` chooses by the cells of a table."""
WRITTEN = ("kernel", "likelihood", "decoder", "encoder", "weight_prior")


def read(path: Path | None) -> dict[str, Any]:
    """A file of arguments; the config.toml of a run is one too."""
    if path is None:
        return {}
    found = _toml(path)
    if {"class", "arguments"} <= set(found):
        return settings.read(path.read_bytes(), path)[0].get_params()
    return found


def model_named(path: Path) -> str | None:
    """The class whose arguments a file holds, if it says so."""
    return _toml(path).get("class")


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"Expected {path} to be TOML such as `num_inducing = 64`; got: {error}.") from error


def pairs(texts: Sequence[str]) -> dict[str, Any]:
    """NAME=value, the value as in TOML; a bare word is text."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set takes NAME=value, such as num_chains=2; got {text!r}.")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
    return found


def suited(name: str, y: Any) -> dict[str, Any]:
    """What a table is fitted with unless the user says otherwise: logarithms of skewed columns, a Student-t noise
    for each column, and beyond a few hundred rows a number of sweeps that ends in minutes.  Baselines are left as they
    are."""
    if not hasattr(estimators, name):
        return {}
    kinds = _kinds(y)
    real = [column for column, kind in kinds.items() if kind == "real"]
    found: dict[str, Any] = {"transform": "auto"} if real else {}
    if len(real) > 1:
        found["likelihood"] = _with_noises([column for column in kinds if column not in real])
    if real and len(kinds) > 3 and set(kinds.values()) <= {"real", "count"}:
        found["latent_dim"] = _num_latents(y)
    return found | (short_run(len(y)) if len(y) > LONG_TABLE else {})


def once_more(model: Any, given: Sequence[str], y: Any) -> Any:
    """The same model for another table, with what the user has `given` as it is and what suits that table for the rest:
    for the cells that are left where some are hidden, of which nothing may be known that they do not say."""
    cls = type(model)
    open_to_choice = {name: value for name, value in cls().get_params().items() if name in CHOSEN}
    chosen = open_to_choice | suited(cls.__name__, y)
    return cls(**(model.get_params() | {name: value for name, value in chosen.items() if name not in given}))


def short_run(num_rows: int) -> dict[str, int]:
    """Lengths of a run that ends in minutes: what a sweep costs grows with the rows, so there are fewer of them, down
    to a first look.  Steps of the MAP phase are a thirtieth of a sweep, and bring a chain farther at first."""
    budget = {"num_map_steps": (3_000_000, 500, 2000), "num_warmup": (450_000, 60, 300), "thinning": (15_000, 2, 10)}
    return {name: min(max(rows // num_rows, least), most) for name, (rows, least, most) in budget.items()} | {
        "num_samples": 25
    }


def _kinds(y: Any) -> dict[str, str]:
    """What every column would be taken for, by its name: counts and flags with gaps are floats too."""
    from gpbae.tabular import choice, tables

    seen = tables.observations(y)
    if not seen.mask.any():
        return {}
    return dict(zip(map(str, y.columns), choice.choose("auto", seen)[0].kinds(seen.values.shape[1]), strict=True))


def _with_noises(others: list[str]) -> Any:
    """Real columns with a noise each, whose tails may be heavy: what latents cannot say of a column is seldom normal.
    The others with what suits them, which must not cost the real ones theirs."""
    from gpbae.likelihoods import Mixed, StudentT

    noisy = StudentT(per_column=True, floor=NOISE_FLOOR)
    return Mixed(dict.fromkeys(others, "auto"), default=noisy) if others else noisy


def likelihoods_in_words(asked: Any, y: Any) -> str | None:
    """Which likelihood goes with which columns, for a table that is not Gaussian throughout; None where it is."""
    from gpbae.tabular import choice, tables

    seen = tables.observations(y)
    words = choice.in_words(choice.choose(asked, seen)[1])
    if words == "gaussian" or not seen.mask.any():
        return None
    return f"Likelihoods: {words}. Change them with --set likelihood=…"


def _num_latents(y: Any) -> int:
    """As many latents as principal components explain 93 % of a table of numbers: three more points than the library's
    default, which cost little where the sweeps are few."""
    from gpbae.sampling import start
    from gpbae.tabular import tables

    seen = tables.observations(y)
    scaled = tables.fit_scaler(seen.values, seen.mask, True).forward(seen.values)
    return start.choose_latent_dim(np.where(seen.mask, scaled, 0.0), seen.mask, share=0.93)


def estimator(name: str, arguments: dict[str, Any]) -> Any:
    """The model of that name with these arguments; kernels and the like may be written as text."""
    cls = getattr(estimators if hasattr(estimators, name) else baselines, name)
    for key in arguments:
        if key not in cls._names():
            close = difflib.get_close_matches(key, cls._names(), n=1)
            hint = f"Did you mean {close[0]}?" if close else f"It takes {', '.join(cls._names())}."
            if key in estimators.SGPBAE._names() and not issubclass(cls, estimators.BAE):
                hint = "It is for models that are sampled, such as sgp-bae; this one is optimised, so leave it out."
            raise InputError(f"{name} has no argument {key!r}. {hint}")
    return cls().set_params(**{key: _value(key, value) for key, value in arguments.items()})


def _value(key: str, value: Any) -> Any:
    if key not in WRITTEN:
        return value
    if isinstance(value, list):
        return [_value(key, v) for v in value]
    if isinstance(value, dict):
        return {name: _value(key, v) for name, v in value.items()}
    return expressions.read(value) if expressions.looks_like_one(value) else value
