"""Whole sweeps of a fit from memory-mapped files: rows gathered, handed over, sampled, the encoder taught."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpbae.estimators import SGPBAE
from gpbae.speed import apart
from gpbae.speed.shapes import Row, as_row
from gpbae.tabular.ondisk import OnDisk

ROWS_AT_A_TIME = 50_000
THINNING = 5
LATENTS = {"born": "amortised", "kept": "persistent"}
LENGTHS = (1_000, 100_000, 10_000_000)
MODEL = {"latent_dim": 2, "num_inducing": 16, "num_chains": 1, "sampler_steps": 10, "encoder_steps": 10,
         "batch_size": 256}  # fmt: skip


class Table(NamedTuple):
    """Curves, a share of whose cells is missing."""

    rows: int
    columns: int
    gaps: float = 0.0


def run(
    lengths: Sequence[int] = LENGTHS, columns: int = 10, repeats: int = 5, listener: Callable[[str], None] = print
) -> list[Row]:
    """A row for every length of the table, with latents born at every sweep and with latents kept in a file."""
    rows = []
    for words, latents in LATENTS.items():
        for length in lengths:
            started = time.perf_counter()
            found = sweeps(Table(length, columns, 0.1), MODEL | {"latents": latents}, repeats)
            rows.append(as_row(f"latents {words}", {"rows": length, **found}, time.perf_counter() - started))
            listener(f"{length} rows on disk, latents {words}: {found['sweep_cpu_ms']:.2f} ms of CPU per sweep")
    return rows


def sweeps(table: Table, arguments: dict[str, Any], repeats: int) -> dict[str, float]:
    """Milliseconds per sweep and memory of a fit with these arguments, in a process of its own."""
    return apart.called(_sweeps_here, table, arguments, repeats)


def _sweeps_here(table: Table, arguments: dict[str, Any], repeats: int) -> dict[str, float]:
    clock: list[tuple[float, float]] = []
    held: list[float] = []

    def listener(event: dict[str, Any]) -> None:
        held.append(apart.held_megabytes())
        if event["phase"] == "sampling":
            clock.append((time.perf_counter(), time.process_time()))

    model = SGPBAE(num_warmup=4 * THINNING, num_samples=4 * repeats + 1, thinning=THINNING, num_map_steps=50,
                   progress=listener, **arguments)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        model.fit(*_files(Path(folder), table))
    wall, cpu = 1e3 * np.diff(clock, axis=0).min(axis=0) / THINNING  # the least, as of all others
    return {"sweep_ms": float(wall), "sweep_cpu_ms": float(cpu), "megabytes": max(held),
            "peak_megabytes": apart.peak_megabytes()}  # fmt: skip


def _files(folder: Path, table: Table) -> tuple[OnDisk, OnDisk]:
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (table.rows, 1))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (table.rows, table.columns))
    rng, columns = np.random.default_rng(0), np.arange(table.columns, dtype=np.float32)
    for start in range(0, table.rows, ROWS_AT_A_TIME):
        part = rng.uniform(0, 10, (min(ROWS_AT_A_TIME, table.rows - start), 1)).astype(np.float32)
        cells = np.sin(part + columns) + 0.1 * rng.standard_normal((len(part), table.columns), np.float32)
        if table.gaps:
            cells[rng.random(cells.shape, np.float32) < table.gaps] = np.nan
        x[start : start + len(part)], y[start : start + len(part)] = part, cells
    x.flush()
    y.flush()
    return OnDisk(folder / "x.npy"), OnDisk(folder / "y.npy")
