"""A run as a folder that can be continued: nothing is lost but what came after the last checkpoint.

    config.toml         the model's class and arguments
    data.safetensors    the table as it was given
    state.safetensors   the chains and counters at the last checkpoint
    draws/000000.safetensors, …  the draws between two checkpoints
    latents.npy         latents of all rows of a table on disk, until the run is over
    table/              the table, where the command line left it on disk; data.safetensors then is a sample
    metrics.jsonl       one event per line
    model/              the fitted model, once the run is over
    columns.json        how the command line read the table
    given.json          which arguments it was given
    manifest.json       size and sha256 of every file, versions, a fingerprint of the data

A checkpoint is made when the manifest is replaced.  The new state lies beside the old one until then and takes its
name afterwards; whoever opens the folder finishes that last step if a crash came between.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import shlex
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpbae
from gpbae.errors import GpbaeError, InputError, Interrupted
from gpbae.processes.watch import Watch
from gpbae.sampling import checkpoint, keptlatents
from gpbae.sampling.checkpoint import Arrays, Keeper, Snapshot
from gpbae.saving import io, settings, storage, tablefolder

FORMAT, VERSION = "gpbae run", 1
CONFIG, DATA, STATE, NEXT = "config.toml", "data.safetensors", "state.safetensors", "state.next.safetensors"
METRICS, CHUNKS, MODEL = "metrics.jsonl", "draws", "model"
COLUMNS, GIVEN = "columns.json", "given.json"
OURS = (CONFIG, DATA, STATE, NEXT, METRICS, CHUNKS, keptlatents.FILE)
SECONDS_BETWEEN_CHECKPOINTS = 30.0


@contextlib.contextmanager
def keeping(
    path: Any, estimator: Any, x: Any, y: Any, groups: Any, rows_on_disk: int | None = None
) -> Iterator["RunFolder"]:
    """The folder of this run, begun or continued; locked, and listening to signals, as long as the context lasts."""
    folder = _path(path)
    config, data = settings.text(estimator, x, y), settings.table(x, y, groups, rows_on_disk)
    make(folder)
    lock = storage.Lock(folder)
    try:
        if not has_table(folder):
            with _sentence(folder):
                _begin(folder, config, data)
        run = RunFolder(folder, Watch())
        run.check_same(estimator, config, data)
        with run, run.watch:
            yield run
    finally:
        lock.release()


def has_table(folder: Path) -> bool:
    """Whether a run was begun here and got as far as to keep its table."""
    return (folder / storage.MANIFEST).exists() and bool(read_manifest(folder)["files"])


def columns(folder: Path) -> bytes | None:
    """How the command line read the table; None where a fit was called in Python."""
    return _beside(folder, COLUMNS)


def given(folder: Path) -> bytes | None:
    """Which arguments the command line was given; None where that is not known."""
    return _beside(folder, GIVEN)


def _beside(folder: Path, name: str) -> bytes | None:
    """A file of the command line, checked where the manifest lists it (that of a merge lists the model only)."""
    if not os.path.lexists(folder / name):
        return None
    is_run = (folder / storage.MANIFEST).exists() and storage.read_manifest(folder).get("format") == FORMAT
    return storage.read(folder, name, read_manifest(folder)["files"].get(name) if is_run else None)


def _path(given: Any) -> Path:
    try:
        return Path(given)
    except TypeError:
        raise InputError(f"run_dir must be the name of a folder; got {given!r}.") from None


def reopen(path: Any) -> tuple[Any, Any, Any, Any]:
    """Model, x, y and groups of a run, to be passed to `fit(x, y, groups, run_dir=path)` again."""
    folder = _path(path)
    manifest = read_manifest(folder)
    if not manifest["files"]:
        raise InputError(f"The run in {folder} was stopped before its table was kept; begin it again with fit.")
    content = storage.read(folder, CONFIG, manifest["files"][CONFIG])
    estimator, frame, inputs = settings.read(content, folder / CONFIG)
    data = storage.arrays(storage.read(folder, DATA, manifest["files"][DATA]), folder / DATA)
    if settings.ON_DISK in data and tablefolder.is_there(folder):
        return estimator, *tablefolder.reopen(folder)
    if settings.ON_DISK in data and (folder / COLUMNS).exists():
        raise InputError(
            f"{folder} must hold the copy of its table in {tablefolder.TABLE}; got none. Repeat the `gpbae fit` "
            "command, which copies it again and goes on."
        )
    if settings.ON_DISK in data:
        raise InputError(
            f"{folder} holds a sample of a table of {int(data[settings.ON_DISK][0])} rows that stayed where it was: go "
            "on in Python, by fit(x, y, groups, run_dir=...) with the same OnDisk files."
        )
    return estimator, *settings.given(data, frame, inputs)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The sealed manifest of a run, which lists files of a run and no others."""
    if not (folder / storage.MANIFEST).exists():
        raise InputError(
            f"{folder} does not hold a run that can go on: there is no {storage.MANIFEST} in it. Fit again, or name "
            "the folder of fit(run_dir=...) or `gpbae fit --out`."
        )
    manifest = storage.read_manifest(folder)
    if manifest.get("format") != FORMAT:
        raise InputError(
            f"{folder / storage.MANIFEST} must describe a run and describes {manifest.get('format')!r}. Name the "
            "folder of fit(run_dir=...), or a new one."
        )
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{folder / storage.MANIFEST} has format version {manifest.get('version')!r} and this release reads "
            f'{VERSION}; resume it with the release that wrote it (see its "packages").'
        )
    storage.check_seal(folder, manifest)
    if manifest["files"] and (missing := {CONFIG, DATA, METRICS} - set(manifest["files"])):
        raise InputError(f"{folder / storage.MANIFEST} must list {', '.join(sorted(missing))}: damaged; copy it again.")
    said = (("fingerprint", str), ("packages", dict), ("finished", bool))
    if absent := [name for name, kind in said if not isinstance(manifest.get(name), kind)]:
        raise InputError(f"{folder / storage.MANIFEST} must say {absent[0]}: damaged; copy it again.")
    return manifest


def make(folder: Path) -> None:
    """A folder to keep a run in: new, or one that holds nothing by the names of a run's files."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"run_dir must be a folder; got the file {folder}. Name another one.")
    taken = [name for name in OURS if os.path.lexists(folder / name)]
    if taken and not (folder / storage.MANIFEST).exists():
        raise InputError(f"{folder} holds {taken[0]} and is not the folder of a run; name a new folder.")
    storage.make_folder(folder)


def _begin(folder: Path, config: bytes, data: Arrays) -> None:
    """An empty manifest first: from then on these names are ours."""
    from safetensors.numpy import save

    empty = {"format": FORMAT, "version": VERSION, "finished": False, "packages": _packages(),
             "fingerprint": settings.fingerprint(data), "files": {}}  # fmt: skip
    storage.write(folder / storage.MANIFEST, storage.seal(empty))
    _clear(folder, set())
    contents = {CONFIG: config, DATA: save(data), METRICS: b""}
    for name, content in contents.items():
        storage.write(folder / name, content)
    contents |= {name: storage.read(folder, name) for name in (COLUMNS, GIVEN) if (folder / name).exists()}
    files = {name: storage.describe(content) for name, content in contents.items()}
    storage.write(folder / storage.MANIFEST, storage.seal(empty | {"files": files}))


def _packages() -> dict[str, str]:
    found = {p: importlib.metadata.version(p) for p in io.PACKAGES}
    return {"gpbae": gpbae.__version__, "python": platform.python_version()} | found


def _clear(folder: Path, listed: set[str]) -> None:
    """Remove what a crash left behind: files half written, and chunks that no manifest lists."""
    half_written = [storage.temporary(folder / name) for name in (*OURS, storage.MANIFEST)]
    chunks = [file for file in (folder / CHUNKS).glob("*") if f"{CHUNKS}/{file.name}" not in listed]
    for file in [*half_written, *chunks]:
        file.unlink(missing_ok=True)
    for half_saved in folder.glob(f".{MODEL}.*"):
        shutil.rmtree(half_saved)


@contextlib.contextmanager
def _sentence(folder: Path) -> Iterator[None]:
    """A failed write as a sentence; what the manifest lists is untouched by it."""
    try:
        yield
    except OSError as problem:
        raise GpbaeError(
            f"Could not write to {folder}: {problem.strerror or problem}; the last checkpoint is intact. Make room or "
            "mend the disk, then fit with the same run_dir, or `gpbae resume`, goes on from there."
        ) from problem


class RunFolder(Keeper):
    """The keeper of a run; it holds the folder's lock and is the only one to write there."""

    def __init__(self, folder: Path, watch: Watch):
        self.folder, self.watch = folder, watch
        self.manifest = read_manifest(folder)
        for name in (CHUNKS, MODEL, METRICS, keptlatents.FILE):
            if (folder / name).is_symlink():
                raise InputError(f"{folder / name} points out of the folder; a run is kept in its own folder only.")
        with _sentence(folder):
            self._settle()
        self.kept_at = time.monotonic()

    def _settle(self) -> None:
        """Finish or forget what a crash interrupted, and cut the log where the checkpoint was."""
        files = self.manifest["files"]
        _clear(self.folder, set(files))
        (self.folder / CHUNKS).mkdir(exist_ok=True)
        if (self.folder / NEXT).exists():
            with contextlib.suppress(InputError, KeyError):
                storage.read(self.folder, NEXT, files[STATE])
                os.replace(self.folder / NEXT, self.folder / STATE)
            (self.folder / NEXT).unlink(missing_ok=True)
        content = storage.read(self.folder, METRICS, files[METRICS], prefix=True)
        os.truncate(self.folder / METRICS, len(content))
        self.log_hash, self.log_size = hashlib.sha256(content), len(content)
        self.mark()
        try:
            self.events = [_event(line) for line in content.splitlines()]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InputError(f"{self.folder / METRICS} must hold an event per line: damaged; copy it again.") from None

    def check_same(self, estimator: Any, config: bytes, data: Arrays) -> None:
        """Refuse to continue with other arguments or other data, and files that are not as they were written."""
        files = self.manifest["files"]
        settings.check_same(storage.read(self.folder, CONFIG, files[CONFIG]), config, self.folder / CONFIG)
        stored = storage.read(self.folder, DATA, files[DATA])
        if settings.fingerprint(data) != self.manifest["fingerprint"]:
            what = settings.difference(storage.arrays(stored, self.folder / DATA), data)
            raise InputError(
                f"{self.folder} was begun with other data: {what}. Give the same table (with the same inputs, "
                "outputs and groups), or name a new folder."
            )
        if changed := {p for p, v in _packages().items() if self.manifest["packages"].get(p) != v}:
            old = ", ".join(f"{p} {self.manifest['packages'].get(p)}" for p in sorted(changed))
            warnings.warn(
                f"{self.folder} was begun with {old}; continued with other versions, it need not reach the very same "
                "draws, only draws as good.",
                stacklevel=5,
            )

    def __enter__(self) -> "RunFolder":
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        with _sentence(self.folder):
            self.log = os.open(self.folder / METRICS, flags)
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.log)

    # What a sampler asks.

    def folder_for_latents(self) -> Path:
        return self.folder

    def has_begun(self) -> bool:
        return STATE in self.manifest["files"]

    def saved(self) -> Snapshot | None:
        files = self.manifest["files"]
        if not self.has_begun():
            return None
        arrays = self._arrays(STATE)
        try:
            counters = json.loads(bytes(arrays.pop("counters")))
        except (ValueError, KeyError, RecursionError):
            raise InputError(f"{self.folder / STATE} must hold a run's counters: damaged; copy it again.") from None
        names = [f"{CHUNKS}/{i:06d}.safetensors" for i in range(self._num_chunks())]
        if absent := [name for name in names if name not in files]:
            raise InputError(f"{self.folder / storage.MANIFEST} must list {absent[0]}: damaged; copy it again.")
        return Snapshot(arrays, counters, [self._arrays(name) for name in names], self.events)

    def _arrays(self, name: str) -> Arrays:
        return storage.arrays(storage.read(self.folder, name, self.manifest["files"][name]), self.folder / name)

    def _num_chunks(self) -> int:
        return sum(name.startswith(f"{CHUNKS}/") for name in self.manifest["files"])

    def record(self, event: dict[str, Any]) -> None:
        line = json.dumps(_plain(event), allow_nan=False).encode() + b"\n"
        with _sentence(self.folder):
            storage.write_all(self.log, line)
        self.log_hash.update(line)
        self.log_size += len(line)

    def mark(self) -> None:
        self.marked = {"size": self.log_size, "sha256": self.log_hash.hexdigest()}

    def ask_for_the_last_block(self, save: Callable[[], None]) -> None:
        def quietly() -> None:
            with contextlib.suppress(GpbaeError):  # the end of the block tries again, and says why it cannot
                save()

        self.watch.when_asked = quietly

    def is_due(self) -> bool:
        self.watch.beat()
        return time.monotonic() - self.kept_at >= SECONDS_BETWEEN_CHECKPOINTS

    def is_stopping(self) -> bool:
        return self.watch.requested is not None

    def stop(self, where: str) -> None:
        number = self.watch.requested or signal.SIGINT
        kept = "everything until then is" if self.has_begun() else "its table is, but nothing to go on from,"
        raise Interrupted(
            f"Stopped by {signal.Signals(number).name} after {where}; {kept} in {self.folder}. To go on: "
            f"`gpbae resume {shlex.quote(str(self.folder))}`, or fit with the same arguments and folder.",
            number,
        )

    def keep(self, arrays: Arrays, counters: dict[str, Any], chunk: Arrays | None) -> None:
        """Chunk, then state, then log, then the manifest that makes them count."""
        from safetensors.numpy import save

        words = np.frombuffer(json.dumps(counters).encode(), np.uint8)
        state = save(arrays | {"counters": words})
        files = self.manifest["files"] | {STATE: storage.describe(state)}
        with _sentence(self.folder):
            if chunk is not None:
                name, content = f"{CHUNKS}/{self._num_chunks():06d}.safetensors", save(chunk)
                storage.write(self.folder / name, content)
                files[name] = storage.describe(content)
            storage.write(self.folder / NEXT, state)
            self._commit(files)
            os.replace(self.folder / NEXT, self.folder / STATE)
            storage.sync(self.folder)
        self.kept_at = time.monotonic()

    def _commit(self, files: dict[str, Any], **changes: Any) -> None:
        os.fsync(self.log)
        files = files | {METRICS: self.marked}
        manifest = {k: v for k, v in self.manifest.items() if k != "checksum"} | {"files": files} | changes
        storage.write(self.folder / storage.MANIFEST, storage.seal(manifest))
        self.manifest = manifest

    def finish(self, model: Any) -> None:
        """Save the fitted model inside, unless it is there already."""
        if self._has_model():
            return
        self.mark()
        with _sentence(self.folder):
            io.write(model, self.folder / MODEL)
            contents = {name: (self.folder / MODEL / name).read_bytes() for name in io.FILES}
            named = {f"{MODEL}/{name}": storage.describe(content) for name, content in contents.items()}
            self._commit(self.manifest["files"] | named, finished=True)

    def _has_model(self) -> bool:
        try:
            for name in io.FILES:
                storage.read(self.folder, f"{MODEL}/{name}", self.manifest["files"].get(f"{MODEL}/{name}", {}))
        except InputError:
            return False
        return self.manifest["finished"]


def _plain(value: Any) -> Any:
    """An event as JSON; what is not finite is null."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _event(line: bytes) -> dict[str, Any]:
    event = checkpoint.as_told(json.loads(line))
    return event | {"seconds": float(event["seconds"])}
