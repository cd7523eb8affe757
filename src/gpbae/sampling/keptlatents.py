"""Latents of the rows of a table on disk, kept from visit to visit in a file: 4·N·C bytes for each chain.

What the chains have written since the last checkpoint is held in memory, as a journal that belongs to the next one.
Only when that checkpoint is on the disk does its journal go to the file, so that a file is never ahead of a checkpoint
by more than a journal that the checkpoint itself holds; a run that goes on writes it again, which changes nothing.
"""

import os
import secrets
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpbae.errors import GpbaeError, InputError

FILE = "latents.npy"
LARGEST_JOURNAL = 2**20
"""Rows.  A checkpoint is due when there are more."""
ZEROS = bytes(2**22)
STAMP = 16
"""Bytes behind the array."""


class Visited(NamedTuple):
    """The rows that a block of sweeps visits, each once: their places in the file by chain, which of them is visited
    when, and the latents they were left with, zeros for those never seen."""

    places: list[np.ndarray]
    slots: np.ndarray
    latents: np.ndarray


class Journal(NamedTuple):
    """Latents written since a checkpoint: sorted places in the file, values, the block that wrote each.  Its arrays
    never change, so that pointing at them is enough to keep a moment."""

    places: np.ndarray
    latents: np.ndarray
    blocks: np.ndarray

    def write(self, places: np.ndarray, latents: np.ndarray, block: int) -> "Journal":
        """With these rows, sorted, in the place of what it had of them."""
        at = np.searchsorted(self.places, places)
        known = np.zeros(len(places), bool)
        known[at < len(self.places)] = self.places[at[at < len(self.places)]] == places[at < len(self.places)]
        values, blocks = self.latents.copy(), self.blocks.copy()
        values[at[known]], blocks[at[known]] = latents[known], block
        at, new = at[~known], ~known
        return Journal(np.insert(self.places, at, places[new]), np.insert(values, at, latents[new], axis=0),
                       np.insert(blocks, at, block))  # fmt: skip

    def overlay(self, places: np.ndarray, latents: np.ndarray) -> np.ndarray:
        """Latents read from the file, but for those that are newer here."""
        if not len(self.places):
            return latents
        at = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.where((self.places[at] == places)[:, None], self.latents[at], latents)

    def since(self, block: int) -> "Journal":
        """What was written after a block."""
        newer = self.blocks > block
        return Journal(self.places[newer], self.latents[newer], self.blocks[newer])


class Latents:
    """What a run keeps in files that are too large for its checkpoints; this one keeps nothing."""

    def begin(self) -> None:
        """No row was visited."""

    def go_on(self, arrays: dict[str, np.ndarray]) -> None:
        """As it was at a checkpoint with these arrays."""

    def touch(self, numbers: np.ndarray) -> None:
        """Have the system read what will be asked for, from another thread; what is there now may not last."""

    def is_full(self) -> bool:
        """Is it time for a checkpoint?"""
        return False

    def arrays(self) -> dict[str, np.ndarray]:
        """What the next checkpoint must hold."""
        return {}

    def flush(self) -> None:
        """Asked before a checkpoint takes the place of the one before it."""

    def settle(self, arrays: dict[str, np.ndarray]) -> None:
        """A checkpoint with these arrays is on the disk."""

    def remove(self) -> None:
        """The run is over."""


class KeptLatents(Latents):
    """The file of a run and its journal.  A row of zeros was never visited: no chain comes to rest on exact zeros.

    Behind its array the file has a random number, by which a run knows its own, and the number of the checkpoint whose
    journal it took last.
    """

    def __init__(self, folder: Path, num_chains: int, num_rows: int, latent_dim: int):
        self.path, self.shape = folder / FILE, (num_chains, num_rows, latent_dim)
        self.journal = self._empty()
        self.run, self.block, self.checkpoint = 0, 0, 0
        self.values: Any = np.zeros((0, latent_dim), np.float32)
        self.stamp: Any = np.zeros(2, np.int64)
        self.lock = threading.Lock()

    def _empty(self) -> Journal:
        return Journal(np.zeros(0, np.int64), np.zeros((0, self.shape[2]), np.float32), np.zeros(0, np.int64))

    # Beginning and going on.

    def begin(self) -> None:
        """A new file of zeros.  All of its room is taken at once: a disk that is full tells now, in a sentence, and not
        by a signal when a page is written."""
        size = 4 * int(np.prod(self.shape))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("wb") as file:
                about = {"descr": "<f4", "fortran_order": False, "shape": self.shape}
                np.lib.format.write_array_header_1_0(file, about)
                _reserve(file, size + STAMP)
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            self.path.unlink(missing_ok=True)
            raise GpbaeError(
                f"Latents of {self.shape[1]} rows need {size / 1e9:.2g} GB in {self.path.parent}; got "
                f"{problem.strerror}. Make room, or pass latents='amortised', which keeps none."
            ) from problem
        self._open()
        self.run = self.stamp[0] = secrets.randbits(62)
        with _told(self.path):
            self.stamp.flush()

    def go_on(self, arrays: dict[str, np.ndarray]) -> None:
        """The file as it was at a checkpoint, whatever part of its journal it had taken."""
        try:
            self.run, number = int(arrays["kept.run"]), int(arrays["kept.checkpoint"])
            self._open()
        except KeyError:
            raise InputError(
                f"{self.path.parent} must hold a run that keeps latents as this release does; got one begun by another "
                "release: begin anew in another folder."
            ) from None
        except (OSError, ValueError) as problem:
            raise self._wrong(f"got {problem}") from None
        if self.stamp[0] != self.run:
            raise self._wrong("got that of another run")
        if (found := int(self.stamp[1])) not in (number - 1, number):
            raise self._wrong(f"got the one of checkpoint {found}")
        with _told(self.path):
            self._take(arrays)

    def _wrong(self, got: str) -> InputError:
        return InputError(
            f"{self.path} must be the file of latents that belongs to the checkpoint; {got}: lost, or not copied "
            "together with it. Copy the whole folder again, or begin anew in another one."
        )

    def _open(self) -> None:
        values = np.load(self.path, mmap_mode="r+", allow_pickle=False)
        if values.shape != self.shape or values.dtype != np.float32:
            raise ValueError(f"{values.dtype} of shape {values.shape}")
        self.values = values.reshape(-1, self.shape[2])
        self.stamp = np.memmap(self.path, np.int64, "r+", os.path.getsize(self.path) - STAMP, (2,))

    def remove(self) -> None:
        """A run that is over needs them no more."""
        self.values, self.stamp = np.zeros((0, self.shape[2]), np.float32), np.zeros(2, np.int64)
        self.path.unlink(missing_ok=True)

    # What a block reads and writes.

    def visited(self, numbers: np.ndarray) -> Visited:
        """Rows by number, axes (chain, ...), as the chains left them."""
        flat = numbers.reshape(len(numbers), -1)
        latents = np.zeros((*flat.shape, self.shape[2]), np.float32)
        places, slots = [], np.empty(flat.shape, np.int32)
        with self.lock:
            for chain, rows in enumerate(flat):
                distinct, back = np.unique(rows, return_inverse=True)
                here = distinct + chain * self.shape[1]
                latents[chain, : len(here)] = self.journal.overlay(here, self.values[here])
                slots[chain] = back.reshape(-1)
                places.append(here)
        return Visited(places, slots.reshape(numbers.shape), latents)

    def touch(self, numbers: np.ndarray) -> None:
        for chain, rows in enumerate(numbers.reshape(len(numbers), -1)):
            self.values[np.unique(rows) + chain * self.shape[1]]

    def write(self, visited: Visited, latents: np.ndarray, sound: np.ndarray) -> None:
        """What a block that counts left behind, of chains that are sound."""
        with self.lock:
            self.block += 1
            for chain in np.flatnonzero(sound):
                here = visited.places[chain]
                self.journal = self.journal.write(here, latents[chain, : len(here)], self.block)

    # Checkpoints.

    def is_full(self) -> bool:
        return len(self.journal.places) >= LARGEST_JOURNAL

    def arrays(self) -> dict[str, np.ndarray]:
        with self.lock:
            return {"kept.run": np.array(self.run), "kept.checkpoint": np.array(self.checkpoint + 1),
                    "kept.block": np.array(self.block), "kept.places": self.journal.places,
                    "kept.latents": self.journal.latents}  # fmt: skip

    def flush(self) -> None:
        """The journal of the checkpoint that will be gone is in the file for good."""
        with _told(self.path):
            self.values.flush()

    def settle(self, arrays: dict[str, np.ndarray]) -> None:
        with self.lock, _told(self.path):
            self._take(arrays)
            self.journal = self.journal.since(int(arrays["kept.block"]))

    def _take(self, arrays: dict[str, np.ndarray]) -> None:
        """The number first: whoever finds it knows which checkpoint can mend what follows."""
        self.checkpoint = int(arrays["kept.checkpoint"])
        self.stamp[1] = self.checkpoint
        self.stamp.flush()
        self.values[arrays["kept.places"]] = arrays["kept.latents"]


class _told:
    """A failed write as a sentence."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind, problem, trace) -> None:
        if isinstance(problem, OSError):
            raise GpbaeError(
                f"Could not write to {self.path}: {problem.strerror or problem}; the last checkpoint is intact. Mend "
                "the disk, then `gpbae resume`, or fit with the same run_dir, goes on from there."
            ) from problem


def _reserve(file, size: int) -> None:
    """Zeros to the end of the file, on the disk."""
    start = file.tell()
    if hasattr(os, "posix_fallocate"):
        file.flush()
        os.posix_fallocate(file.fileno(), start, size)
        return
    for done in range(0, size, len(ZEROS)):
        file.write(ZEROS[: size - done])
