"""`gpbae verify` and `gpbae bench`: is the theory kept on this machine, and how fast is it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpbae.cli import options, terminal
from gpbae.errors import GpbaeError

if TYPE_CHECKING:
    from gpbae import report

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


@app.command(epilog="Example: gpbae bench --only steps,chains --out bench")
def bench(
    out: options.Out = Path("gpbae-bench"),
    only: Annotated[
        str | None,
        typer.Option(help="Sections, separated by commas: steps, encoder, chains, start, rows, disk, growth. All of "
                     "them, if not said."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes and fewer repetitions.")] = False,
    with_growth: Annotated[
        bool, typer.Option("--growth/--no-growth", help="Also how time and memory grow with each size (some minutes).")
    ] = True,
) -> None:  # fmt: skip
    """Measure speed on this machine, against what was wanted.

    Sampler and encoder steps beside their bare matrix products, chains, starting, answers to many rows, tables on
    disk, and growth with every size.

    Writes results.json, the tables (tables.md), pictures and report.html anew: results of an earlier run in the same
    folder are replaced. With --quick no target is judged."""
    from gpbae.processes import devices
    from gpbae.saving import storage
    from gpbae.speed import bench as speed
    from gpbae.speed import tables

    names = _sections(only, list(speed.SECTIONS), with_growth)
    devices.use_cores()
    storage.make_folder(out)
    found = speed.run(names, quick, out, terminal.say, _shown)
    wanted = tables.summary([row for rows in found.values() for row in rows], quick)
    if wanted.rows:
        _shown(wanted)
    terminal.say(f"Written to {out}: open {out / 'report.html'} in a browser.")


def _sections(only: str | None, known: list[str], with_growth: bool) -> list[str]:
    """What was asked for, in the order in which it is measured."""
    asked = known if only is None else [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise typer.BadParameter(
            f"expected some of {', '.join(known)}, separated by commas; got {', '.join(unknown) or 'none'}.",
            param_hint="--only",
        )
    names = [name for name in known if name in asked and (with_growth or name != "growth")]
    if not names:
        raise typer.BadParameter("expected a section to measure; got --only growth with --no-growth: leave one out.")
    return names


def _shown(table: "report.Table") -> None:
    terminal.show(table.caption, table.header, table.rows)
