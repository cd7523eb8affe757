"""Sections on whether to believe a model: traffic lights, calibration, scores on hidden cells, traces."""

from collections.abc import Iterator, Mapping

import numpy as np

from gpbae.answering import advice
from gpbae.answering.diagnostics import NUM_ERRORS, TEMPERATURE_TOLERANCE
from gpbae.overview import coverages
from gpbae.plots import COLOURS
from gpbae.report import charts, trust
from gpbae.report.page import Chart, Section, Table
from gpbae.report.subject import MOST_TABLE_ROWS, Subject, cell, count
from gpbae.scoring import metrics, scoreboard

ABOUT_TEMPERATURE = (
    "A sampler of the posterior keeps every block of variables at kinetic temperature 1. Colder is optimisation, "
    "hotter is too large a step; then the spread of the draws says nothing."
)
CAPTION_OF_TEMPERATURES = (
    f"Kinetic temperature of each block of variables ± {NUM_ERRORS} Monte-Carlo errors; shaded: within "
    f"{TEMPERATURE_TOLERANCE:.0%}. A line that reaches the shade may be of a sampler as it should be; one that does "
    "not is off, as the lights say."
)
ABOUT_SCORES = (
    "Cells that were hidden, filled by this model and by simple rivals; errors are in standard deviations of a column. "
    "Lower is better, but in a 90 % interval there should be 90 % of the cells."
)
ESSENTIAL = ("MAE", "NLPD", "in 90\N{NO-BREAK SPACE}%")
"""Scores that are in sight on a telephone: an error, and whether to believe the intervals."""
SCORES_BY_COLUMN = (
    "Scores by column: errors in its own units, of labels the share wrong; beside the rival with the smallest MAE."
)
OUTPUTS = (
    "An output is the decoder's at a cell, on the model's scale: its column, its row (counted from 0) and the "
    "row's inputs; of arrays the numbers of row and column."
)


def lights(subject: Subject) -> Section:
    checks = trust.checks(subject.model, subject.diagnostics, subject.evaluation)
    if subject.is_of_a_call:
        call = trust.command(checks, advice.call)
        words = ["To do all that is advised here at once:"] if call else []
        return Section("Is it to be trusted?", words, checks=checks, command=call)
    command = advice.spelled_out(trust.command(checks), subject.typed)
    dots = " NEW (… stands for what was typed before)" if advice.BEGINNING in command else ""
    words = f"To do all that is advised here at once, in a new folder{dots}:"
    return Section("Is it to be trusted?", [words] if command else [], checks=checks, command=command)


def calibration(subject: Subject) -> Section:
    mine = [row for row in subject.tests if row["model"] == type(subject.model).__name__ and row.get("pit")]
    if mine:
        text = "Cells hidden from the fit: on the dashed line intervals keep their word."
        lines = {str(row["experiment"]): _coverage_line(row["metrics"]) for row in mine}
        what = f"hidden {' and '.join(lines)}{' together' if len(lines) > 1 else ''}"
        counts = _enough(np.sum([row["pit"] for row in mine], axis=0))
    else:
        pit, levels = subject.view.pit, np.linspace(0, 1, 41)
        of_a_run = "" if subject.is_of_a_call else f", or gpbae evaluate {subject.run}"
        text = (
            f"In-sample: {count(len(pit), 'observed cell')} that the fit has seen, so this shows gross faults only, "
            "and a hump is usual: bands are those of a new measurement, and of these cells the model knows more. For "
            f"an honest test hide some cells: model.evaluate{of_a_run}."
        )
        num_bins = metrics.num_bins(len(pit), subject.view.num_draws)
        what = "observed cells"
        lines, counts = {"observed cells": (levels, coverages(pit, levels))}, np.histogram(pit, num_bins, (0, 1))[0]
    caption = "Share of cells inside central intervals, against their probability."
    flat = (
        f"PIT of {what}: flat is calibrated; a hump means bands too wide, horns too narrow. Of a calibrated model "
        "99 of 100 bars lie in the shaded band, if cells err independently; neighbours often err together, so "
        "look for shapes."
    )
    shown = [Chart("coverage", charts.calibration(lines), caption), Chart("pit", charts.histogram(counts), flat)]
    return Section("Calibration", [text], charts=shown)


def _enough(counts: np.ndarray) -> np.ndarray:
    """Half as many bins, where there are so few cells that most bars would be chance."""
    few = metrics.num_bins(int(counts.sum())) < len(counts) and len(counts) % 2 == 0
    return counts.reshape(-1, 2).sum(axis=1) if few else counts


def _coverage_line(metrics: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Levels and shares from coverage50, coverage90, …, between the ends that always hold."""
    found = sorted((float(name[8:]) / 100, share) for name, share in metrics.items() if name.startswith("coverage"))
    levels, shares = zip((0.0, 0.0), *found, (1.0, 1.0), strict=True)
    return np.array(levels), np.array(shares)


def scores(subject: Subject) -> Section:
    said = scoreboard.against_rivals(subject.evaluation, type(subject.model).__name__)
    notes = [*scoreboard.impossible(subject.evaluation), *scoreboard.sure_and_wrong(subject.evaluation)]
    notes += [subject.unfinished] if subject.unfinished else []
    tables = [*map(_board, scoreboard.boards(subject.tests)), *_by_column(subject)]
    return Section("Scores on hidden cells", [*([ABOUT_SCORES] if tables else []), *said], tables, notes)


def _board(board: scoreboard.Board) -> Table:
    first = sorted(range(len(board.header)), key=lambda i: board.header[i] not in ESSENTIAL)
    rows = [(str(row["experiment"]), str(row["model"]), *(cell(line[i]) for i in first),
             cell(row["metrics"].get("cells"))) for row, line in board.lines]  # fmt: skip
    what = "Labels: how often the likeliest one was wrong." if board.of_labels else ""
    return Table(("hidden", "method", *(board.header[i] for i in first), "cells"), rows, what)


def _by_column(subject: Subject) -> Iterator[Table]:
    """The model beside its best rival, a row for each way of hiding and column; nothing where none was asked."""
    name, rows = type(subject.model).__name__, []
    for how in dict.fromkeys(row["experiment"] for row in subject.evaluation):
        here = [row for row in subject.evaluation if row["experiment"] == how]
        for column, duel in scoreboard.by_column(here, name).items():
            ours = (duel.ours.get(score) for score in ("mae", "nlpd", "coverage90", "cells"))
            theirs = (duel.theirs.get(score) for score in ("mae", "nlpd", "coverage90"))
            rows.append((str(how), str(column), *map(cell, ours), duel.rival, *map(cell, theirs)))
    if rows:
        all_of_them = (
            "" if len(rows) <= MOST_TABLE_ROWS else f" The first {MOST_TABLE_ROWS}; all are in evaluation.csv."
        )
        yield Table(("hidden", "column", *ESSENTIAL, "cells", "best rival", *(f"its {score}" for score in ESSENTIAL)),
                    rows[:MOST_TABLE_ROWS], SCORES_BY_COLUMN + all_of_them, folded=True)  # fmt: skip


def traces(subject: Subject) -> Section:
    view, name = subject.view, type(subject.model).__name__
    blocks = {name: subject.model.kinetic_temperatures_()}
    texts = [ABOUT_TEMPERATURE, OUTPUTS]
    shown = [Chart("temperatures", charts.temperatures(blocks, subject.model.temperature), CAPTION_OF_TEMPERATURES)]
    if len(view.log_joint):
        caption = "Log joint density along warm-up and sampling: a chain that has settled wanders without trend."
        shown.append(Chart("log-joint", charts.trace(view.log_joint, "log joint (nats)", COLOURS[0]), caption))
    if view.scalars:
        caption = "Draws, one line per chain: lines that mingle without trend have mixed."
        shown.append(Chart("traces", charts.traces(view.scalars), caption, wide=True))
    return Section("Traces and diagnostics", texts, [_scalars_table(subject)], subject.warnings, charts=shown)


def _scalars_table(subject: Subject) -> Table:
    frame = subject.diagnostics
    frame = frame[frame["mean"].notna()][:MOST_TABLE_ROWS]
    rows = [(str(name), *map(cell, row)) for name, *row in frame[["mean", "sd", "r_hat", "ess"]].itertuples()]
    return Table(
        ("quantity", "mean", "sd", "R-hat", "effective draws"),
        rows,
        "All quantities: mean, spread, R-hat (below 1.1 in the median, below 1.2 each, is good), effective draws.",
        folded=True,
    )
