"""What a long run shows: a Rich display in a terminal, a line now and then elsewhere, JSON for machines, or silence.

A listener is a function of an event, {"phase": ..., "seconds": ..., "done": ..., "total": ..., ...}.
"""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

SECONDS_BETWEEN_LINES = 10.0
BEFORE_WARM_UP = ("compiling", "map")
Listener = Callable[[dict[str, Any]], None]


@contextlib.contextmanager
def display(title: str, active: bool | Listener) -> Iterator[Listener]:
    """A listener for the events of a run; a callable given as `progress=` is used as it is."""
    if callable(active):
        yield active
    elif not active:
        yield lambda event: None
    elif sys.stderr.isatty():
        with _terminal(title) as listener:
            yield listener
    else:
        with _Lines(title) as listener:
            yield listener


@contextlib.contextmanager
def json_lines(target: str | None) -> Iterator[Listener]:
    """A listener that writes one JSON object per event, to a file or, for "-", to standard output."""
    if target is None:
        yield lambda event: None
        return
    from gpbae.errors import GpbaeError

    try:
        file = sys.stdout if target == "-" else open(target, "a", encoding="utf-8")
    except OSError as error:
        raise GpbaeError(f"Could not open {target} for --log-json: {error.strerror}; name another file.") from error
    try:
        yield lambda event: _write(file, event)
    finally:
        if target != "-":
            file.close()


def _write(file: IO[str], event: dict[str, Any]) -> None:
    print(json.dumps({name: plain(value) for name, value in event.items()}), file=file, flush=True)


def plain(value: Any) -> Any:
    """A value as JSON has it; what is not finite is null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value


def both(*listeners: Listener) -> Listener:
    """A listener that tells all of these."""

    def listener(event: dict[str, Any]) -> None:
        for one in listeners:
            one(event)

    return listener


@contextlib.contextmanager
def phase(name: str, listener: Listener, **fields: Any) -> Iterator[None]:
    """Tell when work of one piece begins and when it is done."""
    started = time.monotonic()
    listener({"phase": name, "seconds": 0.0, **fields})
    yield
    listener({"phase": name, "done": 1, "total": 1, "seconds": round(time.monotonic() - started, 3), **fields})


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
            if "compiling" in tasks:  # the sampler is compiled after the climb, and nothing is heard of it meanwhile
                bars.update(tasks["compiling"], visible=phase in BEFORE_WARM_UP)

        yield listener


class _Lines:
    """A line now and then, also while nothing happens but compiling."""

    def __init__(self, title: str):
        self.title, self.last, self.heard = title, 0.0, time.monotonic()
        self.phase, self.phase_began, self.done_then = "starting", time.monotonic(), 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Listener:
        self.thread.start()
        return self._listen

    def __exit__(self, *_: Any) -> None:
        self.over.set()
        self.thread.join()

    def _listen(self, event: dict[str, Any]) -> None:
        self.heard = time.monotonic()
        if event["phase"] != self.phase:
            self.phase, self.phase_began, self.done_then = event["phase"], self.heard, max(event.get("done", 1) - 1, 0)
        finished = event.get("done") == event.get("total")
        if self.heard - self.last > SECONDS_BETWEEN_LINES or finished:
            done = f" {event['done']}/{event['total']}" if "done" in event else ""
            self._print(f"{event['phase']}{done} [{event['seconds']:.0f} s{self._left(event)}] {_note(event)}")

    def _left(self, event: dict[str, Any]) -> str:
        """How long this phase will go on at its pace so far."""
        done, total = event.get("done", 0) - self.done_then, event.get("total", 0) - self.done_then
        if done < 2 or done == total:
            return ""
        return f", {(self.heard - self.phase_began) * (total - done) / done:.0f} s to go"

    def _beat(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_LINES):
            silent = time.monotonic() - self.heard
            if silent >= SECONDS_BETWEEN_LINES:
                self._print(f"{'compiling' if self.phase in BEFORE_WARM_UP else self.phase}, {silent:.0f} s so far")

    def _print(self, text: str) -> None:
        self.last = time.monotonic()
        print(f"{self.title}: {text.rstrip()}", file=sys.stderr, flush=True)


def _note(event: dict[str, Any]) -> str:
    parts = []
    if "log_joint" in event:
        parts.append("log joint " + " ".join(f"{v:.4g}" for v in np.atleast_1d(event["log_joint"])))
    if "bound" in event:
        parts.append(f"bound {event['bound']:.4g}")
    if "temperature" in event:
        parts.append(f"T {event['temperature']:.3g}")
    if event["phase"] == "resumed":
        parts.append(f"after block {event['block']} of {event['at']}")
    if "because" in event:
        parts.append(f"not finite: {event['because']}")
    return ", ".join(parts)
