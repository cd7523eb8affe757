"""A run between two blocks as arrays and numbers, and back: all that is needed to go on as if nothing had happened.

Randomness is counter-based (keys folded with the number of the sweep), so there is no generator to save.  Trees are
kept as lists of leaves; their structure comes from the model, which is built again from the same data and arguments.
"""

from collections.abc import Callable
from pathlib import Path
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
PHASES, COUNTERS = ("start", "warm-up", "sampling"), ("phase", "block")
BY_CHAIN = ("step_sizes", "noise_shares", "stiffest", "back_offs", "dead")


TOLD_BY_CHAIN = ("log_joint", "kinetic_temperature")
"""Of an event."""


def as_told(event: dict[str, Any]) -> dict[str, Any]:
    """An event that was written down, with arrays in the place of lists."""
    return event | {name: np.array(event[name], float) for name in TOLD_BY_CHAIN if name in event}


class Snapshot(NamedTuple):
    """The chains and the gradient noise leaf by leaf; what Python knows besides; the draws so far in chunks; events."""

    arrays: Arrays
    counters: dict[str, Any]
    chunks: list[Arrays]
    history: list[dict[str, Any]]


class Moment(NamedTuple):
    """A run between two blocks, cheap to take: arrays never change, so that pointing at them is enough."""

    chains: PyTree
    noise: PyTree
    counters: dict[str, Any]
    fresh: list[tuple[PyTree, PyTree, float]]
    """Draws that are in no chunk yet."""
    kept: Arrays
    """Latents on disk that are not yet in their file."""

    def arrays(self) -> Arrays:
        """Leaves of the chains and of the gradient noise."""
        named = _leaves("chain", self.chains) | self.kept
        return named if self.noise is None else named | _leaves("noise", self.noise)

    def chunk(self) -> Arrays | None:
        return chunk_of(*map(list, zip(*self.fresh, strict=True))) if self.fresh else None


class Keeper:
    """Where a run is kept; this one keeps nothing."""

    def folder_for_latents(self) -> Path | None:
        """Where a run keeps what is too much for a checkpoint; None where nothing outlives it."""
        return None

    def has_begun(self) -> bool:
        """Is there a checkpoint?"""
        return False

    def saved(self) -> Snapshot | None:
        """Where to go on."""
        return None

    def record(self, event: dict[str, Any]) -> None:
        """An event of the run, once."""

    def mark(self) -> None:
        """The events so far belong to the checkpoint that comes next."""

    def ask_for_the_last_block(self, save: Callable[[], None]) -> None:
        """What to call, from another thread, when somebody asks the run to stop while a block is computed."""

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


def moment_of(sampler: Any) -> Moment:
    by_chain = {name: getattr(sampler, name).tolist() for name in BY_CHAIN}
    counters = {name: getattr(sampler, name) for name in COUNTERS} | by_chain
    return Moment(sampler.chains, sampler.noise, counters, list(sampler.fresh), sampler.latents.arrays())


def restore(sampler: Any, saved: Snapshot) -> None:
    """Put a sampler back where it was."""
    try:
        _check_fits(sampler, saved)
        _put_back(sampler, saved)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise problem if isinstance(problem, InputError) else _OTHER from None


def _check_fits(sampler: Any, saved: Snapshot) -> None:
    """Counters are those of such a run, and its draws are of this model, one for every block of sampling."""
    counters = saved.counters
    if set(counters) != {*COUNTERS, *BY_CHAIN} or counters["phase"] not in PHASES or type(counters["block"]) is not int:
        raise _OTHER
    if any(np.shape(counters[name]) != getattr(sampler, name).shape for name in BY_CHAIN):
        raise _OTHER
    like = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(sampler.draw())]
    for chunk in saved.chunks:
        if like != [(a.shape[:1] + a.shape[2:], a.dtype) for a in _numbered("draw", chunk)]:
            raise _OTHER
    num_draws = sum(chunk["clamped"].size for chunk in saved.chunks)
    if num_draws != (counters["block"] if counters["phase"] == "sampling" else 0):
        raise InputError(
            f"The checkpoint must hold one draw for every block of sampling; got {num_draws} draws after block "
            f"{counters['block']} of {counters['phase']}: its files are not of one moment; copy the folder again."
        )


def _put_back(sampler: Any, saved: Snapshot) -> None:
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
