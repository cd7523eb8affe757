"""Rows per second and peak memory of predict, impute and encode, for tables of growing length.

    python benchmarks/rows.py [--rows 10000 100000 1000000] [--questions predict impute encode] [--out DIR]

Every figure comes from a process of its own, so that its peak memory is its own.  Rows are made up chunk by chunk and
answers (mean and sd of every cell) are thrown away: what is measured is the model, not the disk.
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

NUM_COLUMNS = 5


def curves(x, rng):
    y = np.sin(x + np.arange(NUM_COLUMNS)) + 0.1 * rng.standard_normal((len(x), NUM_COLUMNS))
    y[rng.random(y.shape) < 0.2] = np.nan
    return y


def fit(folder):
    from gpbae import SGPBAE

    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 300))[:, None]
    SGPBAE(latent_dim=2, num_inducing=16, num_chains=2, num_warmup=40, num_samples=40, thinning=1,
           progress=False).fit(x, curves(x, rng)).save(folder)  # fmt: skip


def measure(folder, question, num_rows):
    import gpbae

    model, rng = gpbae.load(folder), np.random.default_rng(1)
    size = model.rows_per_block(question)

    def chunks():
        for start in range(0, num_rows, size):
            x = rng.uniform(0, 10, (min(size, num_rows - start), 1))
            yield x, curves(x, rng), None

    answers = model.stream(question, chunks())
    first = next(answers)
    _ = first.mean, first.sd  # compiled, and warm
    started, cpu = time.perf_counter(), time.process_time()
    done = 0
    for answer in answers:
        done += len(answer.mean)
        _ = answer.sd
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": num_rows, "rows_per_second": done / seconds, "rows_per_cpu_second": done / cpu,
                      "peak_megabytes": peak, "rows_per_block": size, "seconds": seconds}))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--questions", nargs="+", default=["predict", "impute", "encode"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        return measure(given.measure[0], given.measure[1], int(given.measure[2]))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        fit(f"{folder}/model")
        for question in given.questions:
            for num_rows in given.rows:
                command = [sys.executable, __file__, "--measure", f"{folder}/model", question, str(num_rows)]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                speed, by_cpu = found["rows_per_second"], found["rows_per_cpu_second"]
                peak = found["peak_megabytes"]
                print(f"{question} {num_rows}: {speed:.0f} rows/s ({by_cpu:.0f} by CPU), {peak:.0f} MB", flush=True)
                rows.append({"experiment": question, "model": "SGP-BAE", "seed": 0, "seconds": found.pop("seconds"),
                             "metrics": found})  # fmt: skip
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
