"""Rows per second and peak memory of predict, impute and encode, for tables of growing length.

Every figure comes from a process of its own.  Rows are made up chunk by chunk and answers (mean and sd of every cell)
are thrown away: what is measured is the model, not the disk.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from gpbae.estimators import SGPBAE
from gpbae.saving import io
from gpbae.speed import apart
from gpbae.speed.shapes import Row, as_row

QUESTIONS = ("predict", "impute", "encode")
LENGTHS = (10_000, 100_000, 1_000_000)
NUM_COLUMNS = 5


def run(
    lengths: Sequence[int] = LENGTHS, questions: Sequence[str] = QUESTIONS, num_draws: int | None = None,
    listener: Callable[[str], None] = print,
) -> list[Row]:  # fmt: skip
    """A row for every question and length."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        apart.called(_fit, model)
        for question in questions:
            for length in lengths:
                started = time.perf_counter()
                found = apart.called(_ask, model, question, length, num_draws)
                rows.append(as_row(question, {"rows": length, **found}, time.perf_counter() - started))
                listener(f"{question}, {length} rows: {found['rows_per_cpu_second']:.0f} per second of processor time")
    return rows


def _fit(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 300))[:, None]
    SGPBAE(latent_dim=2, num_inducing=16, num_chains=2, num_warmup=40, num_samples=40, thinning=1,
           progress=False).fit(x, _curves(x, rng)).save(folder)  # fmt: skip


def _curves(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = np.sin(x + np.arange(NUM_COLUMNS)) + 0.1 * rng.standard_normal((len(x), NUM_COLUMNS))
    y[rng.random(y.shape) < 0.2] = np.nan
    return y


def _chunks(num_rows: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray, None]]:
    rng = np.random.default_rng(1)
    for start in range(0, num_rows, size):
        x = rng.uniform(0, 10, (min(size, num_rows - start), 1))
        yield x, _curves(x, rng), None


def _ask(folder: Path, question: str, num_rows: int, num_draws: int | None) -> dict[str, float]:
    model = io.load(folder)
    size = model.rows_per_block(question, num_draws)
    for answer in model.stream(question, _chunks(size, size), num_draws):  # compiled, and warm
        _ = answer.mean, answer.sd
    began, worked = time.perf_counter(), time.process_time()
    done = 0
    for answer in model.stream(question, _chunks(num_rows, size), num_draws):
        done += len(answer.mean)
        _ = answer.sd
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return {"rows_per_second": done / seconds, "rows_per_cpu_second": done / cpu, "rows_per_block": size,
            "peak_megabytes": apart.peak_megabytes()}  # fmt: skip
