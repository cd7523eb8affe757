"""`gpbae merge`: independent runs as chains of one posterior."""

from pathlib import Path
from typing import Annotated

import typer

from gpbae.cli import options, terminal

app = typer.Typer()


@app.command(epilog="Example: gpbae merge run-0 run-1 run-2 --out merged")
def merge(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of finished runs that differ in their seed.", exists=True)
    ],
    out: options.Out,
) -> None:
    """Make one model of runs of one configuration and table that differ in their seed: their chains, side by side."""
    from gpbae.saving import merging

    model = merging.write(runs, out)
    terminal.say(f"{model.num_chains_} chains of {len(runs)} runs.")
    terminal.warn(model.diagnostics().attrs["warnings with commands"])
    print(out)
