"""The table of a run that stays on disk, copied into the run's folder: there as a whole or not at all.

    table/x.npy, table/y.npy    inputs and outputs as numbers, labels as their codes
    table/groups.npy            the code of every row's group, and table/labels.npy what the codes stand for
    table/manifest.json         names of columns, how to read codes, notes of the writer, size and sha256 of every file

A copy grows in `.table.unfinished`, which takes its name in one step when everything is on the disk.  A table with the
same content stays where it is; another one lies in `.table.before` meanwhile.
"""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import IO, Any

import numpy as np

from gpbae.errors import InputError
from gpbae.saving import storage, values
from gpbae.tabular.ondisk import OnDisk
from gpbae.tabular.tables import Frame, Groups

FORMAT, VERSION = "gpbae table", 1
TABLE, UNFINISHED, BEFORE = "table", ".table.unfinished", ".table.before"
X, Y, CODES, LABELS = "x.npy", "y.npy", "groups.npy", "labels.npy"


# Writing.


class Growing:
    """An .npy file that rows are added to; how many there are stands in its header in the end."""

    def __init__(self, path: Path, dtype: np.dtype, num_columns: int | None):
        self.path, self.dtype, self.rows = path, np.dtype(dtype), 0
        self.row = () if num_columns is None else (num_columns,)
        self.file = path.open("wb")
        self._header(self.file)

    def add(self, rows: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(rows, self.dtype).tobytes())
        self.rows += len(rows)

    def finish(self) -> None:
        self.file.seek(0)
        self._header(self.file)
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def _header(self, file: IO[bytes]) -> None:
        """NumPy leaves room for the digits of the number of rows."""
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.row)}
        np.lib.format.write_array_header_1_0(file, about)


class Copy:
    """A table that is being copied into the folder of a run; an error leaves nothing of it, nor does a kill that
    anybody takes for a table."""

    def __init__(self, run: Path, num_inputs: int, num_outputs: int, is_grouped: bool, dtype: np.dtype):
        self.run, self.folder = run, run / UNFINISHED
        clear(run)
        self.folder.mkdir()
        wanted = {X: (np.dtype(float), num_inputs or None), Y: (dtype, num_outputs), CODES: (np.dtype(np.int32), None)}
        absent = {*([] if num_inputs else [X]), *([] if is_grouped else [CODES])}
        self.files = {name: Growing(self.folder / name, *how) for name, how in wanted.items() if name not in absent}

    def __enter__(self) -> "Copy":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            for file in self.files.values():
                with contextlib.suppress(OSError):  # a full disk has been told of before
                    file.file.close()
        finally:
            _remove(self.folder)

    def add(self, x: np.ndarray | None, y: np.ndarray, codes: np.ndarray | None) -> None:
        """The next rows."""
        for name, rows in ((X, x), (Y, y), (CODES, codes)):
            if rows is not None:
                self.files[name].add(rows)

    def finish(self, inputs: list[str], frame: Frame, labels: list[str], notes: dict[str, Any]) -> None:
        """Flush and describe what was added."""
        for file in self.files.values():
            file.finish()
        names = list(self.files)
        if CODES in names:
            _save(self.folder / LABELS, np.array(labels, np.str_))
            names.append(LABELS)
        found = {name: _describe(self.folder / name) for name in names}
        said = {"format": FORMAT, "version": VERSION, "files": found, "inputs": inputs,
                "frame": values.write_frame(frame), "notes": notes}  # fmt: skip
        storage.write(self.folder / storage.MANIFEST, storage.seal(said))

    def take_name(self) -> None:
        """Be the table of the run from now on.  One with the same content keeps its files, and learns the new notes."""
        said = manifest(self.run, UNFINISHED)
        if is_whole(self.run) and content(manifest(self.run)) == content(said):
            storage.write(self.run / TABLE / storage.MANIFEST, (self.folder / storage.MANIFEST).read_bytes())
            return
        if os.path.lexists(self.run / TABLE):
            os.replace(self.run / TABLE, self.run / BEFORE)
        os.replace(self.folder, self.run / TABLE)
        storage.sync(self.run)
        _remove(self.run / BEFORE)


def clear(run: Path) -> None:
    """Remove what a kill left of a copy, and of a table that was to be replaced; for whoever holds the lock."""
    for name in (UNFINISHED, BEFORE):
        _remove(run / name)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


# Reading.


def is_there(run: Path) -> bool:
    return (run / TABLE / storage.MANIFEST).exists()


def manifest(run: Path, name: str = TABLE) -> dict[str, Any]:
    """What is said of the table of a run, sealed."""
    found = storage.read_manifest(run / name)
    if found.get("format") != FORMAT or found.get("version") != VERSION:
        raise InputError(f"{run / name} does not hold a table that this release reads; fit again into a new folder.")
    storage.check_seal(run / name, found)
    return found


def content(said: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of the table itself: which file it was copied from is left out."""
    return {name: json.loads(json.dumps(said[name])) for name in ("files", "inputs", "frame")}


def is_whole(run: Path) -> bool:
    """Whether there is a table, every file of which is as it was written."""
    try:
        _check_files(run, TABLE)
    except InputError:
        return False
    return True


def _check_files(run: Path, name: str) -> dict[str, Any]:
    said, folder = manifest(run, name), run / name
    for file, expected in said["files"].items():
        if not (folder / file).is_file() or _describe(folder / file) != expected:
            raise InputError(
                f"{folder / file} is not as it was written: changed or damaged; repeat the `gpbae fit` command, which "
                "copies the table again."
            )
    return said


def reopen(run: Path, name: str = TABLE) -> tuple[OnDisk | None, OnDisk, Groups | None]:
    """x, y and groups as `fit` takes them; files that are not as they were written are refused."""
    said, folder = _check_files(run, name), run / name
    y = OnDisk(folder / Y, values.read_frame(said["frame"]))
    x = OnDisk(folder / X, Frame((len(said["inputs"]),), said["inputs"])) if X in said["files"] else None
    if CODES not in said["files"]:
        return x, y, None
    labels = np.load(folder / LABELS, allow_pickle=False)
    return x, y, Groups(labels, np.load(folder / CODES, mmap_mode="r", allow_pickle=False))
