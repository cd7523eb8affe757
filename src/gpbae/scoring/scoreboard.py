"""What is shown of an evaluation, wherever it is shown: tables of its summaries, and sentences about them.

`rows` are those of `Evaluation.rows`, also after they have been a file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpbae.scoring.cellscores import IMPOSSIBLE, LEVELS

ALL, NUMBERS, LABELS = "all", "all numbers", "all labels"
"""Rows of several columns together: of one kind, or of numbers and labels apart."""
SUMMARIES = (ALL, NUMBERS, LABELS)
OF_NUMBERS = {name: name.upper() for name in ("mae", "rmse", "smse", "nlpd", "crps")} | {
    f"coverage{round(100 * q)}": f"in {round(100 * q)}\N{NO-BREAK SPACE}%" for q in LEVELS
}
OF_LABELS = {"mae": "share wrong", "nlpd": "NLPD", "crps": "half the Brier score"}
TIE, CLEAR = 0.02, 1.1
"""Errors that differ by less than the first, as a share, are as large; beyond the second ratio they clearly differ."""
DOUBT = "doubt"
"""Name of the standard error of the difference between a rival's MAE and the model's; within two, neither is better."""
FEWEST_CELLS = 20
"""Of fewer, no error is called smaller than another."""
MOST_NAMES = 8
MUCH = 1.5
"""Ratio of errors from which a rival is the better choice for a column."""
SURE_AND_WRONG = 1e3
"""An NLPD that only cells far outside a very narrow distribution bring about."""
WITH_KERNEL = ("GPBAE", "SGPBAE", "DSGPBAE")
Rows = Sequence[Mapping[str, Any]]


class Board(NamedTuple):
    """A table of scores: what it is of, how many cells, a name for each score, and a line of scores by method."""

    of_labels: bool
    cells: int
    header: tuple[str, ...]
    lines: list[tuple[Mapping[str, Any], tuple[float, ...]]]


def is_summary(row: Mapping[str, Any]) -> bool:
    return row.get("column", ALL) in SUMMARIES


def with_infinity(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """A file has no infinities, but it says how many there were."""
    return {**metrics, "nlpd": np.inf} if (metrics.get(IMPOSSIBLE) or 0) > 0 else dict(metrics)


def boards(rows: Rows) -> list[Board]:
    """Of numbers, then of labels; a score that no method has is left out."""
    summaries = [row for row in rows if is_summary(row)]
    kinds = {of_labels: [row for row in summaries if _is_of_labels(row) == of_labels] for of_labels in (False, True)}
    return [_board(found, of_labels) for of_labels, found in kinds.items() if found]


def _is_of_labels(row: Mapping[str, Any]) -> bool:
    """Labels have no order, so no interval; earlier evaluations have one row of everything, which counts as numbers."""
    column = row.get("column", ALL)
    return column == LABELS or (column == ALL and not _is_number(row["metrics"].get("coverage90", 0.0)))


def _is_number(value: Any) -> bool:
    return value is not None and value == value


def _number(value: Any) -> float:
    """A file says nothing where there is no number."""
    return float("nan") if value is None else float(value)


def _board(rows: Rows, of_labels: bool) -> Board:
    found = [with_infinity(row["metrics"]) for row in rows]
    names = {n: word for n, word in (OF_LABELS if of_labels else OF_NUMBERS).items()
             if any(_is_number(metrics.get(n)) for metrics in found)}  # fmt: skip
    lines = [tuple(_number(m.get(n)) for n in names) for m in found]
    cells = int(found[0].get("cells") or 0)
    return Board(of_labels, cells, tuple(names.values()), list(zip(rows, lines, strict=True)))


# Sentences.


def impossible(rows: Rows) -> list[str]:
    """A sentence for each way of hiding and each set of cells that had no density."""
    found: dict[tuple, list[str]] = {}
    for row in rows:
        number = row["metrics"].get(IMPOSSIBLE) or 0
        if not is_summary(row) and number > 0:
            found.setdefault((row["experiment"], row["model"]), []).append(f"{row['column']} ({number:.0f})")
    methods: dict[tuple, list[str]] = {}
    for (how, method), places in found.items():
        methods.setdefault((how, *places), []).append(method)
    return [
        f"Among the hidden {how}, values in {', '.join(places)} cannot occur by the rest of their column, such as a 2 "
        f"among zeros and ones or a negative number among positive ones: NLPD is infinite for {', '.join(names)}."
        for (how, *places), names in methods.items()
    ]


def sure_and_wrong(rows: Rows) -> list[str]:
    """A sentence for each way of hiding in which a method has a huge NLPD, which else looks like a mistake of ours."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        nlpd = _number(with_infinity(row["metrics"]).get("nlpd"))
        if is_summary(row) and SURE_AND_WRONG < nlpd < np.inf:
            found.setdefault(row["experiment"], {})[row["model"]] = nlpd
    return [
        f"For hidden {how}, the NLPD of {', '.join(f'{name} ({nlpd:.3g})' for name, nlpd in methods.items())} is huge: "
        "sure and wrong, it gave some cells an interval of next to no width that misses the truth."
        for how, methods in found.items()
    ]


class Duel(NamedTuple):
    """A model and the best of its rivals on the same cells."""

    rival: str
    theirs: Mapping[str, Any]
    ours: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        """Their error over ours; two that make none are as good as each other."""
        if self.ours["mae"] > 0:
            return self.theirs["mae"] / self.ours["mae"]
        return np.inf if self.theirs["mae"] > 0 else 1.0

    @property
    def doubt(self) -> float:
        """Half the interval of the difference: infinite where one block says nothing of it, 0 in evaluations of earlier
        releases, which have none."""
        found = _number(self.theirs.get(DOUBT, 0.0))
        return found if np.isfinite(found) else np.inf

    @property
    def is_open(self) -> bool:
        """Whether the difference may be chance, or is too small to speak of."""
        return self.is_chance or 1 - TIE <= self.ratio <= 1 + TIE

    @property
    def is_chance(self) -> bool:
        return abs(self.theirs["mae"] - self.ours["mae"]) <= self.doubt

    @property
    def is_of_labels(self) -> bool:
        """Which have no order, so no interval."""
        return not _is_number(self.ours.get("coverage90", 0.0))

    @property
    def errors(self) -> str:
        return f"{self.theirs['mae']:.3g} against {self.ours['mae']:.3g}"


def against_rivals(rows: Rows, model: str) -> list[str]:
    """Where a simple way to fill gaps did as well as the model, and for which gaps the model is worth it."""
    ways = list(dict.fromkeys(row["experiment"] for row in rows))
    overall = {way: _overall([row for row in rows if row["experiment"] == way], model) for way in ways}
    duels = {way: duel for way, duel in overall.items() if duel is not None}
    won = {way: duel for way, duel in duels.items() if duel.ratio > 1 and not duel.is_open}
    lost = {way: duel for way, duel in duels.items() if way not in won}
    said = [_lost(way, duel, model) for way, duel in lost.items()]
    if lost and won:
        said += [_won(way, duel, model) for way, duel in won.items()]
    elif "cells" in lost and len(duels) == 1:
        said.append("It may be worth its time in longer gaps; try: gpbae evaluate RUN --evaluate blocks")
    return said + [words for way in ways if (words := _by_column([r for r in rows if r["experiment"] == way], model))]


def _lost(way: str, duel: Duel, model: str) -> str:
    how = "was about as good as" if duel.is_open else "did better than"
    known = f"is known to ± {duel.doubt:.2g}" if np.isfinite(duel.doubt) else "of a single stretch may be chance"
    give_or_take = f"; the difference {known}" if duel.doubt else ""
    words = f"For hidden {way}, {duel.rival} {how} {model} (MAE {duel.errors}{give_or_take})"
    theirs, ours = (_number(metrics.get("nlpd")) for metrics in (duel.theirs, duel.ours))
    if ours < theirs:
        words += f", though its distributions told less (NLPD {theirs:.3g} against {ours:.3g})"
    return f"{words}."


def _won(way: str, duel: Duel, model: str) -> str:
    worth = ": there it is worth its time" if duel.ratio > CLEAR else ""
    ours, theirs = duel.ours["mae"], duel.theirs["mae"]
    return f"For hidden {way}, {model} had the smallest error (MAE {ours:.3g}; {duel.rival} {theirs:.3g}){worth}."


def _overall(rows: Rows, model: str) -> Duel | None:
    """Of all numbers; of all labels where there are no numbers."""
    found = boards(rows)
    return _duel([row for row, _ in found[0].lines], model) if found else None


def by_column(rows: Rows, model: str, fewest: int = 1) -> dict[str, Duel]:
    """The model and its best rival in every column that has as many hidden cells, for one way of hiding."""
    names = dict.fromkeys(row["column"] for row in rows if not is_summary(row))
    duels = {name: _duel([row for row in rows if row["column"] == name], model, fewest) for name in names}
    return {name: duel for name, duel in duels.items() if duel is not None}


def _duel(rows: Rows, model: str, fewest: int = FEWEST_CELLS) -> Duel | None:
    found = {row["model"]: with_infinity(row["metrics"]) for row in rows}
    found = {method: metrics for method, metrics in found.items() if _is_number(metrics.get("mae"))}
    ours = found.pop(model, None)
    if ours is None or not found or (ours.get("cells") or 0) < fewest:
        return None
    best = min(found, key=lambda method: found[method]["mae"])
    return Duel(best, found[best], ours)


def _by_column(rows: Rows, model: str) -> str:
    """The columns in which the best rival was as good, and what to do where it was much better."""
    found = by_column(rows, model, FEWEST_CELLS)
    lost = [f"{name} ({d.rival}, {d.errors})" for name, d in found.items() if d.ratio <= 1 + TIE]
    if not lost or len({row["column"] for row in rows if not is_summary(row)}) < 2:
        return _instead(found, model)
    more = f" and {len(lost) - MOST_NAMES} more" if len(lost) > MOST_NAMES else ""
    places = ", ".join(lost[:MOST_NAMES]) + more
    return (
        f"For hidden {rows[0]['experiment']} a simple way did better, or about as well, in {places} (MAE, its against "
        f"that of {model}; of labels the share wrong). {_instead(found, model)}".rstrip()
    )


def _instead(duels: Mapping[str, Duel], model: str) -> str:
    """What to do about columns in which a rival was much better, and not by chance.  Rivals take labels for numbers
    here, which no command does."""
    much = {name: d for name, d in duels.items() if not d.is_open and d.ratio * MUCH <= 1}
    fillable = [f"{name} by {d.rival}" for name, d in much.items() if not d.is_of_labels]
    words = f"Better fill {', '.join(fillable[:MOST_NAMES])}{', …' if len(fillable) > MOST_NAMES else ''}"
    if not much or model not in WITH_KERNEL:
        return f"{words}." if fillable else ""
    return (
        f"{f'{words}; or, where' if fillable else 'Where'} there is a cycle, fit with its period in the units of the "
        "input, and with more latents: --set 'kernel=RBF() + Periodic(period=…)' --latent-dim …"
    )
