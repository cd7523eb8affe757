"""Several processes, one run: each takes some of the chains, or of the rows, and all know the whole result.

Every process runs the same script.  Between blocks each holds the state of all chains as arrays of its own, so that
what Python does there is the same everywhere and needs nobody; a block runs on the mesh of all processes, chains along
one axis and rows along the other.
"""

import atexit
import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from gpbae.errors import GpbaeError, InputError
from gpbae.processes import devices, lookout
from gpbae.processes.devices import CHAIN, ROWS

SECONDS_TO_MEET = 300
_mesh: Mesh | None = None
_lookout: lookout.Lookout | None = None
_witness: lookout.Witness | None = None


def initialise(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None,
    row_shards: int = 1,
) -> None:  # fmt: skip
    """Join the other processes of a job; before anything is computed, in every process.

    Without arguments, what JAX finds out about the job counts (Slurm, Kubernetes, Open MPI), or
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID.  `row_shards` processes share the rows of a chain; by
    default none do, and the processes share the chains.
    """
    global _mesh, _lookout, _witness
    jax.config.update("jax_enable_preemption_service", False)  # it would keep SIGTERM for itself
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", 1)  # two to a process hang with some releases of JAX
    try:
        jax.distributed.initialize(
            coordinator, _given(num_processes, "JAX_NUM_PROCESSES"), _given(process_id, "JAX_PROCESS_ID"),
            initialization_timeout=SECONDS_TO_MEET,
        )  # fmt: skip
    except (ValueError, TypeError, RuntimeError) as problem:
        raise GpbaeError(
            f"The processes could not meet: {problem}. Start them by srun or as a Kubernetes job, or set "
            "JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID in each."
        ) from problem
    if jax.process_count() % row_shards:
        raise InputError(f"row_shards must divide the {jax.process_count()} processes; got {row_shards}.")
    everyone = sorted(jax.devices(), key=lambda device: device.process_index)
    if len(everyone) != jax.process_count():
        raise GpbaeError(
            f"There must be one device for each process; got {len(everyone)} devices and {jax.process_count()} "
            "processes. Start a process for each device."
        )
    _mesh = Mesh(np.array(everyone).reshape(-1, row_shards), (CHAIN, ROWS))
    _lookout = _meet(coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS"))
    _witness = lookout.Witness(_sentence("was ended from outside, or by JAX because another was"))
    atexit.register(_leave)  # before JAX's own end, which waits for the others


def _given(value: int | None, name: str) -> int | None:
    try:
        return int(os.environ[name]) if value is None and name in os.environ else value
    except ValueError:
        raise InputError(f"{name} must be a whole number; got {os.environ[name]!r}.") from None


def is_on() -> bool:
    """Whether this process is one of several."""
    return _mesh is not None


def number() -> int:
    """Which process this is; the first one writes."""
    return jax.process_index() if is_on() else 0


def check_chains(num_chains: int) -> None:
    shares = 1 if _mesh is None else _mesh.shape[CHAIN]
    if num_chains % shares:
        raise InputError(
            f"Chains must be shared evenly; got {num_chains} chains for {shares} shares of the processes. Pass "
            f"num_chains={-(-num_chains // shares) * shares}."
        )


# What processes tell each other, outside of blocks.


def gathered(array: np.ndarray) -> np.ndarray:
    """One array of every process, in the order of their numbers."""
    from jax.experimental import multihost_utils

    with _together():
        return np.asarray(multihost_utils.process_allgather(np.asarray(array)[None], tiled=True))


def from_first(content: bytes | None) -> bytes | None:
    """What the first process has, in all of them."""
    from jax.experimental import multihost_utils

    tell = functools.partial(multihost_utils.broadcast_one_to_all, is_source=number() == 0)
    with _together():
        size = int(tell(np.asarray(-1 if content is None else len(content))))
        if size < 0:
            return None
        own = np.frombuffer(content, np.uint8) if number() == 0 and content else np.zeros(size, np.uint8)
        return np.asarray(tell(own), np.uint8).tobytes()


def check_same(digest: bytes, what: str) -> None:
    """Refuse to go on where a process has something else."""
    everyones = gathered(np.frombuffer(digest, np.uint8))
    if odd := np.flatnonzero((everyones != everyones[0]).any(axis=1)).tolist():
        raise InputError(
            f"All processes must have the same {what}; process {odd[0]} has another one than process 0. Start the same "
            "command on the same file in every process."
        )


# Blocks.


def together(compiled: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A compiled function of arrays that every process has, run by all of them; its result is what each has then."""

    @functools.wraps(compiled)
    def run(*arguments: Any) -> PyTree:
        if _mesh is None:
            return compiled(*arguments)
        with _together(), devices.everyone(_mesh):
            return jax.tree.map(_own, jax.block_until_ready(compiled(*jax.tree.map(_free, arguments))))

    return run


def _own(leaf: Any) -> Any:
    """This process's copy of what all have."""
    return _free(leaf.addressable_data(0)) if isinstance(leaf, jax.Array) else leaf


def _free(leaf: Any) -> Any:
    """The same array on no device in particular, which JAX then takes to be the same in every process."""
    if not isinstance(leaf, jax.Array):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_free(jax.random.key_data(leaf)))
    return jnp.asarray(np.asarray(leaf))


# Who is lost.


def _meet(coordinator: str | None) -> lookout.Lookout:
    """Connections to the first process; without them a lost process is found when the next block ends."""
    listener = None
    host = None if coordinator is None else coordinator.rsplit(":", 1)[0].strip("[]")
    if number() == 0:
        listener = lookout.Listener(host if host in ("127.0.0.1", "localhost") else "")
        names = "\n".join([str(listener.port), listener.secret.decode(), *_names(host)])
        from_first(names.encode())
        connections = listener.accept(jax.process_count(), 30.0)
    else:
        port, secret, *hosts = (from_first(None) or b"").decode().split("\n")
        connections = lookout.connect(hosts, int(port), secret.encode(), number(), 30.0)
    return lookout.Lookout(connections, _end)


def _names(host: str | None) -> list[str]:
    """Where this machine may be reached."""
    own = socket.gethostname()
    with contextlib.suppress(OSError):
        addresses = [str(found[4][0]) for found in socket.getaddrinfo(own, None, type=socket.SOCK_STREAM)]
        return [*([] if host is None else [host]), own, *dict.fromkeys(addresses)]
    return [own] if host is None else [host, own]


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """A call that needs the others: a lost one ends this process with a sentence, whoever notices first."""
    try:
        with _lookout.needing() if _lookout is not None else contextlib.nullcontext():
            yield
    except (RuntimeError, ValueError) as problem:
        if "Gloo" not in str(problem) and "coordination" not in str(problem).lower():
            raise
        if _lookout is not None:
            with _lookout.needing():
                time.sleep(lookout.TICK * 2 + lookout.GRACE)
        _end(None)


def _end(lost: int | None) -> None:
    if _witness is not None:
        _witness.dismiss()
    who = "another process" if lost is None else f"process {lost} of {jax.process_count()}"
    lookout.leave(_sentence(f"cannot go on: {who} ended or fell silent"))


def _sentence(what: str) -> str:
    return (
        f"Error: Process {number()} {what}. Start all of them again with the same command: with --out or run_dir the "
        "run goes on from its last checkpoint."
    )


def _leave() -> None:
    """Those who still need this process are to know that it leaves."""
    if _lookout is not None:
        _lookout.close()
    if _witness is not None:
        _witness.dismiss()
