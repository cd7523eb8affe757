"""Kinds of array that kernels take and give, and the numbers behind their leaves: checked, as logs, as text."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Real

from gpbae.errors import InputError

Scalar = Float[Array, ""]
Point = Float[Array, " D"]
Points = Float[Array, "N D"]
Others = Float[Array, "M D"]
Gram = Float[Array, "N M"]
Diagonal = Float[Array, " N"]
Elementwise = Float[Array, "*shape"]
Rows = Real[Array | np.ndarray, "N D"]
Number = float | int | np.floating
Positive = Number | Sequence[Number] | np.ndarray


def log_scalar(name: str, value: Number) -> Scalar:
    if np.ndim(value) > 0 or not 0.0 < value < np.inf:
        raise InputError(f"{name} must be one positive number, got {value}.")
    return jnp.asarray(np.log(value), float)


def log_vector(name: str, value: Positive) -> Float[Array, " L"]:
    return jnp.asarray(np.log(positive_vector(name, value)))


def positive_vector(name: str, value: Positive) -> Float[Array, " L"]:
    """Shape (1,) for a number, (D,) for one value per column."""
    values = np.atleast_1d(np.asarray(value, float))
    if values.ndim > 1 or not np.all((values > 0.0) & (values < np.inf)):
        raise InputError(f"{name} must be a positive number, or a positive one per column; got {value}.")
    return jnp.asarray(values)


def arguments(kernel: Any) -> Iterator[str]:
    """The constructor's arguments as text, on their natural scale; what is None is left out."""
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        if value is not None:
            yield f"{field.name.removeprefix('log_')}={_show(value, field.name.startswith('log_'))}"
        if value is not None and field.name == "log_period":
            yield "learn_period=True"


def _show(value: Any, is_log: bool) -> str:
    if isinstance(value, bool | Tracer) or not isinstance(value, int | np.ndarray | jax.Array):
        return "..."
    with np.errstate(over="ignore"):
        values = np.exp(value) if is_log else np.asarray(value)
    if values.size > 8 or values.ndim > 1:
        return f"<array of shape {values.shape}>"
    texts = [f"{v:.6g}" for v in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
