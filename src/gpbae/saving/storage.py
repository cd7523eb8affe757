"""Files that survive a crash and are not believed blindly: written at once or not at all, read only when they are what
a manifest says, and one process at a time."""

import contextlib
import errno
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from gpbae.errors import GpbaeError, InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

MANIFEST, LOCK = "manifest.json", ".lock"
LARGEST_MANIFEST, MOST_ENTRIES = 32 * 2**20, 2_000_000
"""Bytes, and entries, each of which takes some 60 bytes of memory.  The one file whose size nothing announces."""
MOST_ARRAYS = 100_000
"""In one file; each takes some hundred bytes of memory, however little it holds."""
WITHOUT_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""What file systems say that cannot flush a folder, and folders that may be written but not listed."""


# Writing.


def make_folder(path: Path) -> None:
    """A folder to write to, whose name is on the disk too, or one sentence."""
    try:
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in made:
            sync(folder.parent)
    except OSError as error:
        raise GpbaeError(f"Could not make the folder {path}: {error.strerror}; name another one.") from error


def write(path: Path, content: bytes) -> None:
    """Write beside the target, flush, rename, flush the folder: a reader finds the old content or the new one."""
    fresh = temporary(path)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            write_all(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
    sync(path.parent)


def temporary(path: Path) -> Path:
    """Where a file is written before it gets its name; the lock sees to it that nobody else does."""
    return path.with_name(f".{path.name}.tmp")


def write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def sync(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows has no handle for a folder
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        if problem.errno not in WITHOUT_FOLDER_SYNC:
            raise


def describe(content: bytes) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def seal(manifest: dict[str, Any]) -> bytes:
    """JSON with a checksum of itself."""
    return json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=1, allow_nan=False).encode()


def _checksum(manifest: dict[str, Any]) -> str:
    rest = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# Reading.


def read_manifest(folder: Path) -> dict[str, Any]:
    """A manifest as JSON, sealed or not."""
    file = folder / MANIFEST
    content = read(folder, MANIFEST)
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > MOST_ENTRIES:
        raise InputError(f"{file} must have at most {MOST_ENTRIES} entries and has more: not written by gpbae.")
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):  # bytes that are no text, text that is no JSON, numbers without end
        raise InputError(f"{file} is not JSON: truncated or not written by gpbae; copy it again.") from None
    if not isinstance(manifest, dict):
        raise InputError(f"{file} does not describe a gpbae model; pass a folder that gpbae wrote.")
    return manifest


def check_seal(folder: Path, manifest: dict[str, Any]) -> None:
    if manifest.get("checksum") != _checksum(manifest) or not isinstance(manifest.get("files"), dict):
        raise InputError(f"{folder / MANIFEST} has another checksum than it says: changed or damaged; copy it again.")


def read(folder: Path, name: str, expected: Any = None, prefix: bool = False) -> bytes:
    """A plain file inside the folder, no larger than announced, read once and checked; of a growing file a prefix."""
    file = folder / name
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise InputError(f"{file} points out of the folder; files are read from their own folder only.")
    if expected is not None and not _is_description(expected):
        raise InputError(f"{folder / MANIFEST} must say size and sha256 of {name}: damaged; copy it again.")
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{file} must be a plain file.")
        size = found.st_size
        most = LARGEST_MANIFEST if expected is None else expected["size"]
        if size > most and not prefix:
            raise InputError(f"{file} must have at most {most} bytes and has {size}: changed; copy it again.")
        if expected is not None and size < most:
            raise InputError(f"{file} must have {most} bytes and has {size}: truncated; copy it again.")
        with open(file, "rb") as handle:
            content = handle.read(most)
    except OSError as problem:
        raise InputError(f"{file} cannot be read: {problem.strerror}.") from None
    if expected is not None and hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise InputError(f"{file} has another sha256 than {MANIFEST} says: changed or damaged; copy it again.")
    return content


def _is_description(said: Any) -> bool:
    """Whether an entry of a manifest says the size and the checksum of a file."""
    if not isinstance(said, dict) or not isinstance(said.get("sha256"), str):
        return False
    return type(said.get("size")) is int and said["size"] >= 0


def arrays(content: bytes, file: Path) -> dict[str, np.ndarray]:
    """What a safetensors file holds."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    header = 8 + int.from_bytes(content[:8], "little")
    if content.count(b'"dtype"', 8, min(header, len(content))) > MOST_ARRAYS:
        raise InputError(f"{file} must hold at most {MOST_ARRAYS} arrays and holds more: not written by gpbae.")
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError):  # also numbers and shapes that NumPy has not
        raise InputError(f"{file} is not a safetensors file of plain numbers; no other format is read.") from None


# One process at a time.


class Lock:
    """A lock on a folder that dies with its process, so that a crash leaves nothing to clean up.

    The number of the process stands in the file, for the sentence that refuses a second one.
    """

    def __init__(self, folder: Path):
        self.file = folder / LOCK
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            self.handle = os.open(self.file, flags, 0o644)
        except OSError as problem:
            raise GpbaeError(
                f"Could not lock {folder}: {problem.strerror}; name a folder that can be written."
            ) from None
        if not self._acquire():
            owner = os.read(self.handle, 64).decode(errors="replace").strip() or "unknown"
            os.close(self.handle)
            raise GpbaeError(
                f"{folder} is in use by process {owner}: one run writes to a folder; wait for it, stop it, or name "
                "another folder."
            )
        with contextlib.suppress(OSError):  # a full disk does not undo the lock
            os.ftruncate(self.handle, 0)
            os.write(self.handle, f"{os.getpid()}\n".encode())

    def _acquire(self) -> bool:
        if fcntl is None:
            return not _is_alive(os.read(self.handle, 64))
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return not _is_alive(os.read(self.handle, 64))

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self.handle, 0)
        os.close(self.handle)


def is_locked(folder: Path) -> bool:
    """Whether a process is at work in a folder; nothing is written to find out."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        if fcntl is None:
            return _is_alive(os.read(handle, 64))
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return _is_alive(os.read(handle, 64))
    finally:
        os.close(handle)


def _is_alive(owner: bytes) -> bool:
    """Whether the process a lock names runs on this machine, and is not this one."""
    try:
        pid = int(owner)
        os.kill(pid, 0)
    except (ValueError, ProcessLookupError):
        return False
    except OSError:
        return True
    return pid != os.getpid()
