"""A traffic light for every thing that can be wrong with a fit, and what to do about it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from gpbae.answering import advice, wording
from gpbae.answering.advice import Remedy, Trouble
from gpbae.answering.diagnostics import (
    LARGEST_RHAT,
    LARGEST_SINGLE_RHAT,
    NUM_ERRORS,
    SMALLEST_ACCEPTANCE,
    SMALLEST_ESS,
    TEMPERATURE_TOLERANCE,
)
from gpbae.report import circumstances
from gpbae.report.circumstances import PLAIN, Circumstances
from gpbae.scoring import scoreboard

OWN_PATHS = "--set 'decoder=Private()' --set num_inducing=48"
DISTANT_RHAT = 1.3
TINY_ESS = 10
LARGE_TOLERANCE = 0.2
PROMISED = 0.9
NUM_ERRORS_OF_CELLS = 2
SMALL_SHORTFALL, LARGE_SHORTFALL = 0.03, 0.15


class Light(StrEnum):
    GREEN = "green"
    AMBER = "amber"
    RED = "red"

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS = {
    Light.GREEN: "Nothing to complain of.",
    Light.AMBER: "Good for a first look; see what to do before you rely on the intervals.",
    Light.RED: "Not to be relied on yet; see what to change.",
}


@dataclasses.dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and what to think and do unless it is green."""

    name: str
    found: str
    light: Light
    words: str = ""
    remedy: Remedy | None = None

    @property
    def advice(self) -> str:
        return " ".join(part for part in (self.words, self.remedy and f"{self.remedy.words}.") if part)


def worst(checks: Sequence[Check]) -> Light:
    order = list(Light)
    return max((check.light for check in checks), key=order.index, default=Light.GREEN)


def command(checks: Sequence[Check], written: Callable[[Sequence[Remedy]], str] = advice.command) -> str:
    """One command, or call, that does what all checks advise; nothing where none advises anything it could do."""
    remedies = [remedy for remedy in advice.without_conflicts(check.remedy for check in checks) if remedy is not None]
    return written(remedies) if any(remedy.options for remedy in remedies) else ""


def checks(model: Any, frame: Any, tests: Sequence[Mapping[str, Any]] = ()) -> list[Check]:
    """All checks of a fitted model, given its diagnostics and the scores of hidden cells."""
    return [*promises(model, tests), *_mixing(model, frame), *_temperatures(model, frame), *_sampler(model)]


def promises(model: Any, tests: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Of a fitted model, among the scores of all methods."""
    mine = [row for row in tests if row["model"] == type(model).__name__]
    return list(kept_promises(mine, circumstances.of_fitted(model)))


def kept_promises(tests: Sequence[Mapping[str, Any]], about: Circumstances = PLAIN) -> Iterator[Check]:
    """Whether intervals of 90 % held 90 % of the hidden cells, give or take what so few cells leave to chance: of all
    columns together, and whether there are some that fell behind.  Columns that were expected to are judged apart, so
    that they make no light red, and hide nobody else's shortfall."""
    for row in tests:
        if not scoreboard.is_summary(row) or (light := _kept(row)) is None:
            continue
        others = [other for other in tests if other["experiment"] == row["experiment"]]
        behind = [_held(other) for other in others if _is_behind(other)]
        found = f"hold {_held(row)} cells" + (f"; too few in {wording.some(behind)}" if behind else "")
        light = Light.AMBER if behind and light == Light.GREEN else light
        words = "" if light == Light.GREEN else _too_narrow(about)
        if words and (expected := [other for other in others if _is_expected(other, about)]):
            light, words = _judged_apart(row, expected, [o for o in others if o not in expected], light, words)
            words = f"{_expected(expected, about)} {words}".strip()
        yield Check(f"90 % intervals of hidden {row['experiment']}", found, light, words)


def _judged_apart(row, expected, others, light: Light, words: str) -> tuple[Light, str]:
    """Light and words by what is left without the columns that were expected to fall short, if anything is; amber at
    best."""
    rest = _without(row, expected)
    if (kept := _kept(rest)) is None:
        return light, words
    is_short = kept != Light.GREEN or any(_is_behind(other) for other in others)
    light = Light.AMBER if kept == Light.GREEN else kept
    return light, f"The other columns hold {_held(rest)}. {words if is_short else ''}"


def _too_narrow(about: Circumstances) -> str:
    own = f"give each column a path of its own ({OWN_PATHS}), or " if about.may_have_paths else ""
    return (
        "Intervals are too narrow for such gaps. See to the chains first (R-hat and effective draws); if these are "
        f"good, {own}try another latent_dim or kernel. Scores by column: evaluation.csv of the run, or what "
        "model.evaluate returned."
    )


def _kept(row: Mapping[str, Any]) -> Light | None:
    lack = _lack(row, NUM_ERRORS_OF_CELLS)
    return None if lack is None else _light(lack, SMALL_SHORTFALL, LARGE_SHORTFALL)


def _is_expected(row: Mapping[str, Any], about: Circumstances) -> bool:
    """Whether a column fell short that has many zeros."""
    return row.get("column") in about.zeros and (_lack(row, 0) or 0.0) > 0


def _expected(rows: Sequence[Mapping[str, Any]], about: Circumstances) -> str:
    columns = wording.some([f"{row['column']} ({about.zeros[row['column']]:.0%} zeros)" for row in rows])
    return (
        f"Fewer cells were expected in {columns}: the model knows no mass at zero, and a zero counts by the chance "
        "that it is given, which is too small. Take upper bounds there, not the chance of 0."
    )


def _without(row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A summary of all columns but these."""
    cells = np.array([r["metrics"]["cells"] for r in (row, *columns)], float)
    inside = cells * [r["metrics"]["coverage90"] for r in (row, *columns)]
    left = float(cells[0] - cells[1:].sum())
    share = float(inside[0] - inside[1:].sum()) / left if left > 0 else float("nan")
    return {**row, "metrics": {"coverage90": share, "cells": left}}


def _lack(row: Mapping[str, Any], num_errors: int) -> float | None:
    """By how much intervals of 90 % hold less than that beyond chance; None where nothing has an interval."""
    share, cells = row["metrics"].get("coverage90"), row["metrics"].get("cells")
    if share is None or share != share or not cells:
        return None
    return PROMISED - share - num_errors * (PROMISED * (1 - PROMISED) / cells) ** 0.5


def _is_behind(row: Mapping[str, Any]) -> bool:
    """One column of many is short by chance more easily than all of them together."""
    lack = None if scoreboard.is_summary(row) else _lack(row, NUM_ERRORS_OF_CELLS + 1)
    return lack is not None and lack > SMALL_SHORTFALL


def _held(row: Mapping[str, Any]) -> str:
    words = f"{row['metrics']['coverage90']:.0%} of {row['metrics']['cells']:.0f}"
    return words if scoreboard.is_summary(row) else f"{row['column']} ({words})"


def _temperatures(model, frame) -> Iterator[Check]:
    for name, row in frame[frame["kinetic_temperature"].notna()].iterrows():
        value, error = row["kinetic_temperature"], row["temperature_error"]
        off = abs(value - model.temperature) - NUM_ERRORS * (0.0 if error != error else error)
        light = _light(off / model.temperature, TEMPERATURE_TOLERANCE, LARGE_TOLERANCE)
        yield Check(f"kinetic temperature, {str(name).removeprefix('block: ')}", f"{value:.3f} ± {error:.3f}", light,
                    *_unless_green(light, model, Trouble.LARGE_STEPS))  # fmt: skip
    if model.temperature != 1:
        words = "At any temperature but 1 the spread of the draws is not that of the posterior."
        yield Check("temperature asked for", f"{model.temperature:g}", Light.RED, words,
                    advice.on(Trouble.NOT_SAMPLED, model._now()))  # fmt: skip


def _mixing(model, frame) -> Iterator[Check]:
    r_hat, ess = frame["r_hat"].dropna(), frame["ess"].dropna()
    if model.num_chains_ < 2:
        remedy = None if len(model.dead_chains_) else advice.on(Trouble.ONE_CHAIN, model._now())
        yield Check("R-hat", "not available", Light.AMBER, "One chain cannot disagree with itself.", remedy)
    elif len(r_hat):
        light = _light(r_hat.median(), LARGEST_RHAT, DISTANT_RHAT)
        if light == Light.GREEN and r_hat.max() > LARGEST_SINGLE_RHAT:
            light = Light.AMBER
        words = f"median {r_hat.median():.2f}, largest {r_hat.max():.2f} ({r_hat.idxmax()})"
        yield Check("R-hat", words, light, *_unless_green(light, model, Trouble.DISAGREEMENT, "Chains disagree."))
    if len(ess):
        light = _light(-ess.median(), -SMALLEST_ESS, -TINY_ESS)
        words = f"median {ess.median():.0f}, smallest {ess.min():.0f} ({ess.idxmin()})"
        yield Check(
            "effective draws",
            words,
            light,
            *_unless_green(light, model, Trouble.FEW_DRAWS, "Draws are few.", ess=float(ess.median())),
        )


def _sampler(model) -> Iterator[Check]:
    if (share := model.fraction_clamped_) > 0:
        yield Check("minibatch noise beyond the injected noise", f"{share:.1%} of coordinates", Light.RED, "",
                    advice.on(Trouble.NOISY_BATCHES, model._now()))  # fmt: skip
    acceptance = model._acceptance()
    if acceptance is not None:
        light = Light.GREEN if acceptance >= SMALLEST_ACCEPTANCE else Light.AMBER
        words = "The kernel and the inducing inputs hardly move."
        yield Check("accepted moves of the kernel", f"{acceptance:.0%}", light,
                    *_unless_green(light, model, Trouble.STUCK_KERNEL, words))  # fmt: skip
    moved = model._acceptance("latents_acceptance")
    if moved is not None:
        light = Light.GREEN if moved >= SMALLEST_ACCEPTANCE else Light.AMBER
        yield Check("accepted moves of the latents", f"{moved:.0%}", light,
                    *_unless_green(light, model, Trouble.STUCK_LATENTS, "The latents hardly move."))  # fmt: skip
    if len(model.dead_chains_):
        yield Check("chains that diverged", ", ".join(map(str, model.dead_chains_)), Light.RED, "",
                    advice.on(Trouble.LARGE_STEPS, model._now()))  # fmt: skip
    if unseen := model._unseen():
        is_image = model._of_images()
        found = f"{len(unseen)} of the pixels" if is_image else wording.some(unseen)
        yield Check("columns without an observed cell", found, Light.AMBER, "", advice.on_unseen(unseen, is_image))


def _unless_green(
    light: Light, model: Any, trouble: Trouble, words: str = "", **found: float
) -> tuple[str, Remedy | None]:
    return ("", None) if light == Light.GREEN else (words, advice.on(trouble, {**model._now(), **found}))


def _light(value: Any, good: Any, bearable: Any) -> Light:
    """Larger is worse."""
    return Light.GREEN if value <= good else Light.AMBER if value <= bearable else Light.RED
