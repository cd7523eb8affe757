"""What is measured in a process of its own, which holds nothing of what was measured before, and its memory."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's value, from a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def held_megabytes() -> float:
    """Memory of the process but for pages of mapped files, which the system takes back when it needs them; all of it
    where the system does not say."""
    return _status("RssAnon")


def peak_megabytes() -> float:
    """The most that the process held, mapped files and all.  Not by `getrusage`: what it says a process inherits from
    the one that started it."""
    return _status("VmHWM")


def _status(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
