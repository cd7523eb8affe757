"""Chains over devices: accelerators, or cores of a processor that JAX was told to count as devices.

Chains do not communicate, so each device runs its share by the same program as one device would run all.
"""

import contextlib
import os
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import PyTree

AXIS = "chain"
MOST_CORES = 16


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
    """The devices that share the chains; None if that is one."""
    count = share(num_chains, jax.local_device_count())
    return None if count == 1 else Mesh(np.array(jax.local_devices()[:count]), (AXIS,))


def shared(all_chains: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of trees that lead with the chain axis, run on every device for the chains it holds."""

    def run(*arguments: PyTree) -> PyTree:
        mesh = mesh_of(jax.tree.leaves(arguments)[0].shape[0])
        if mesh is None:
            return all_chains(*arguments)
        spec = PartitionSpec(AXIS)
        return jax.shard_map(all_chains, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(*arguments)

    return run
