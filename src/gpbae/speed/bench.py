"""All that `gpbae bench` measures, section by section: rows for results.json, tables, pictures and a page."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpbae import report
from gpbae.saving import storage
from gpbae.speed import disk, growth, machine, pictures, questions, starts, steps, tables
from gpbae.speed.shapes import CASES, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Say = Callable[[str], None]
Found = dict[str, list[Row]]
"""Rows of each section that was measured."""


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A picture of some rows, its file, and what it shows."""

    name: str
    draw: Callable[[list[Row]], "Figure"]
    alt: str
    caption: str


@dataclasses.dataclass(frozen=True)
class Section:
    """Something to measure, in full or quickly, and how it is shown."""

    title: str
    about: str
    measure: Callable[[bool, Say], list[Row]]
    tables: Callable[[list[Row]], list[report.Table]]
    drawing: Drawing | None = None


FLOOR = "Each step is compared, in one process and by turns, with its gradient alone and with the matrix products of "
FLOORS = Drawing("steps", pictures.against_floor, "Bars: steps and their gradients as multiples of their products",
                 "How far steps are from their floor; dashed: what was wanted.")  # fmt: skip
GROWTH = Drawing("growth", pictures.growth, "Step time and memory against each size, on logarithmic scales",
                 "Step time and memory against each size.")  # fmt: skip


def _steps(quick: bool, say: Say) -> list[Row]:
    return steps.run(_cases(quick), _repeats(quick))


def _encoder(quick: bool, say: Say) -> list[Row]:
    return steps.run_encoders(_cases(quick), _repeats(quick))


def _chains(quick: bool, say: Say) -> list[Row]:
    return steps.run_chains(_cases(quick)[-1], _repeats(quick))


def _start(quick: bool, say: Say) -> list[Row]:
    return starts.run(2, 1) if quick else starts.run()


def _rows(quick: bool, say: Say) -> list[Row]:
    return questions.run((10_000,), listener=say) if quick else questions.run(listener=say)


def _disk(quick: bool, say: Say) -> list[Row]:
    return disk.run((1_000, 10_000), repeats=2, listener=say) if quick else disk.run(listener=say)


def _growth(quick: bool, say: Say) -> list[Row]:
    which = [axis._replace(values=axis.values[1:4]) for axis in growth.axes()] if quick else None
    return growth.run(which, _repeats(quick), say)


def _cases(quick: bool):
    return [dataclasses.replace(case, num_steps=max(case.num_steps // 4, 5)) if quick else case for case in CASES]


def _repeats(quick: bool) -> int:
    return 2 if quick else 5


def _start_tables(rows: list[Row]) -> list[report.Table]:
    fits = [row for row in rows if "first_sweep_seconds" in row["metrics"]]
    others = [row for row in rows if row not in fits]
    return [tables.table("Commands in fresh processes", tables.STARTS, others),
            tables.table("From the command to the first sweep", tables.FITS, fits)]  # fmt: skip


def _growth_tables(rows: list[Row]) -> list[report.Table]:
    names = list(dict.fromkeys(row["experiment"] for row in rows if row["experiment"].startswith("growth in ")))
    slopes = [row for row in rows if row["experiment"].startswith("slopes in ")]
    points = [tables.table(name, tables.POINTS, [row for row in rows if row["experiment"] == name], name)
              for name in names]  # fmt: skip
    return [*points, tables.table("Slopes of logarithms", tables.SLOPES, slopes, "slopes in ")]


SECTIONS = {
    "steps": Section(
        "Sampler steps",
        f"{FLOOR}its decoder forwards and backwards. A sweep adds the moves of hyper-parameters that follow K steps.",
        _steps, lambda rows: [tables.table("Sampler steps", tables.STEPS, rows)], FLOORS,
    ),
    "encoder": Section(
        "Encoder steps",
        f"{FLOOR}its encoder on the 128 rows of such a step; what is beyond them is Adam's and the activations'.",
        _encoder, lambda rows: [tables.table("Encoder steps", tables.ENCODERS, rows)],
    ),
    "chains": Section(
        "Chains",
        "Sweeps of several chains against one, by turns; on as many devices as JAX has.",
        _chains, lambda rows: [tables.table("Chains", tables.CHAINS, rows)],
    ),
    "start": Section(
        "Beginning",
        "The least of several starts, each in a process of its own; both fits have JAX's compilation cache, which is "
        "empty for the first. The first sweep is counted from the command, and from where the log of the fit begins.",
        _start, _start_tables,
    ),
    "rows": Section(
        "Answers to many rows",
        "Mean and sd of every cell of made-up rows, five columns, 64 draws, each line in a process of its own, whose "
        "memory includes what compiling takes.",
        _rows, lambda rows: [tables.table("Answers to many rows", tables.QUESTIONS, rows)],
    ),
    "disk": Section(
        "Sweeps from disk",
        "A fit from memory-mapped files, ten columns, 256 rows in a batch, K = J = 10, one chain; reading and handing "
        "over rows is part of it. With latents born at every sweep a batch stays for the sweep; where they are kept "
        "every step has another one, and rows that were never seen, nearly all of a long table, are born too. Each "
        "line is of a process of its own, whose memory includes what compiling takes.",
        _disk, lambda rows: [tables.table("Sweeps from disk", tables.DISK, rows)],
    ),
    "growth": Section(
        "Growth",
        "A sampler step while one size grows and the others stay (4096 rows of 16 cells, B = 256, M = 16, C = 2, one "
        "chain); memory is what the compiled program asks for, for rows on disk what a process of its own holds, with "
        "what compiling takes. Latents of rows on disk are born at every sweep, whatever N: sweeps with latents that "
        "rows keep are among those from disk. ± is around the middle of the largest and the smallest.",
        _growth, _growth_tables, GROWTH,
    ),
}  # fmt: skip


def shown_of(name: str, rows: list[Row], quick: bool) -> list[report.Table]:
    """Tables of a section."""
    found = SECTIONS[name].tables(rows)
    return [tables.unjudged(table) for table in found] if quick else found


def run(names: Iterable[str], quick: bool = False, out: Path | None = None, say: Say = print,
        show: Callable[[report.Table], None] = lambda table: None) -> Found:  # fmt: skip
    """Measure these sections; with a folder, everything is written there, results.json after every section."""
    facts = machine.facts()
    found: Found = {}
    for name in names:
        say(f"{SECTIONS[name].title} …")
        found[name] = SECTIONS[name].measure(quick, say)
        for table in shown_of(name, found[name], quick):
            show(table)
        if out is not None:
            storage.make_folder(out)
            rows = [row for part in found.values() for row in part]
            storage.write(out / "results.json", (json.dumps(rows, indent=1, allow_nan=False) + "\n").encode())
    if out is not None:
        _write(found, facts, quick, out)
    return found


def _write(found: Found, facts: Sequence[tuple[str, str]], quick: bool, out: Path) -> None:
    """Pictures, tables for the documentation, and the page."""
    shown = {name: shown_of(name, rows, quick) for name, rows in found.items()}
    drawn = {name: _drawn(name, found, out) for name in found}
    texts = [table.markdown for name in found for table in shown[name]]
    storage.write(out / "tables.md", ("\n\n".join(texts) + "\n").encode())
    storage.write(out / "report.html", page(found, shown, drawn, facts, quick).encode())


def _drawn(name: str, found: Found, out: Path) -> list[report.Picture]:
    """The picture of steps has the encoder's, too."""
    drawing = SECTIONS[name].drawing
    if drawing is None:
        return []
    rows = [*found[name], *(found.get("encoder", []) if name == "steps" else [])]
    drawing.draw(rows).savefig(out / f"{drawing.name}.png")
    return [report.Picture(out / f"{drawing.name}.png", drawing.alt, drawing.caption, least_width=640)]


def page(
    found: Found, shown: dict[str, list[report.Table]], drawn: dict[str, list[report.Picture]],
    facts: Sequence[tuple[str, str]], quick: bool,
) -> str:  # fmt: skip
    """One HTML file that asks nothing of the network."""
    rows = [row for part in found.values() for row in part]
    lead = (
        "Times of this machine. Ratios are of times from one process, by turns, and survive a slower or busier "
        "machine; milliseconds do not."
    ) + (" Few repetitions (--quick): a first impression." if quick else "")
    wanted = tables.summary(rows, quick)
    first = [report.Section("What was wanted", tables=[wanted])] if wanted.rows else []
    measured = [report.Section(SECTIONS[name].title, [SECTIONS[name].about], shown[name], pictures=drawn[name])
                for name in found]  # fmt: skip
    on = report.Section("Measured on", tables=[report.Table(("", "here"), facts)])
    return report.html("How fast this machine samples", lead, [*first, *measured, on])
