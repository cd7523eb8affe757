"""Hyper-parameters by name: which are sampled, their prior, their values in words."""

import collections
import dataclasses
import operator
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jax.tree_util import GetAttrKey, tree_map_with_path
from jaxtyping import Array, PyTree

from gpbae import linalg
from gpbae.kernels.arrays import Scalar
from gpbae.kernels.base import AbstractKernel, Frozen, parts


def sampled(kernel: PyTree) -> PyTree:
    """The same tree with True at the leaves that are sampled, for `eqx.partition`."""
    return tree_map_with_path(lambda path, leaf: _is_sampled(_names(path)), kernel)


def hyper_log_prior(kernel: PyTree, reference: PyTree, scale: Scalar | float = 1.0) -> Scalar:
    """Σ log N(log θ; log θ_ref, sd²) over the sampled leaves, sd = scale for lengthscales and scale/2 for all else.

    Stated on the log scale on which the leaves are sampled, so it needs no Jacobian. Vectors are standard normal.
    """

    def term(path, leaf, centre):
        names = _names(path)
        if not _is_sampled(names):
            return jnp.zeros(())
        if names[-1] == "vectors":
            return jnp.sum(norm.logpdf(leaf))
        return jnp.sum(norm.logpdf(leaf, centre, scale if names[-1] == "log_lengthscale" else 0.5 * scale))

    return jax.tree.reduce(operator.add, tree_map_with_path(term, kernel, reference), jnp.zeros(()))


def describe(kernel: AbstractKernel) -> dict[str, Array]:
    """Sampled hyper-parameters on their natural scale, such as {"RBF.lengthscale": …, "RBF.variance": …}.

    A class that occurs several times is numbered, "RBF[0].lengthscale". Vectors are left out: they are known up to a
    rotation only.
    """
    return _natural_values(parts(kernel, stop=Frozen))


def explain_cholesky_failure(kernel: AbstractKernel) -> str:
    """One sentence for a covariance without a Cholesky factor: which kernel, which lengthscale, what to do."""
    values = {name: np.asarray(value) for name, value in _natural_values(parts(kernel)).items()}
    runaway = [name for name, value in values.items() if not np.all((value > 0.0) & (value < np.inf))]
    lengthscales = [(np.max(value), name) for name, value in values.items() if name.endswith(".lengthscale")]
    largest = linalg.JITTER * 10 ** (linalg.NUM_LEVELS - 1)
    start = (
        f"The covariance of {kernel!r} has no Cholesky factor even with a jitter of {largest:g} of its mean diagonal"
    )
    if runaway:
        return f"{start}, because {', '.join(runaway)} ran away: use a smaller step_size or a longer warm-up."
    if lengthscales:
        value, name = max(lengthscales)
        reason = f"the longest lengthscale, {name} = {value:.3g}, may make inputs look alike"
        return f"{start}; {reason}: use a shorter one, fewer inducing inputs, or add White(1e-3)."
    return f"{start}; it has no lengthscale and a low rank: use fewer inducing inputs, or add White(1e-3)."


def _natural_values(kernels: Iterator[AbstractKernel]) -> dict[str, Array]:
    owners = [k for k in kernels if _log_fields(k)]
    total = collections.Counter(type(k).__name__ for k in owners)
    seen, values = collections.Counter(), {}
    for k in owners:
        name = type(k).__name__
        label = f"{name}[{seen[name]}]" if total[name] > 1 else name
        seen[name] += 1
        values |= {f"{label}.{field.removeprefix('log_')}": jnp.exp(v) for field, v in _log_fields(k).items()}
    return values


def _log_fields(kernel: AbstractKernel) -> dict[str, Any]:
    fields = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)}
    return {name: value for name, value in fields.items() if name.startswith("log_") and value is not None}


def _names(path: tuple) -> list[str]:
    return [key.name for key in path if isinstance(key, GetAttrKey)]


def _is_sampled(names: list[str]) -> bool:
    return "frozen" not in names and (names[-1].startswith("log_") or names[-1] == "vectors")
