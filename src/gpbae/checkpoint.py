"""A run between two blocks as arrays and numbers, and back: all that is needed to go on as if nothing had happened.

Randomness is counter-based (keys folded with the number of the sweep), so there is no generator to save.  Trees are
kept as lists of leaves; their structure comes from the model, which is built again from the same data and arguments.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gpbae.errors import InputError

Arrays = dict[str, np.ndarray]
_OTHER = InputError(
    "The checkpoint must hold the variables of this model and holds others: it was written by another release; resume "
    "it there, or begin anew in another folder."
)
COUNTERS = ("phase", "block")
BY_CHAIN = ("step_sizes", "noise_shares", "stiffest", "back_offs", "dead")


class Snapshot(NamedTuple):
    """The chains and the gradient noise leaf by leaf; what Python knows besides; the draws so far in chunks; events."""

    arrays: Arrays
    counters: dict[str, Any]
    chunks: list[Arrays]
    history: list[dict[str, Any]]


class Keeper:
    """Where a run is kept; this one keeps nothing."""

    def has_begun(self) -> bool:
        """Is there a checkpoint?"""
        return False

    def saved(self) -> Snapshot | None:
        """Where to go on."""
        return None

    def record(self, event: dict[str, Any]) -> None:
        """An event of the run, once."""

    def is_due(self) -> bool:
        """Asked after every block: is it time for a checkpoint?"""
        return False

    def keep(self, arrays: Arrays, counters: dict[str, Any], chunk: Arrays | None) -> None:
        """A checkpoint, with the draws since the last one."""

    def is_stopping(self) -> bool:
        """Has somebody asked the run to stop?"""
        return False

    def stop(self, where: str) -> None:
        """Raise, and say how to go on."""

    def finish(self, model: Any) -> None:
        """The run is over."""


def arrays_of(sampler: Any) -> Arrays:
    """Leaves of the chains and of the gradient noise."""
    named = _leaves("chain", sampler.chains)
    return named if sampler.noise is None else named | _leaves("noise", sampler.noise)


def counters_of(sampler: Any) -> dict[str, Any]:
    by_chain = {name: getattr(sampler, name).tolist() for name in BY_CHAIN}
    return {name: getattr(sampler, name) for name in COUNTERS} | by_chain


def restore(sampler: Any, saved: Snapshot) -> None:
    """Put a sampler back where it was."""
    if set(saved.counters) != {*COUNTERS, *BY_CHAIN}:
        raise _OTHER
    for name in COUNTERS:
        setattr(sampler, name, saved.counters[name])
    for name in BY_CHAIN:
        setattr(sampler, name, np.array(saved.counters[name], getattr(sampler, name).dtype))
    sampler.chains = _tree("chain", saved.arrays, sampler.chains)
    if any(name.startswith("noise") for name in saved.arrays):
        structure = jax.tree.structure(sampler.chains.sampler.position)
        sampler.noise = jax.tree.unflatten(structure, [jnp.asarray(a) for a in _numbered("noise", saved.arrays)])
    sampler.history = [*saved.history]
    sampler.chunks = [*saved.chunks]


def chunk_of(draws: list[PyTree], kinetic: list[PyTree], clamped: list[float]) -> Arrays:
    """Draws and their kinetic temperatures stacked along a second axis, (chain, draw, ...)."""
    stack = lambda trees: jax.tree.map(lambda *a: np.stack(a, axis=1), *trees)  # noqa: E731
    return _leaves("draw", stack(draws)) | _leaves("kinetic", stack(kinetic)) | {"clamped": np.array(clamped)}


def join(chunks: list[Arrays], draw: PyTree, kinetic: PyTree) -> tuple[PyTree, PyTree, np.ndarray]:
    """All draws, all kinetic temperatures, all shares of clamped noise, in the structure of the given trees."""

    def whole(kind, like):
        columns = zip(*(_numbered(kind, chunk) for chunk in chunks), strict=True)
        leaves = [np.concatenate(column, axis=1) for column in columns]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    return whole("draw", draw), whole("kinetic", kinetic), np.concatenate([chunk["clamped"] for chunk in chunks])


def _leaves(kind: str, tree: PyTree) -> Arrays:
    return {f"{kind}.{i}": np.ascontiguousarray(_data(leaf)) for i, leaf in enumerate(jax.tree.leaves(tree))}


def _data(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def _numbered(kind: str, arrays: Arrays) -> list[np.ndarray]:
    count = sum(name.startswith(f"{kind}.") for name in arrays)
    return [arrays[f"{kind}.{i}"] for i in range(count)]


def _tree(kind: str, arrays: Arrays, like: PyTree) -> PyTree:
    """Leaves in the place of those of a tree, if they fit."""
    leaves, structure = jax.tree.flatten(like)
    found = _numbered(kind, arrays)
    shapes = [(_data(leaf).shape, _data(leaf).dtype) for leaf in leaves]
    if shapes != [(a.shape, a.dtype) for a in found]:
        raise _OTHER
    keyed = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    values = [
        jax.random.wrap_key_data(jnp.asarray(a)) if is_key else jnp.asarray(a)
        for a, is_key in zip(found, keyed, strict=True)
    ]
    return jax.tree.unflatten(structure, values)
