"""Processor time of a sweep and peak memory of a fit from disk, for tables of growing length.

    python benchmarks/ondisk.py [--rows 1000 100000 10000000] [--columns 10] [--out DIR]

Each fit is a process of its own.  Times are of the sampling phase, by the processor's clock, which neighbours disturb
least; reading and prefetching rows is part of them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHUNK = 500_000
THINNING = 5


def make(folder, num_rows, num_columns):
    """A table of curves with gaps, written in chunks."""
    rng = np.random.default_rng(0)
    x = np.lib.format.open_memmap(f"{folder}/x.npy", "w+", np.float32, (num_rows, 1))
    y = np.lib.format.open_memmap(f"{folder}/y.npy", "w+", np.float32, (num_rows, num_columns))
    for start in range(0, num_rows, CHUNK):
        part = rng.uniform(0, 10, (min(CHUNK, num_rows - start), 1)).astype(np.float32)
        cells = np.sin(part + np.arange(num_columns, dtype=np.float32))
        cells += 0.1 * rng.standard_normal(cells.shape, np.float32)
        cells[rng.random(cells.shape, np.float32) < 0.1] = np.nan
        x[start : start + len(part)], y[start : start + len(part)] = part, cells
    x.flush()
    y.flush()


def measure(folder):
    from gpbae import SGPBAE
    from gpbae.ondisk import OnDisk

    clock, held = [], []

    def listener(event):
        held.append(own_megabytes())
        if event["phase"] == "sampling":
            clock.append((time.process_time(), time.perf_counter()))

    SGPBAE(latent_dim=2, num_inducing=16, num_chains=1, num_warmup=4 * THINNING, num_samples=25, thinning=THINNING,
           sampler_steps=10, encoder_steps=10, num_map_steps=50, batch_size=256, progress=listener).fit(
        OnDisk(f"{folder}/x.npy"), OnDisk(f"{folder}/y.npy"))  # fmt: skip
    cpu, wall = 1e3 * np.median(np.diff(np.array(clock), axis=0), axis=0) / THINNING
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"sweep_cpu_ms": cpu, "sweep_ms": wall, "own_megabytes": max(held), "peak_megabytes": peak}))


def own_megabytes():
    """Memory of the process but for pages of mapped files, which the system takes back when it needs them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        return measure(given.measure)
    rows = []
    for num_rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            make(folder, num_rows, given.columns)
            started = time.perf_counter()
            command = [sys.executable, __file__, "--measure", folder]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(num_rows, found, flush=True)
        rows.append({"experiment": "on disk", "model": "SGP-BAE", "seed": 0, "seconds": time.perf_counter() - started,
                     "metrics": {"rows": num_rows, **found}})  # fmt: skip
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
