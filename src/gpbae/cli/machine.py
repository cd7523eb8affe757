"""`gpbae verify` and `gpbae bench`: is the theory kept on this machine, and how fast is it?"""

from pathlib import Path
from typing import Annotated

import typer

from gpbae.cli import options, terminal
from gpbae.errors import GpbaeError

app = typer.Typer()


@app.command(epilog="Example: gpbae verify --quick")
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions, the same bars.")] = False,
    page: Annotated[
        Path | None, typer.Option(help="Also write the table as a page of Markdown.", dir_okay=False)
    ] = None,
) -> None:
    """Check the sampler and the densities against theory on this machine; exit code 1 if a check fails."""
    from gpbae import verify as theory

    if page is not None and not page.parent.is_dir():
        raise GpbaeError(f"Cannot write {page}: there is no folder {page.parent}. Make it, or name another one.")
    checks = theory.run(quick=quick, listener=terminal.say)
    rows = [(c.name, c.figure, c.bar, terminal.verdict(c.passed), f"{c.seconds:.1f}") for c in checks]
    terminal.show("Theory against this machine", ("check", "figure", "bar", "verdict", "seconds"), rows, left=4)
    if page is not None:
        page.write_text(theory.page(checks, quick), encoding="utf-8")
    failed = [c.name for c in checks if not c.passed]
    if failed:
        raise GpbaeError(
            f"{len(failed)} of {len(checks)} checks failed ({', '.join(failed)}): do not trust posteriors from this "
            "machine before you know why."
        )


@app.command(epilog="Example: gpbae bench --out bench")
def bench(
    out: options.Out = Path("gpbae-bench"),
    with_growth: Annotated[
        bool, typer.Option("--growth/--no-growth", help="Also how time and memory grow with each size (some minutes).")
    ] = True,
) -> None:
    """Measure speed on this machine: milliseconds per sampler step, and as a ratio to bare matrix products; then how
    step time and memory grow with rows, inducing inputs, latents, cells, batch, chains and groups."""
    from gpbae.processes import devices
    from gpbae.saving import storage
    from gpbae.speed import bench as speed
    from gpbae.speed import growth

    devices.use_cores()
    storage.make_folder(out)
    terminal.say("Measuring …")
    rows = speed.run(out)
    names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    cells = [(r["experiment"], r["model"], *(r["metrics"].get(n, "") for n in names), r["seconds"]) for r in rows]
    terminal.show("Speed", ("experiment", "model", *names, "seconds"), cells, left=2)
    if with_growth:
        grown = growth.run(listener=terminal.say)
        speed.write(rows + grown, out)
        growth.figure(grown).savefig(out / "growth.png")
        print(growth.markdown(grown))
