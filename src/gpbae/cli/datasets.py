"""`gpbae data list` and `gpbae data fetch`: the datasets of the experiments."""

from typing import Annotated

import typer

from gpbae.cli import terminal

app = typer.Typer(no_args_is_help=True, help="Datasets of the experiments.", epilog="Example: gpbae data list")


@app.command("list", epilog="Example: gpbae data list")
def show() -> None:
    """Name, licence, and whether this machine has it already."""
    from gpbae.data import registry

    rows = [
        (name, d.title, d.licence, "yes" if all(registry.find(key) for key in d.files) else "no")
        for name, d in registry.DATASETS.items()
    ]
    terminal.show("Datasets", ("name", "what it is", "licence", "here"), rows, left=4)


@app.command(epilog="Example: gpbae data fetch eeg")
def fetch(name: Annotated[str, typer.Argument(help="A name from `gpbae data list`.")]) -> None:
    """Download a dataset unless it is here already, verify its checksum and print where its files are."""
    from gpbae.data import registry

    paths = registry.fetch(name)
    for path in paths:
        print(path)
    if not paths:
        terminal.say(f"{name} is generated, so there is nothing to fetch: {registry.DATASETS[name].source}.")
