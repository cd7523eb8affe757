"""The folder of a run of several processes: the first one keeps it, the others are told what it holds."""

import contextlib
import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpbae.errors import GpbaeError, Interrupted
from gpbae.processes import distributed, progress
from gpbae.processes.watch import Watch
from gpbae.sampling.checkpoint import Arrays, Keeper, Snapshot, as_told
from gpbae.saving import runfolder, settings, storage


def check_alike(estimator: Any, x: Any, y: Any, groups: Any, rows_on_disk: int | None = None) -> None:
    """Refuse to begin where a process has another model or table."""
    config, data = settings.text(estimator, x, y), settings.table(x, y, groups, rows_on_disk)
    distributed.check_same(hashlib.sha256(config).digest(), "model and arguments")
    distributed.check_same(hashlib.sha256(settings.fingerprint(data).encode()).digest(), "table")


@contextlib.contextmanager
def keeping(
    path: Any, estimator: Any, x: Any, y: Any, groups: Any, rows_on_disk: int | None = None
) -> Iterator["Agreed"]:
    """As `runfolder.keeping`, in every process."""
    check_alike(estimator, x, y, groups, rows_on_disk)
    with contextlib.ExitStack() as stack:
        problem, own, watch = None, Keeper(), None
        if distributed.number() == 0:
            try:
                own = stack.enter_context(runfolder.keeping(path, estimator, x, y, groups, rows_on_disk))
                watch = own.watch
            except GpbaeError as refused:
                problem = refused
        _fail_alike(problem)
        yield Agreed(own, watch or stack.enter_context(Watch()))


def _fail_alike(problem: GpbaeError | None) -> None:
    """What the first process cannot do ends all of them with its sentence."""
    sentence = distributed.from_first(None if problem is None else str(problem).encode())
    if sentence is not None:
        raise problem or GpbaeError(sentence.decode())


class Agreed(Keeper):
    """A keeper of which every process has its own, and all give the same answers; only the first one's writes."""

    def __init__(self, own: Keeper, watch: Watch):
        self.own, self.watch = own, watch
        self.log_joint = b""
        self.problem: GpbaeError | None = None

    def _write(self, call: Callable[..., None], *arguments: Any) -> None:
        """A disk that fails one process is told to the others when all come together next."""
        try:
            call(*arguments)
        except GpbaeError as problem:
            self.problem = self.problem or problem

    def has_begun(self) -> bool:
        return distributed.from_first(b"yes" if self.own.has_begun() else None) is not None

    def saved(self) -> Snapshot | None:
        problem, saved = None, None
        try:
            saved = self.own.saved()
        except GpbaeError as damaged:
            problem = damaged
        _fail_alike(problem)
        content = distributed.from_first(None if saved is None else to_bytes(saved))
        return saved if content is None or distributed.number() == 0 else from_bytes(content)

    def record(self, event: dict[str, Any]) -> None:
        self._write(self.own.record, event)
        if "log_joint" in event:
            self.log_joint = np.asarray(event["log_joint"], float).tobytes()

    def mark(self) -> None:
        self.own.mark()

    def ask_for_the_last_block(self, save: Callable[[], None]) -> None:
        self.own.ask_for_the_last_block(save)

    def is_due(self) -> bool:
        self.watch.beat()
        return self.own.is_due()

    def keep(self, arrays: Arrays, counters: dict[str, Any], chunk: Arrays | None) -> None:
        self._write(self.own.keep, arrays, counters, chunk)

    def is_stopping(self) -> bool:
        """Whether any process was asked to stop; on the way, whether all have computed the same and can go on."""
        _fail_alike(self.problem)
        asked = 0 if self.watch.requested is None else int(self.watch.requested)
        told = distributed.gathered(np.array([asked, _digest(self.log_joint)], np.int64))
        if odd := np.flatnonzero(told[:, 1] != told[0, 1]).tolist():
            raise GpbaeError(
                f"All processes must compute the same; process {odd[0]} has another log joint than process 0. Run on "
                "machines of one kind with the same packages."
            )
        self.watch.requested = int(told[:, 0].max()) or None
        return self.watch.requested is not None

    def stop(self, where: str) -> None:
        _fail_alike(self.problem)
        self.own.stop(where)
        number = self.watch.requested or signal.SIGINT
        raise Interrupted(f"Stopped by {signal.Signals(number).name} after {where}, with the first process.", number)

    def finish(self, model: Any) -> None:
        """Nobody leaves before the model is written."""
        self._write(self.own.finish, model)
        _fail_alike(self.problem)


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:7], "big")


def to_bytes(saved: Snapshot) -> bytes:
    """A snapshot as one safetensors file."""
    from safetensors.numpy import save

    words = json.dumps({"counters": saved.counters, "history": progress.plain(saved.history)}).encode()
    named = {f"state {name}": a for name, a in saved.arrays.items()}
    for i, chunk in enumerate(saved.chunks):
        named |= {f"{i} {name}": a for name, a in chunk.items()}
    return save(named | {"words": np.frombuffer(words, np.uint8)})


def from_bytes(content: bytes) -> Snapshot:
    named = storage.arrays(content, Path("what the first process said"))
    words = json.loads(bytes(named.pop("words")))
    parts: dict[str, Arrays] = {"state": {}}
    for name, a in named.items():
        part, leaf = name.split(" ", 1)
        parts.setdefault(part, {})[leaf] = a
    state = parts.pop("state")
    history = [as_told(event) for event in words["history"]]
    return Snapshot(state, words["counters"], [parts[str(i)] for i in range(len(parts))], history)
