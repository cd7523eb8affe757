"""What a long run shows: a Rich display in a terminal, a line now and then elsewhere, JSON for machines, or silence.

A listener is a function of an event, {"phase": ..., "seconds": ..., "done": ..., "total": ..., ...}.  Events of a chain
also say which sweep of all it has done ("sweep", "sweeps"), from which the time to the end of the run is told.
"""

import collections
import contextlib
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np

SECONDS_BETWEEN_LINES = 10.0
BEFORE_WARM_UP = {"compiling": "compiling, then finding a place to start", "map": "compiling the sampler"}
WORDS = {"compiling": "compiling, half a minute or more; then the time left is told",
         "map": "finding a place to start", "warm-up": "warming up", "rows": "row", "columns": "column",
         "refining": "filling in", "placing": "placing rows",
         "rivals": "simple rival", "back-off": "smaller steps", "dead": "a chain diverged",
         "training": "training, step", "start": "learning where to start, step",
         "copying": "copying row"}  # fmt: skip
FEWEST_PACES, NUM_PACES = 3, 40
"""The time left is told from so many, without the slowest and the fastest quarter: one in which something was compiled
is no measure, and a busy machine has paces of two kinds, between which a median would jump."""
Listener = Callable[[dict[str, Any]], None]


class Course(NamedTuple):
    """Which of how many fits of one command this is, and when the command began: all of them share a clock."""

    number: int
    total: int
    began: float

    @classmethod
    def of(cls, total: int) -> "Course":
        return cls(1, total, time.monotonic())

    def later(self, steps: int) -> "Course":
        return self._replace(number=self.number + steps)

    def title(self, model: str, what: str) -> str:
        return f"{model}, fit {self.number} of {self.total}, {what}" if self.total > 1 else f"{model} {what}"


@contextlib.contextmanager
def display(title: str, active: bool | Listener, course: Course | None = None) -> Iterator[Listener]:
    """A listener for the events of a run; a callable given as `progress=` is used as it is."""
    if callable(active):
        yield active
    elif not active:
        yield lambda event: None
    elif sys.stderr.isatty():
        with _terminal(title, course) as listener:
            yield listener
    else:
        with _Lines(title, course) as listener:
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
def _terminal(title, course):
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("[bold]{task.description}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[note]}"))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}
        pace, began = _Pace(course), time.monotonic() if course is None else course.began

        def listener(event):
            phase, news = event["phase"], ", ".join(part for part in (pace.left(event), _note(event)) if part)
            if phase not in tasks:
                tasks[phase] = bars.add_task("", total=event.get("total"), note="")
                bars.tasks[-1].start_time = began  # one clock for all phases
            bars.update(tasks[phase], description=f"{title}: {_words(event)}", completed=event.get("done", 0),
                        total=event.get("total"), note=news)  # fmt: skip
            if "compiling" in tasks:  # the sampler is compiled after the climb, and nothing is heard of it meanwhile
                bars.update(tasks["compiling"], visible=phase in BEFORE_WARM_UP)

        yield listener


class _Lines:
    """A line now and then, also while nothing happens but compiling."""

    def __init__(self, title: str, course: Course | None = None):
        self.title, self.last, self.heard = title, 0.0, time.monotonic()
        self.phase, self.course, self.pace = "starting", course, _Pace(course)
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
        self.phase, left = event["phase"], self.pace.left(event)
        finished = event.get("done") == event.get("total")
        if self.heard - self.last > SECONDS_BETWEEN_LINES or finished:
            seconds = event["seconds"] if self.course is None else self.heard - self.course.began
            clock = ", ".join(part for part in (duration(seconds), left) if part)
            self._print(f"{_words(event)} [{clock}] {_note(event)}")

    def _beat(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_LINES):
            silent = time.monotonic() - self.heard
            if silent >= SECONDS_BETWEEN_LINES:
                self._print(_silence(self.phase, silent))

    def _print(self, text: str) -> None:
        self.last = time.monotonic()
        print(f"{self.title}: {text.rstrip()}", file=sys.stderr, flush=True)


def _silence(phase: str, seconds: float) -> str:
    """What is told while nothing is heard: what is new is compiled, what is under way takes its time."""
    if phase in BEFORE_WARM_UP:
        return f"{BEFORE_WARM_UP[phase]}, {duration(seconds)} so far"
    return f"{WORDS.get(phase, phase).split(',')[0]}, at work for {duration(seconds)} since the last news"


class _Pace:
    """How long it will go on at the pace so far: to the end of the run where sweeps are counted, else of the phase; and
    with the fits that are to follow, if there are any."""

    def __init__(self, course: Course | None = None) -> None:
        self.still = 0 if course is None else course.total - course.number
        self.what, self.seen = "", collections.deque[tuple[float, int]](maxlen=NUM_PACES + 1)

    def left(self, event: dict[str, Any]) -> str:
        what, done, total = ("run", "sweep", "sweeps") if "sweep" in event else (event["phase"], "done", "total")
        if done not in event:
            return ""
        if what != self.what:
            self.what = what
            self.seen.clear()
        self.seen.append((time.monotonic(), event[done]))
        paces = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in itertools.pairwise(self.seen) if b[1] > a[1]]
        if len(paces) < FEWEST_PACES or event[done] >= event[total]:
            return ""
        pace = _middle_mean(paces)
        left = pace * (event[total] - event[done])
        if not self.still or what != "run":
            return f"about {duration(left)} left"
        return f"about {duration(left)} left, {duration(left + self.still * pace * event[total])} of sampling in all"


def _middle_mean(values: list[float]) -> float:
    """Mean of the middle half."""
    cut = max(1, len(values) // 4) if len(values) > 2 else 0
    return float(np.mean(sorted(values)[cut : len(values) - cut]))


def duration(seconds: float) -> str:
    """34 s, 2 min 10 s, 3 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _words(event: dict[str, Any]) -> str:
    """What goes on, and how far it is: warming up, sweep 24 of 60; sampling, draw 3 of 25; row 2000 of 9000."""
    words = WORDS.get(event["phase"]) or str(event["phase"])
    if "rival" in event:
        return f"{words}: {event['rival']}"
    if event["phase"] == "warm-up" and "sweep" in event:
        return f"{words}, sweep {event['sweep']} of {event['sweep'] // event['done'] * event['total']}"
    if "done" not in event or event["total"] == 1:
        return words
    return f"{words}{', draw' if event['phase'] == 'sampling' else ''} {event['done']} of {event['total']}"


def _note(event: dict[str, Any]) -> str:
    parts = []
    if "log_joint" in event:
        values = np.atleast_1d(event["log_joint"])
        parts.append(f"log joint{' by chain' * (len(values) > 1)} " + " ".join(f"{v:.4g}" for v in values))
    if "bound" in event:
        parts.append(f"bound {event['bound']:.4g}")
    if event["phase"] == "warm-up" and event.get("temperature", 1.0) < 1.0:
        parts.append(f"temperature being raised, now at {event['temperature']:.2g}")
    elif "kinetic_temperature" in event:
        values = np.atleast_1d(event["kinetic_temperature"])
        measured = " ".join(f"{v:.2g}" for v in values)
        parts.append(f"temperature{' by chain' * (len(values) > 1)} {measured} (meant: {event['temperature']:.2g})")
    if event["phase"] == "resumed":
        done = ", all there is to do" if event["sweep"] == event["sweeps"] else ""
        parts.append(f"after sweep {event['sweep']} of {event['sweeps']}{done}")
    if "because" in event:
        parts.append(f"not finite: {event['because']}")
    return ", ".join(parts)
