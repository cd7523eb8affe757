"""Our numbers beside the paper's, as text."""

from collections.abc import Iterator, Sequence

import numpy as np

from gpbae.experiments.experiment import Experiment, Metric, Run
from gpbae.report import Table, count

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


def across(experiment: Experiment, runs: Sequence[Run]) -> Table:
    """The same with a row per model, for the documentation: every metric beside the paper's, and seconds by seed."""
    mine = [run for run in runs if run.experiment == experiment.name]
    shown = [m for m in experiment.metrics if any(m.name in run.metrics for run in mine)]
    header = [text for m in shown for text in (m.title, *(["paper"] if _is_published(experiment, m) else []))]
    rows = []
    for name in dict.fromkeys(run.model for run in mine):
        own = [run for run in mine if run.model == name]
        cells = [cell for m in shown for cell in _beside(experiment, name, own, m)]
        rows.append((experiment.models[name].title, *cells, _range([run.seconds for run in own])))
    caption = f"{experiment.title}: mean ± standard deviation over {count(len({r.seed for r in mine}), 'seed')}"
    return Table(("model", *header, "seconds"), rows, caption)


def _is_published(experiment: Experiment, metric: Metric) -> bool:
    return any(metric.name in published for published in experiment.paper.values())


def _beside(experiment: Experiment, name: str, runs: Sequence[Run], metric: Metric) -> list[str]:
    values = [run.metrics[metric.name] for run in runs if metric.name in run.metrics]
    ours = mean_and_sd(values, metric.digits) if values else NONE
    published = experiment.paper.get(name, {}).get(metric.name, NONE)
    return [ours, published] if _is_published(experiment, metric) else [ours]


def _range(seconds: Sequence[float]) -> str:
    low, high = (f"{end:.0f}" for end in (min(seconds), max(seconds)))
    return low if low == high else f"{low} to {high}"


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
