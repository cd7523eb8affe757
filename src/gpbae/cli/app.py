"""The entry point of the command line: its commands, and how it fails."""

import difflib
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from gpbae.cli import answers, datasets, demo, findings, fit, machine, merging, reproduce, terminal
from gpbae.errors import GapWarning, GpbaeError
from gpbae.processes import compiled, watch

FAILED = 1
WAYS = ("cells", "blocks", "rows")

app = typer.Typer(
    name="gpbae",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: gpbae demo",
)
for commands in (demo, fit, answers, findings, merging, reproduce, machine):
    app.add_typer(commands.app)
app.add_typer(datasets.app, name="data")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: a message instead of a traceback, and the exit codes 0 done, 1 failed, 2 bad usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given  # wherever it stands
    if "--distributed" not in given:  # where what jaxlib complains of may be a lost process
        compiled.remember()
    try:
        with watch.answered(), warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)  # said with the option that makes it a gap
            warnings.showwarning = _showing(warnings.showwarning)
            app(args=_spelled_out([argument for argument in given if argument != "--debug"]), prog_name="gpbae")
    except GpbaeError as error:
        _fail(str(error), debug)
    except ModuleNotFoundError as error:
        _fail(f"This command needs the module {error.name!r}, which is not installed: install it with pip.", debug)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        _fail(f"Could not read or write{where}: {error.strerror or error}; check the disk, then run it again.", debug)
    except Exception as error:
        _fail(f"Unexpected {type(error).__name__}: {error or 'no message'}; add --debug to see where.", debug)


def _showing(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Warnings for users are a line of news; those of libraries say where they come from."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if compiled.stumbled(str(message)):
            return
        if category is UserWarning:
            terminal.say(f"Note: {message}")
        else:
            otherwise(message, category, *where, **more)

    return show


def _spelled_out(given: list[str]) -> list[str]:
    """`--evaluate` may stand alone and then means cells; a misspelt way is left for the command to refuse."""
    done = []
    for argument, following in zip(given, [*given, ""][1:], strict=True):
        done.append(argument)
        is_way = following.startswith((*WAYS, "column:")) or difflib.get_close_matches(following, WAYS)
        if argument == "--evaluate" and not is_way:
            done.append(WAYS[0])
    return done


def _fail(message: str, debug: bool) -> None:
    """One sentence on stderr and exit code 1; called while an exception is handled."""
    if debug:
        raise
    print(f"Error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(FAILED)


def _version(wanted: bool) -> bool:
    if wanted:
        from gpbae import __version__

        print(f"gpbae {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Bayesian autoencoders with Gaussian-process latent priors: representation, prediction and imputation with
    honest uncertainty."""
