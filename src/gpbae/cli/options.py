"""The options that commands have in common, and those of `fit`, as types with their help."""

from pathlib import Path
from typing import Annotated

import typer

from gpbae.cli.commas import Decimal

TABLE, MODEL, PROCESSES, SCORE = "The table", "The model", "Several processes", "How good is it?"

Data = Annotated[Path, typer.Argument(help="A .csv, .parquet, .npz or .npy table.", exists=True, dir_okay=False)]
Run = Annotated[Path, typer.Argument(help="A folder written by `gpbae fit`.", exists=True, file_okay=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write to; made if absent.", file_okay=False)]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="A .csv, .parquet, .npz or .npy file to write.", dir_okay=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No news while it works.")]
LogJson = Annotated[
    str | None, typer.Option("--log-json", help="Write every event as a line of JSON to this file, - for stdout.")
]


def _probability(text: str | float) -> float:
    """As it is typed, 0.9; a per cent sign says what was meant."""
    number, percent = _number(str(text).strip().removesuffix("%")), str(text).strip().endswith("%")
    if not percent and 0.01 <= number <= 0.999:
        return number
    share = number / 100
    meant = f" Did you mean {share:g}?" if 0.01 <= share <= 0.999 and (percent or number > 1) else ""
    raise typer.BadParameter(f"expected a probability from 0.01 to 0.999, such as 0.9; got {str(text)!r}.{meant}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


Interval = Annotated[
    float | None,
    typer.Option(
        parser=_probability,
        metavar="PROBABILITY",
        help="Add NAME_lower and NAME_upper: the central interval of this probability. Of yes and no add "
        "NAME_probability, that of yes (of 0 and 1 also); of labels, that of the label in the cell.",
    ),
]
Mark = Annotated[bool, typer.Option("--mark", help="Add NAME_imputed: True where a gap was filled.")]

# The table.

From = Annotated[
    str | None, typer.Option("--from", help="First date or number of the first input to use.", rich_help_panel=TABLE)
]
To = Annotated[
    str | None, typer.Option("--to", help="Where to stop: rows before this date or number.", rich_help_panel=TABLE)
]
Inputs = Annotated[
    str, typer.Option(help="Columns known for every row, such as a date; bae needs none.", rich_help_panel=TABLE)
]
Outputs = Annotated[
    str,
    typer.Option(
        help="Columns to model, by name or pattern; gaps are fine. All numbers, if not said; all,sky adds a column of "
        "words to these.",
        rich_help_panel=TABLE,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(help="Columns to leave out of the outputs; may be repeated.", rich_help_panel=TABLE),
]
Groups = Annotated[str | None, typer.Option(help="Column of labels of independent series.", rich_help_panel=TABLE)]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="A number or word that means missing, -200, n.d. or NAME=-200; may be repeated.", rich_help_panel=TABLE
    ),
]
DateFormat = Annotated[
    str | None, typer.Option(help="How dates are written, if not obvious: '%d/%m/%Y'.", rich_help_panel=TABLE)
]
DecimalSign = Annotated[
    Decimal | None,
    typer.Option(
        "--decimal", help="Sign before decimals, if cells do not tell: comma, or point (1,234 is 1234).",
        rich_help_panel=TABLE,
    ),
]  # fmt: skip
OnDisk = Annotated[
    bool | None,
    typer.Option(
        "--on-disk/--in-memory",
        help="Copy the table to the folder and fit it from there, some rows at a time, or hold it in memory. If not "
        "said, tables of more than 50 million cells stay on disk.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]

# The model.

Transform = Annotated[
    str | None,
    typer.Option(help="log, log1p, yeo-johnson, auto or none, for all or as *=auto,CO=log.", rich_help_panel=MODEL),
]


def _latents(number: int | None) -> int | None:
    if number is not None and number < 1:
        raise typer.BadParameter(
            f"expected a whole number of at least 1; got {number}. Leave it out to have it found from the data."
        )
    return number


LatentDim = Annotated[
    int | None,
    typer.Option(callback=_latents, help="Number of latents; else found from the data.", rich_help_panel=MODEL),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file of arguments, as num_inducing = 64; the config.toml of a run has all of its model.",
        exists=True,
        dir_okay=False,
        rich_help_panel=MODEL,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="One argument of the model, as num_chains=2; may be repeated.", rich_help_panel=MODEL),
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of all that is random; 0 if not said.", rich_help_panel=MODEL)
]

# Several processes.

Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="This is one of several processes of a Slurm or Kubernetes job (or of JAX_COORDINATOR_ADDRESS, "
        "JAX_NUM_PROCESSES, JAX_PROCESS_ID), which share the chains.",
        rich_help_panel=PROCESSES,
    ),
]
RowShards = Annotated[
    int,
    typer.Option(min=1, help="With --distributed: processes that share one chain's rows.", rich_help_panel=PROCESSES),
]

# How good is it?

Evaluate = Annotated[
    str | None,
    typer.Option(
        help="Hide known cells, refit and score: cells, blocks, rows or column:NAME:START; several by commas.",
        rich_help_panel=SCORE,
    ),
]
Holdout = Annotated[
    float, typer.Option(min=0.001, max=0.9, help="Share of known cells to hide.", rich_help_panel=SCORE)
]
BlockLength = Annotated[int, typer.Option(min=1, help="Rows in a block.", rich_help_panel=SCORE)]
EvaluateOnly = Annotated[
    bool, typer.Option("--evaluate-only", help="Score and leave out the fit to all cells.", rich_help_panel=SCORE)
]
Report = Annotated[bool, typer.Option("--report", help="Also write the page of `gpbae report`.")]
