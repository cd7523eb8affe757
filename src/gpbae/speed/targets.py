"""What was wanted of each measurement, said beside what was found; nothing fails because of it."""

from collections.abc import Callable
from typing import NamedTuple

from gpbae.speed.shapes import Row


class Target(NamedTuple):
    """The most that a metric of an experiment should be, in words, and how the metric is written."""

    experiment: str
    metric: str
    most: float
    words: str
    written: Callable[[float], str]


def _times(value: float) -> str:
    return f"{value:.2f} ×"


def _milliseconds(value: float) -> str:
    return f"{value:.2f} ms"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _percent(value: float) -> str:
    return f"±{100 * value:.1f} %"


TARGETS = (
    Target("ball", "step_over_products", 1.3, "≤ 1.3 × products", _times),
    Target("mnist", "step_over_products", 2.5, "≤ 2.5 × products", _times),
    Target("jura", "step_ms", 1.0, "≤ 1 ms", _milliseconds),
    Target("ball, encoder", "step_over_products", 1.3, "≤ 1.3 × products", _times),
    Target("mnist, encoder", "step_over_products", 2.5, "≤ 2.5 × products", _times),
    Target("jura, encoder", "step_ms", 1.0, "≤ 1 ms", _milliseconds),
    Target("jura, chains", "over_one", 2.2, "≤ 2.2 × one chain", _times),
    Target("import gpbae", "start_seconds", 1.5, "≤ 1.5 s", _seconds),
    Target("import gpbae, a model", "start_seconds", 1.5, "≤ 1.5 s", _seconds),
    Target("gpbae --help", "start_seconds", 0.8, "≤ 0.8 s", _seconds),
    Target("gpbae fit, second", "first_sweep_seconds", 2.0, "first sweep ≤ 2 s", _seconds),
    Target("slopes in N, rows on disk", "time_around_middle", 0.1, "time ±10 %", _percent),
    Target("slopes in N, rows on disk", "memory_around_middle", 0.1, "memory ±10 %", _percent),
)


def of(row: Row) -> list[Target]:
    return [target for target in TARGETS if target.experiment == row["experiment"] and target.metric in row["metrics"]]


def words(row: Row) -> str:
    return ", ".join(target.words for target in of(row))


def met(row: Row) -> str:
    """Of several, each in its place."""
    return ", ".join("yes" if row["metrics"][target.metric] <= target.most else "no" for target in of(row))


def summary(rows: list[Row]) -> list[tuple[str, str, str, str]]:
    """Every target that was measured: of what, what was found, what was wanted, whether it is met."""
    return [(row["experiment"], target.written(row["metrics"][target.metric]), target.words,
             "yes" if row["metrics"][target.metric] <= target.most else "no")
            for row in rows for target in of(row)]  # fmt: skip
