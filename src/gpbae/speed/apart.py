"""What is measured in a process of its own, which holds nothing of what was measured before, and its memory."""

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gpbae.processes import compiled


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's value, from a fresh process that compiles all it needs: what a process holds is less where its
    programs were kept, so that a second measurement would not be that of the first."""
    with _without(compiled.SETTINGS), ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


@contextlib.contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """Processes that are started here do not have these variables: a child reads them as it starts."""
    had = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(had)


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
