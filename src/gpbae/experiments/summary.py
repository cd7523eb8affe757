"""Our numbers beside the paper's, as text."""

from collections.abc import Iterator, Sequence

import numpy as np

from gpbae.experiments.experiment import Experiment, Metric, Run

NONE = "–"
HEADER = ("model", "metric", "ours", "paper", "bar")


def table(experiment: Experiment, runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """A row per model and metric, ours beside the paper's; models that only the paper ran stand below."""
    mine = [run for run in runs if run.experiment == experiment.name]
    names = list(dict.fromkeys(run.model for run in mine))
    rows = [row for name in names for row in _model_rows(experiment, name, [r for r in mine if r.model == name])]
    for other, published in experiment.paper.items():
        if other not in names:
            title = experiment.models[other].title if other in experiment.models else other
            rows += [(title if i == 0 else "", _metric(experiment, metric).title, NONE, text, "")
                     for i, (metric, text) in enumerate(published.items())]  # fmt: skip
    return rows


def _metric(experiment: Experiment, name: str) -> Metric:
    return next(m for m in experiment.metrics if m.name == name)


def _model_rows(experiment: Experiment, name: str, runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    title = experiment.models[name].title
    for metric in experiment.metrics:
        values = [run.metrics[metric.name] for run in runs if metric.name in run.metrics]
        if values:
            published = experiment.paper.get(name, {}).get(metric.name, NONE)
            yield title, metric.title, mean_and_sd(values, metric.digits), published, _bar(experiment, name, metric)
            title = ""
    yield "", "seconds", mean_and_sd([run.seconds for run in runs], 0), "", ""


def mean_and_sd(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation over seeds; of one seed only the value."""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else mean


def _bar(experiment: Experiment, name: str, metric: Metric) -> str:
    low, high = experiment.bar(name, metric)
    if np.isfinite(low) and np.isfinite(high):
        return f"{low:g}–{high:g}"
    return f"≤ {high:g}" if np.isfinite(high) else f"≥ {low:g}" if np.isfinite(low) else ""
