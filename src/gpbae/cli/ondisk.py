"""`gpbae fit` of tables that stay on disk: when, what is not possible there, and the fit itself."""

import contextlib
import glob
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpbae.cli import arguments, copying, notices, pieces, reading, roles, runs, terminal
from gpbae.cli.copying import Source
from gpbae.errors import InputError
from gpbae.processes import progress
from gpbae.sampling import outofcore
from gpbae.saving import runfolder, sametable, storage, tablefolder
from gpbae.tabular import choice, tables, transforms
from gpbae.tabular.ondisk import OnDisk

LARGEST_IN_MEMORY = 50_000_000
"""Cells.  Text in memory takes some 60 bytes for each."""
MODELS = {"BAE": "bae", "SGPBAE": "sgp-bae", "DSGPBAE": "dsgp-bae"}
MOST_LATENTS = 8
LIBRARIES, OF_TEXT = 1_300_000_000, 100
"""Bytes that libraries and the compiler take, and those of a cell while it is copied."""


def is_wanted(path: Path, asked: bool | None) -> bool:
    """Whether a table is to stay on disk: as asked, else by its cells."""
    if asked is not None or not pieces.has_pieces(path):
        return bool(asked)
    if path.suffix.lower() == ".csv" and path.stat().st_size < 2 * LARGEST_IN_MEMORY:
        return False  # a cell takes a character, and a comma or the end of a line
    return pieces.num_rows(path) * pieces.num_columns(path) > LARGEST_IN_MEMORY


def check(path: Path, model: Any, evaluates: bool, distributed: bool) -> None:
    """Refuse what needs all rows at once, before the work."""
    if not pieces.has_pieces(path):
        raise InputError(f"--on-disk takes a .csv, .parquet or .npy table; got {path.name}. Save it as one of these.")
    what = f"{path.name} stays on disk (--on-disk, or more than {LARGEST_IN_MEMORY // 1_000_000} million cells)"
    if model.name not in MODELS:
        raise InputError(
            f"{what} and so needs a model that sees some rows at a time, {', '.join(MODELS.values())}; got "
            f"{model.value}. Name one of these with --model, or hold the table in memory with --in-memory."
        )
    if evaluates:
        raise InputError(
            f"{what}, where --evaluate cannot hide cells of it. Fit without --evaluate, and evaluate a fit to a file "
            "of some of its rows; or hold the table in memory with --in-memory."
        )
    if distributed:
        raise InputError(
            f"{what}, and --distributed is for tables in memory. Fit in one process, whose chains share its cores; or "
            "hold the table in memory with --in-memory."
        )


class Sample(NamedTuple):
    """Outputs by which the arguments of a model are chosen."""

    y: Any


class Fit(NamedTuple):
    """A source, the folder of its run, what makes a model of outputs (the estimator, and which arguments were given),
    and what the fit was told but for these."""

    source: Source
    out: Path
    make: Callable[[Any], tuple[Any, list[str]]]
    told: runs.Given
    quiet: bool = False

    def run(self, log: Callable[[dict], None]) -> None:
        """Copy the table unless it is there, then sample."""
        runfolder.make(self.out)
        opened, is_new = self._opened(log)
        x, y, groups = opened
        estimator, given = self._made(_some(y, groups))
        seen = tables.observations(_some(y, groups))
        transform = transform_of_all(estimator, seen, y)
        if not is_new:
            self._announce(estimator, (x, y), len(y))
        some = _some(y, groups)
        news = (*notices.before_fit(estimator, some, transform), *notices.of_latents(estimator, given))
        for sentence in notices.of_codes(some) if self.quiet else news:
            terminal.say(sentence)
        estimator.set_params(transform=transform)
        told = self.told._replace(names=given)
        with runs.begun(self._columns(), told, self.out):
            runs.sample(estimator, (x, y, groups), self.out, self.quiet, log)
        runs.keep_given(told, self.out)

    def _opened(self, log: Callable[[dict], None]) -> tuple[Any, bool]:
        """The copy of this very file, and whether it had to be made."""
        lock = storage.Lock(self.out)
        try:
            tablefolder.clear(self.out)  # before room is counted
            with contextlib.suppress(InputError):  # none, or not whole
                if tablefolder.manifest(self.out)["notes"].get("source") == self.source.identity():
                    return tablefolder.reopen(self.out), False
            self._copy(log)
            return tablefolder.reopen(self.out), True
        finally:
            lock.release()

    def _columns(self) -> roles.Columns:
        return roles.Columns.from_json(json.dumps(tablefolder.manifest(self.out)["notes"]["columns"]).encode())

    def _copy(self, log: Callable[[dict], None]) -> None:
        begun = runfolder.has_table(self.out)
        if begun and not sametable.is_on_disk(self.out):
            raise InputError(f"{self.out} was begun with a table in memory; pass --in-memory, or name a new folder.")
        identity = self.source.identity()
        head = copying.head(self.source)
        read = () if self.quiet else reading.in_words(head.columns)
        for sentence in (*read, *notices.of_series(head), *notices.of_labels(head)):
            terminal.say(sentence)
        estimator, num_rows = self._made(head.y)[0], pieces.num_rows(self.source.path)
        self._announce(estimator, (head.x, head.y), num_rows)
        self._check_room(head, latents_bytes(estimator, (num_rows, *head.y.shape[1:])))
        stopped = "Stopped while the table was copied; the same command begins the copy again."
        with runs.stoppable(stopped), progress.display("gpbae", not self.quiet) as show:
            copying.copy(self.source, head, self.out, progress.both(show, log), begun, identity)

    def _made(self, y: Any) -> tuple[Any, list[str]]:
        """A sweep costs what a short table's does, so there are as many."""
        estimator, given = self.make(Sample(y))
        lengths = arguments.short_run(outofcore.BATCH)
        estimator.set_params(**{name: value for name, value in lengths.items() if name not in given})
        if getattr(estimator, "latent_coordinates", "latents") != "latents":
            raise InputError(
                "latent_coordinates='seeds' needs all rows at once. Leave it out, or hold the table in memory with "
                "--in-memory."
            )
        return estimator, given

    def _announce(self, estimator: Any, xy: tuple[Any, Any], num_rows: int) -> None:
        if self.quiet:
            return
        num_cells = sum(0 if part is None else part.shape[1] for part in xy)
        shape = (num_rows, *xy[1].shape[1:])
        num_visits = outofcore.num_visits_of_a_sweep(estimator, shape)
        at_once = outofcore.sweeps_at_once(estimator, shape) * (num_visits or 1)
        latents = "every row keeps its latents, on disk too," if num_visits else "latents are amortised,"
        terminal.say(
            f"The table stays on disk: {self._most}{num_rows} rows in {self.out / tablefolder.TABLE}, of which the "
            f"chains see some at a time; {latents} and memory stays below about "
            f"{memory(estimator, num_cells, at_once) / 1e9:.1f} GB, however many rows there are."
        )

    @property
    def _most(self) -> str:
        """How many rows lie in a stretch is known when they are copied."""
        return "" if self.source.wish.first is None and self.source.wish.last is None else "at most "

    def _check_room(self, head: reading.Table, of_latents: int) -> None:
        columns, width = head.columns, copying.precision(head).itemsize
        row = 8 * len(columns.inputs) + width * len(columns.outputs) + 4 * (columns.groups is not None)
        needed, free = row * pieces.num_rows(self.source.path) + of_latents, shutil.disk_usage(self.out).free
        if not self._most and needed > free:
            raise InputError(
                f"The copy of the table and latents of its rows need {needed / 1e9:.1f} GB in {self.out}; got "
                f"{free / 1e9:.1f} GB. Make room, or name a folder on another disk with --out."
            )


def memory(estimator: Any, num_cells: int, num_batches: int) -> int:
    """Bytes that a fit takes at most, more or less: libraries, the piece that is copied, the sample and what is found
    from it, and rows of three times as many batches of each chain as are computed at once."""
    rows = estimator.num_chains * (estimator.batch_size or outofcore.BATCH) * num_batches
    return LIBRARIES + OF_TEXT * copying.CELLS_AT_A_TIME + 8 * num_cells * (8 * outofcore.SAMPLE + 3 * rows)


def latents_bytes(estimator: Any, shape: tuple[int, ...]) -> int:
    """Of the file in which rows keep their latents, where they do; as many latents as a fit would choose at most,
    where none were asked for."""
    if not outofcore.num_visits_of_a_sweep(estimator, shape):
        return 0
    return 4 * shape[0] * (estimator.latent_dim or MOST_LATENTS) * estimator.num_chains


def _some(y: OnDisk, groups: tables.Groups | None) -> Any:
    """The rows by which a fit chooses scales and starts, as a data frame."""
    return y.sample(outofcore.chosen_rows(outofcore.labels_of(groups, len(y)), len(y)))


def transform_of_all(estimator: Any, seen: tables.Observations, y: OnDisk) -> Any:
    """The transform that was asked for, if all rows have one; of "auto", the logarithm that the lowest value of all
    rows lets a column have.  Cells that the likelihood chosen by the sample gives no probability, and logarithms
    that were asked for and cannot be, are refused here, not in the midst of the fit."""
    likelihood, _ = choice.choose(estimator.likelihood, seen)
    names = tuple(map(str, seen.frame.names()))
    lowest, rows = _lowest(y, likelihood, names)
    are_real = np.array([kind == "real" for kind in likelihood.kinds(y.shape[1])])
    asked = [transforms.word(estimator.transform, name) for name in names]
    for i in np.flatnonzero(are_real):
        _refuse_logarithm(asked[i], names[i], float(lowest[i]), int(rows[i]))
    found = estimator._transforms(seen, are_real) or [transforms.Identity()] * len(names)
    by_sample = {transforms.Log: "log", transforms.Log1p: "log1p"}
    words = [by_sample.get(type(t), "none") if word == "auto" else word for word, t in zip(asked, found, strict=True)]
    by_all = [_of_all(word, lowest[i]) if asked[i] == "auto" else word for i, word in enumerate(words)]
    if by_all == words:
        return estimator.transform
    return {glob.escape(name): word for name, word in zip(names, by_all, strict=True) if word != "none"} or "none"


def _lowest(y: OnDisk, likelihood: Any, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The lowest value of every column and the row that holds it, from 0 on; every cell is checked on the way."""
    lowest, rows, start = np.full(y.shape[1], np.inf), np.zeros(y.shape[1], int), 0
    for values in y.blocks():
        mask = ~np.isnan(values)
        likelihood.check(values, mask, names)
        known = np.where(mask, values, np.inf)
        here, is_lower = known.min(axis=0), known.min(axis=0) < lowest
        lowest, rows = np.where(is_lower, here, lowest), np.where(is_lower, start + known.argmin(axis=0), rows)
        start += len(values)
    return lowest, rows


def _refuse_logarithm(word: str, name: str, lowest: float, row: int) -> None:
    if lowest <= 0 if word == "log" else lowest < 0 and word == "log1p":
        needed = "above 0" if word == "log" else "from 0 on"
        instead = "log1p" if lowest == 0 else "yeo-johnson"
        raise InputError(
            f"transform {word!r} needs values {needed}; got {lowest:g} in column {name!r}, row {row + 1} of those "
            f"copied. Use --transform {shlex.quote(f'{name}={instead}')}, or mark the cell as missing."
        )


def _of_all(word: str, lowest: float) -> str:
    """A logarithm that "auto" found for the sample of a column, as all rows of it let it be."""
    if word not in ("log", "log1p") or lowest < 0:
        return "none"
    return "log" if lowest > 0 else "log1p"
