"""What was measured on, and with which versions."""

import importlib.metadata
import os
import platform
import time
from pathlib import Path

from gpbae import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "optax")


def facts() -> list[tuple[str, str]]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    return [
        ("measured", time.strftime("%Y-%m-%d %H:%M %Z")),
        ("processor", _processor()),
        ("cores this process may use", str(cores)),
        ("memory", _memory()),
        ("load in the last 1, 5 and 15 minutes, at the start", load),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
        ("gpbae", __version__),
        *((name, importlib.metadata.version(name)) for name in PACKAGES),
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (AttributeError, ValueError, OSError):
        return "unknown"
