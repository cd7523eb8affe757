"""The page of a reproduction: for each experiment its numbers beside the paper's, its figures, and its settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpbae import report
from gpbae.experiments import summary
from gpbae.experiments.experiment import Experiment, Run
from gpbae.report import charts, count

WIDE = 640


def text(
    experiments: Sequence[Experiment], budget: str, runs: Sequence[Run], pictures: Mapping[str, Mapping[str, Path]]
) -> str:
    """One HTML file that asks nothing of the network."""
    num_seeds = len({run.seed for run in runs})
    lead = (
        f"{count(len(experiments), 'experiment')} of Tran, Shahbaba, Mandt and Filippone (ICML 2023), run with the "
        f"{budget} budget and {count(num_seeds, 'seed')}, sampled at temperature 1 unless a model says otherwise."
    )
    sections = []
    for experiment in experiments:
        mine = [run for run in runs if run.experiment == experiment.name]
        sections += [_result(experiment, mine, pictures[experiment.name]), _trust(experiment, mine),
                     _settings(experiment, mine)]  # fmt: skip
    return report.html("The paper's experiments, reproduced", lead, sections)


def _result(experiment: Experiment, runs: Sequence[Run], pictures: Mapping[str, Path]) -> report.Section:
    rows = summary.table(experiment, runs)
    shown = [report.Picture(pictures[plot.name], plot.alt, plot.caption, least_width=WIDE)
             for plot in experiment.plots if plot.name in pictures]  # fmt: skip
    caption = "Mean and standard deviation over seeds, beside what the paper printed."
    return report.Section(experiment.title, [experiment.about], [report.Table(summary.HEADER, rows, caption)],
                          pictures=shown)  # fmt: skip


def _trust(experiment: Experiment, runs: Sequence[Run]) -> report.Section:
    first = {run.model: run for run in reversed(runs)}
    blocks = {name: {block: (found[0], found[1]) for block, found in run.temperatures.items()}
              for name, run in first.items()}  # fmt: skip
    notes = list(dict.fromkeys(f"{run.model}, seed {run.seed}: {words}" for run in runs for words in run.warnings))
    name = f"temperatures-{experiment.name}"
    shown = [report.Chart(name, charts.temperatures(blocks), report.CAPTION_OF_TEMPERATURES)]
    return report.Section(f"{experiment.title}: is it to be trusted?", [report.ABOUT_TEMPERATURE], notes=notes,
                          charts=shown)  # fmt: skip


def _settings(experiment: Experiment, runs: Sequence[Run]) -> report.Section:
    first = {run.model: run.settings for run in reversed(runs)}
    names = list(dict.fromkeys(name for settings in first.values() for name in settings))
    rows = [(name, *(" ".join(s.get(name, "").split()) for s in first.values())) for name in names]
    return report.Section(f"{experiment.title}: what was run", tables=[report.Table(("setting", *first), rows)])
