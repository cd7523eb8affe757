"""Chains over devices: accelerators, or cores of a processor that JAX was told to count as devices.

Chains do not communicate, so each device runs its share by the same program as one device would run all.  Where several
processes share the rows of a chain (`distributed`), the compiler adds up what each has of a sum over rows.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

CHAIN, ROWS = "chain", "data"
MOST_CORES = 16
_everyone: Mesh | None = None


def use_cores() -> None:
    """Count every core as a device, so that chains run side by side; too late once JAX has started, and left alone
    where JAX was told a number (JAX_NUM_CPU_DEVICES, XLA_FLAGS).  Draws are the same on any number of devices."""
    said = jax.config.jax_num_cpu_devices >= 0  # pyright: ignore[reportAttributeAccessIssue]
    if said or "host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    cores = int(os.environ.get("NPROC") or len(os.sched_getaffinity(0)))
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", min(cores, MOST_CORES))


def share(num_chains: int, num_devices: int) -> int:
    """As many devices as divide the chains evenly."""
    return next(n for n in range(min(num_chains, num_devices), 0, -1) if num_chains % n == 0)


def mesh_of(num_chains: int) -> Mesh | None:
    """Those that share the chains: all processes within `everyone`, else the devices of this one; None if that is
    one."""
    if _everyone is not None:
        return _everyone
    count = share(num_chains, jax.local_device_count())
    return None if count == 1 else Mesh(np.array(jax.local_devices()[:count]), (CHAIN,))


@contextlib.contextmanager
def everyone(mesh: Mesh) -> Iterator[None]:
    """What is traced within is for all processes of a mesh, with axes of chains and of rows."""
    global _everyone
    _everyone = mesh
    try:
        yield
    finally:
        _everyone = None


def shared(all_chains: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of trees that lead with the chain axis, run on every device for the chains it holds."""

    def run(*arguments: PyTree) -> PyTree:
        mesh = mesh_of(jax.tree.leaves(arguments)[0].shape[0])
        if mesh is None:
            return all_chains(*arguments)
        own = PartitionSpec(CHAIN)
        axes = {CHAIN} if mesh.shape.get(ROWS, 1) > 1 else set(mesh.axis_names)
        split = jax.shard_map(all_chains, mesh=mesh, in_specs=own, out_specs=own, axis_names=axes, check_vma=False)
        found = split(*arguments)
        return found if mesh is not _everyone else _constrained(found, mesh, PartitionSpec())

    return run


def apart(rows: PyTree) -> PyTree:
    """Arrays that lead with rows, each process that shares a chain's rows with its part; elsewhere as they are."""
    if _everyone is None or _everyone.shape[ROWS] == 1:
        return rows
    here = jax.sharding.get_abstract_mesh()  # within the share of a chain its axis is not to be seen
    return _constrained(rows, _everyone if here.empty else here, PartitionSpec(ROWS))


def _constrained(tree: PyTree, mesh, spec: PartitionSpec) -> PyTree:
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, spec))
