"""The command line.  Nothing heavy is imported before a command needs it, so that `--help` answers at once."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gpbae.cli import reproduce, tables, terminal
from gpbae.errors import GpbaeError

FAILED = 1

app = typer.Typer(
    name="gpbae",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: gpbae demo",
)
data_app = typer.Typer(no_args_is_help=True, help="Datasets of the experiments.", epilog="Example: gpbae data list")
app.add_typer(tables.app)
app.add_typer(reproduce.app)
app.add_typer(data_app, name="data")

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write to; made if absent.", file_okay=False)]
Seed = Annotated[int, typer.Option(min=0, help="Seed of data and chains.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: a message instead of a traceback, and the exit codes 0 done, 1 failed, 2 bad usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given  # wherever it stands
    try:
        app(args=_spelled_out([argument for argument in given if argument != "--debug"]), prog_name="gpbae")
    except GpbaeError as error:
        _fail(str(error), debug)
    except ModuleNotFoundError as error:
        _fail(f"This command needs the module {error.name!r}, which is not installed: install it with pip.", debug)
    except Exception as error:
        _fail(f"Unexpected {type(error).__name__}: {error or 'no message'}; add --debug to see where.", debug)


def _spelled_out(given: list[str]) -> list[str]:
    """`--evaluate` may stand alone and then means cells."""
    done = []
    for argument, following in zip(given, [*given[1:], ""], strict=True):
        done.append(argument)
        if argument == "--evaluate" and not following.startswith(("cells", "blocks", "rows", "column:")):
            done.append("cells")
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


@app.command(epilog="Example: gpbae demo --out demo")
def demo(
    out: Out = Path("gpbae-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A few tiny videos: seconds, and a poor score.")] = False,
    seed: Seed = 0,
) -> None:
    """Locate a ball in videos never seen, start to finish: a table, pictures and a page.  Under three minutes."""
    from gpbae import storage
    from gpbae.experiments import ball

    storage.make_folder(out)
    outcome = ball.run(ball.QUICK if quick else ball.DEMO, seed, progress=True, say=terminal.say)
    paths = ball.write(outcome, out)
    header = ("model", "RMSE per coordinate", "lengthscale (truth 2)", "seconds", "kinetic temperature")
    terminal.show("The moving ball, unseen videos", header, [_demo_row(answer) for answer in outcome.answers])
    for path in paths:
        print(path)


def _demo_row(answer: Any) -> tuple[str, ...]:
    low, high = min(answer.temperatures.values()), max(answer.temperatures.values())
    return (answer.model, f"{answer.metrics['rmse']:.3f}", answer.lengthscale_text(), f"{answer.seconds:.0f}",
            f"{low[0]:.2f} ± {low[1]:.2f} to {high[0]:.2f} ± {high[1]:.2f}")  # fmt: skip


@app.command(epilog="Example: gpbae verify --quick")
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions, the same bars.")] = False,
) -> None:
    """Check the sampler and the densities against theory on this machine; exit code 1 if a check fails."""
    from gpbae import verify as checks_module

    checks = checks_module.run(quick=quick, listener=terminal.say)
    rows = [(c.name, c.figure, c.bar, terminal.verdict(c.passed), f"{c.seconds:.1f}") for c in checks]
    terminal.show("Theory against this machine", ("check", "figure", "bar", "verdict", "seconds"), rows)
    failed = [c.name for c in checks if not c.passed]
    if failed:
        raise GpbaeError(
            f"{len(failed)} of {len(checks)} checks failed ({', '.join(failed)}): do not trust posteriors from this "
            "machine before you know why."
        )


@app.command(epilog="Example: gpbae bench --out bench")
def bench(out: Out = Path("gpbae-bench")) -> None:
    """Measure speed on this machine: milliseconds per sampler step, and as a ratio to bare matrix products."""
    from gpbae import bench as bench_module
    from gpbae import storage

    storage.make_folder(out)
    terminal.say("Measuring …")
    rows = bench_module.run(out)
    names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    cells = [(r["experiment"], r["model"], *(r["metrics"].get(n, "") for n in names), r["seconds"]) for r in rows]
    terminal.show("Speed", ("experiment", "model", *names, "seconds"), cells, left=2)


@data_app.command("list", epilog="Example: gpbae data list")
def data_list() -> None:
    """Name, licence, and whether this machine has it already."""
    from gpbae.data import registry

    rows = [
        (name, d.title, d.licence, "yes" if all(registry.find(key) for key in d.files) else "no")
        for name, d in registry.DATASETS.items()
    ]
    terminal.show("Datasets", ("name", "what it is", "licence", "here"), rows, left=4)


@data_app.command("fetch", epilog="Example: gpbae data fetch eeg")
def data_fetch(name: Annotated[str, typer.Argument(help="A name from `gpbae data list`.")]) -> None:
    """Download a dataset unless it is here already, verify its checksum and print where its files are."""
    from gpbae.data import registry

    paths = registry.fetch(name)
    for path in paths:
        print(path)
    if not paths:
        terminal.say(f"{name} is generated, so there is nothing to fetch: {registry.DATASETS[name].source}.")


if __name__ == "__main__":
    main()
