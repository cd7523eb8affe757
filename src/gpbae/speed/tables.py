"""Measurements as tables, for the screen, the page and the documentation."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from gpbae.report import Table
from gpbae.speed import targets
from gpbae.speed.shapes import Row


class Column(NamedTuple):
    """A heading, the metric under it, and how it is written."""

    title: str
    metric: str
    written: str = ".2f"

    def cell(self, row: Row) -> str:
        value = row["metrics"].get(self.metric)
        return "" if value is None else format(value, self.written)


STEPS = (
    Column("step, ms", "step_ms"), Column("gradient, ms", "gradient_ms"), Column("products, ms", "products_ms"),
    Column("step ÷ products", "step_over_products"), Column("step ÷ gradient", "step_over_gradient"),
    Column("sweep ÷ K, ms", "sweep_ms"), Column("spread", "spread", ".0%"), Column("CPU: step, ms", "step_cpu_ms"),
    Column("CPU: ÷ products", "cpu_over_products"),
)  # fmt: skip
ENCODERS = tuple(column for column in STEPS if column.metric != "sweep_ms")
CHAINS = (Column("chains", "chains", ".0f"), Column("devices", "devices", ".0f"), Column("one, ms", "one_ms"),
          Column("all, ms", "all_ms"), Column("all ÷ one", "over_one"))  # fmt: skip
STARTS = (Column("seconds", "start_seconds"), Column("CPU seconds", "start_cpu_seconds"))
FITS = (
    Column("first sweep, s", "first_sweep_seconds"), Column("since the fit began, s", "sweep_since_fit_seconds"),
    Column("since the fit began, CPU s", "sweep_since_fit_cpu_seconds"), Column("whole command, s", "start_seconds"),
    Column("whole command, CPU s", "start_cpu_seconds"),
)  # fmt: skip
QUESTIONS = (
    Column("rows", "rows", ".0f"), Column("rows per CPU second", "rows_per_cpu_second", ".0f"),
    Column("rows per second", "rows_per_second", ".0f"), Column("peak MB", "peak_megabytes", ".0f"),
)  # fmt: skip
DISK = (
    Column("rows", "rows", ".0f"), Column("CPU ms per sweep", "sweep_cpu_ms"), Column("ms per sweep", "sweep_ms"),
    Column("MB but for mapped files", "megabytes", ".0f"), Column("peak MB", "peak_megabytes", ".0f"),
)  # fmt: skip
POINTS = (Column("n", "n", ".0f"), Column("step, CPU ms", "step_cpu_ms", ".3f"), Column("step, ms", "step_ms", ".3f"),
          Column("MB", "megabytes", ".1f"))  # fmt: skip
SLOPES = (
    Column("time ∝ n^", "time_slope"), Column("last two", "last_time_slope"), Column("memory ∝ n^", "memory_slope"),
    Column("last two ", "last_memory_slope"), Column("time ±", "time_around_middle", ".1%"),
    Column("memory ±", "memory_around_middle", ".1%"),
)  # fmt: skip


def table(caption: str, columns: Sequence[Column], rows: Sequence[Row], strip: str = "") -> Table:
    """A row for each measurement, with what was wanted of it and whether it is met, where something was."""
    wanted = any(targets.of(row) for row in rows)
    header = ("", *(column.title for column in columns), *(("target", "met") if wanted else ()))
    cells = [(row["experiment"].removeprefix(strip), *(column.cell(row) for column in columns),
              *((targets.words(row), targets.met(row)) if wanted else ())) for row in rows]  # fmt: skip
    return Table(header, cells, caption)


def summary(rows: Sequence[Row], quick: bool = False) -> Table:
    found = Table(("", "measured", "target", "met"), targets.summary(list(rows)), "What was wanted")
    return unjudged(found) if quick else found


def unjudged(shown: Table) -> Table:
    """Of a first impression: smaller sizes and few repetitions neither meet a target nor miss it."""
    if shown.header[-1] != "met":
        return shown
    return dataclasses.replace(shown, rows=[(*row[:-1], "quick" if row[-1] else "") for row in shown.rows])
