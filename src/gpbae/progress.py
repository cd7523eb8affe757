"""What a long run shows: a Rich display in a terminal, a line now and then elsewhere, silence when asked."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def display(title: str, active: bool | Callable[[dict[str, Any]], None]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A listener for the events of a run; a callable given as `progress=` is used as it is."""
    if callable(active):
        yield active
    elif not active:
        yield lambda event: None
    elif sys.stderr.isatty():
        with _terminal(title) as listener:
            yield listener
    else:
        yield _lines(title)


@contextlib.contextmanager
def _terminal(title):
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn(), TextColumn("{task.fields[note]}"))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def listener(event):
            phase = event["phase"]
            if phase not in tasks:
                tasks[phase] = bars.add_task(f"{title} {phase}", total=event.get("total"), note="")
            bars.update(tasks[phase], completed=event.get("done", 0), total=event.get("total"), note=_note(event))
            if phase == "map" and "compiling" in tasks:
                bars.update(tasks["compiling"], visible=False)

        yield listener


def _lines(title):
    last = [0.0]

    def listener(event):
        finished = event.get("done") == event.get("total")
        if time.monotonic() - last[0] > SECONDS_BETWEEN_LINES or finished:
            last[0] = time.monotonic()
            done = f" {event['done']}/{event['total']}" if "done" in event else ""
            print(f"{title}: {event['phase']}{done} [{event['seconds']:.0f} s] {_note(event)}", file=sys.stderr)

    return listener


def _note(event: dict[str, Any]) -> str:
    parts = []
    if "log_joint" in event:
        parts.append("log joint " + " ".join(f"{v:.4g}" for v in np.atleast_1d(event["log_joint"])))
    if "temperature" in event:
        parts.append(f"T {event['temperature']:.3g}")
    if event["phase"] == "resumed":
        parts.append(f"after block {event['block']} of {event['at']}")
    if "because" in event:
        parts.append(f"not finite: {event['because']}")
    return ", ".join(parts)
