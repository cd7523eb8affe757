"""`gpbae reproduce`: the paper's experiments from one command each."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpbae.cli import reading, runs, terminal

if TYPE_CHECKING:
    from gpbae.experiments.experiment import Experiment

ALL = "all"
BUDGETS = ("quick", "full")
HIDDEN_BUDGETS = ("smoke",)  # for tests: seconds, and meaningless numbers
SEEDS = {"full": 4}


class Name(StrEnum):
    """Known without loading anything; a test holds it against the catalogue."""

    MOVING_BALL = "moving-ball"
    ROTATED_MNIST = "rotated-mnist"
    EEG = "eeg"
    JURA = "jura"
    ALL = "all"


app = typer.Typer()


@app.command(epilog="Example: gpbae reproduce eeg --models sgp-bae,dsgp-bae --budget quick --out eeg")
def reproduce(
    name: Annotated[Name, typer.Argument(help="Which experiment of the paper.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to; what is done there is not done again.",
                                      file_okay=False)],
    models: Annotated[str, typer.Option(help="Models, separated by commas, or all.")] = ALL,
    budget: Annotated[str, typer.Option(metavar="[quick|full]", help="Minutes, or hours for good numbers.")] = "quick",
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; 1 in the quick budget, 4 in the full one.",
                                              show_default=False)] = None,
    fold: Annotated[int | None, typer.Option(min=0, max=2, help="Validate: hide known cells, leave the test's unseen.",
                                             show_default=False)] = None,
) -> None:  # fmt: skip
    """Run an experiment of the paper: a table beside the paper's numbers, results.json, tables.md to be
    pasted, figures and report.html."""
    if budget not in (*BUDGETS, *HIDDEN_BUDGETS):
        raise typer.BadParameter(f"expected {' or '.join(BUDGETS)}; got {budget!r}.", param_hint="--budget")
    from gpbae.experiments import catalogue, runner, summary
    from gpbae.processes import devices

    devices.use_cores()
    chosen = list(catalogue.EXPERIMENTS.values()) if name.value == ALL else [catalogue.EXPERIMENTS[name.value]]
    if fold is not None:
        chosen = [experiment.with_fold(fold) for experiment in chosen]
    with runs.stoppable("Stopped; the same command goes on from here."):
        done = runner.reproduce(chosen, _models(models, chosen, budget), budget, seeds or SEEDS.get(budget, 1), out,
                                progress=True, say=terminal.say)  # fmt: skip
    for experiment in chosen:
        terminal.show(experiment.title, summary.HEADER, summary.table(experiment, done), left=2)
    for path in (out / "results.json", out / "tables.md", out / "figures", out / "report.html"):
        print(path)


def _models(text: str, experiments: "list[Experiment]", budget: str) -> list[str] | None:
    """The models asked for, None for all; refused before anything is run."""
    asked = list(dict.fromkeys(reading.names(text)))
    if asked == [ALL]:
        return None
    for experiment in experiments:
        known = experiment.names(budget)
        for name in asked or [""]:
            if name not in known:
                said = f"{experiment.name} has {', '.join(known)} in the {budget} budget; got {name!r}."
                raise typer.BadParameter(said, param_hint="--models")
    return asked
