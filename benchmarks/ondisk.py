"""Processor time of a sweep and peak memory of a fit from disk, for tables of growing length.

    python benchmarks/ondisk.py [--rows 1000 100000 10000000] [--columns 10] [--out DIR]
                                [--impute DRAWS] [--most 1000000] [--kept]

Each fit is a process of its own.  Times are of the sampling phase, by the processor's clock, which neighbours disturb
least; reading and prefetching rows is part of them.  With --impute the gaps of the table (of its first
--most rows) are filled by so many draws and the filled table is written to disk.  With --kept rows keep their latents,
else these are born at every sweep.
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


def fill(model, folder, num_draws, most):
    """The gaps of the table, to a file of its own: rows per second of processor time."""
    x, y = (np.load(f"{folder}/{name}.npy", mmap_mode="r")[:most] for name in "xy")
    out = np.lib.format.open_memmap(f"{folder}/filled.npy", "w+", np.float32, y.shape)
    size = model.rows_per_block("impute", num_draws)
    chunks = ((np.array(x[s : s + size]), np.array(y[s : s + size]), None) for s in range(0, len(y), size))
    done, held, started, began = 0, 0.0, time.process_time(), time.perf_counter()
    for answer in model.stream("impute", chunks, num_draws):
        filled = np.asarray(answer.filled)
        assert np.isfinite(filled).all()
        out[done : done + len(filled)] = filled
        done, held = done + len(filled), max(held, own_megabytes())
        if (done // size) % 50 == 0:
            print(done, held, time.process_time() - started, file=sys.stderr, flush=True)
    out.flush()
    cpu, wall = time.process_time() - started, time.perf_counter() - began
    return {"imputed_rows": done, "imputed_rows_per_cpu_second": done / cpu, "impute_seconds": wall,
            "impute_own_megabytes": held}  # fmt: skip


def measure(folder, num_draws, most, latents):
    from gpbae import SGPBAE
    from gpbae.tabular.ondisk import OnDisk

    clock, held = [], []

    def listener(event):
        held.append(own_megabytes())
        if event["phase"] == "sampling":
            clock.append((time.process_time(), time.perf_counter()))

    started = time.process_time()
    model = SGPBAE(latent_dim=2, num_inducing=16, num_chains=1, num_warmup=4 * THINNING, num_samples=25,
                   thinning=THINNING, sampler_steps=10, encoder_steps=10, num_map_steps=50, batch_size=256,
                   latents=latents, progress=listener)  # fmt: skip
    model.fit(OnDisk(f"{folder}/x.npy"), OnDisk(f"{folder}/y.npy"))
    cpu, wall = 1e3 * np.median(np.diff(np.array(clock), axis=0), axis=0) / THINNING
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"sweep_cpu_ms": cpu, "sweep_ms": wall, "own_megabytes": max(held), "peak_megabytes": peak,
             "fit_cpu_seconds": time.process_time() - started}  # fmt: skip
    print(found, file=sys.stderr, flush=True)
    print(json.dumps(found | (fill(model, folder, num_draws, most) if num_draws else {})))


def own_megabytes():
    """Memory of the process but for pages of mapped files, which the system takes back when it needs them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--impute", type=int, default=0, metavar="DRAWS")
    parser.add_argument("--most", type=int, default=1_000_000, help="rows to fill")
    parser.add_argument("--kept", action="store_true", help="rows keep their latents")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        return measure(given.measure, given.impute, given.most, "persistent" if given.kept else "amortised")
    rows = []
    for num_rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            make(folder, num_rows, given.columns)
            started = time.perf_counter()
            command = [
                sys.executable,
                __file__,
                "--measure",
                folder,
                "--impute",
                str(given.impute),
                "--most",
                str(given.most),
                *(["--kept"] if given.kept else []),
            ]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(num_rows, found, flush=True)
        rows.append({"experiment": "on disk", "model": "SGP-BAE", "seed": 0, "seconds": time.perf_counter() - started,
                     "metrics": {"rows": num_rows, **found}})  # fmt: skip
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
