"""Programs that were compiled before: the command line keeps them for the next fit of the same shape.

JAX keeps them by itself where its settings say so; here is where, for which machine, and how many.  Set
GPBAE_COMPILED=off to do without, or JAX_COMPILATION_CACHE_DIR to a folder of your own, which is then left alone.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

SWITCH = "GPBAE_COMPILED"
SETTINGS = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "TF_CPP_MIN_LOG_LEVEL")
"""What tells JAX where and what to keep, and jaxlib not to complain."""
MOST_BYTES = 2**30
CPUINFO = Path("/proc/cpuinfo")
COMPLAINTS = tuple(f"Error {what} persistent compilation cache" for what in ("reading", "writing"))


def remember() -> None:
    """Tell JAX, which must not be imported yet, where to keep what it compiles.

    A folder holds programs of one processor and one jaxlib only, so that none can be loaded that this processor does
    not know; jaxlib's complaints, which take tuning hints for missing instructions (jax#38445), are then untrue, and
    silenced.  Where the processor cannot be told, nothing is kept.
    """
    told = os.environ.get(SWITCH, "").lower() in ("off", "0", "no") or "JAX_COMPILATION_CACHE_DIR" in os.environ
    if told or "jax" in sys.modules or (name := _machine()) is None:
        return
    try:
        folder = _root() / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_room(folder)
    except (OSError, RuntimeError):  # a home that cannot be written, or none: every fit compiles
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def stumbled(warning: str) -> bool:
    """Whether JAX warns that it could not read or write a program of this folder.  All are then thrown away, for it
    would stumble over a damaged one in every fit."""
    folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR", ""))
    if not warning.startswith(COMPLAINTS) or folder.name != _machine():
        return False
    for path in folder.glob("*-cache"):
        with contextlib.suppress(OSError):
            path.unlink()
    return True


def _root() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpbae" / "compiled"


def _machine() -> str | None:
    """A name for jaxlib and the instructions of this processor; None where the system does not say."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
        told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
        version = importlib.metadata.version("jaxlib")
    except (OSError, importlib.metadata.PackageNotFoundError):
        return None
    said = "\n".join([platform.machine(), *told])
    return f"{version}-{hashlib.sha256(said.encode()).hexdigest()[:16]}" if told else None


def _make_room(folder: Path) -> None:
    """Beyond `MOST_BYTES` the programs that were read longest ago go, until half of it is left."""
    found = [(path.stat(), path) for path in folder.glob("*-cache")]
    kept = sorted((max(status.st_atime, status.st_mtime), status.st_size, path) for status, path in found)
    total = sum(size for _, size, _ in kept)
    if total <= MOST_BYTES:
        return
    for _, size, path in kept:
        path.unlink(missing_ok=True)
        total -= size
        if total <= MOST_BYTES // 2:
            return
