"""What to do about a fit that is not to be trusted yet: one remedy for each trouble, said alike wherever it is said."""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Any, NamedTuple

Settings = Mapping[str, Any]
TOGETHER = "All of this together: "
SET = "--set "
BEGINNING = "gpbae fit …"
"""Of a command; … stands for what was typed before."""
COMMAND = re.compile(f"{BEGINNING} (.*?) --out NEW")
ALONE = "--transform"
"""An option that stands once."""
SMALLEST_ESS = 50
"""Effective draws; fewer make intervals rough."""

LONG_WARMUP = 800
"""Sweeps: the default doubled twice.  Of made tables, chains of 1000 helped on some; on another they agreed better and
were wrong more often (docs/how-to/missing-data.md)."""
OTHERWISE = (
    "After so long a warm-up still longer chains are hardly the way: try another latent_dim or kernel, hide stretches "
    "as long as the gaps (how='blocks', --evaluate blocks), and where a column falls short, take a simpler way for it "
    "or widen its intervals by what was measured"
)


class Trouble(Enum):
    """What can be wrong with a fit."""

    NOT_SAMPLED = auto()
    LARGE_STEPS = auto()
    NOISY_BATCHES = auto()
    ONE_CHAIN = auto()
    DISAGREEMENT = auto()
    FEW_DRAWS = auto()
    STUCK_KERNEL = auto()
    STUCK_LATENTS = auto()
    CROWDED_INPUTS = auto()
    VAGUE_INPUTS = auto()


def _smaller_steps(now: Settings) -> Settings:
    return {"step_size": float(f"{now['step_size'] / 2:.2g}")}


def _longer_warmup(now: Settings) -> Settings:
    """Warm-up is a whole number of draws apart."""
    return {"num_warmup": 2 * max(now["num_warmup"], now["thinning"])}


def _more_draws(now: Settings) -> Settings:
    """Draws farther apart, unless so few are kept that no distance would make them enough; by what is missing, in steps
    of two, and at most eightfold at a time."""
    times = 2 ** min(3, max(1, math.ceil(math.log2(SMALLEST_ESS / max(now.get("ess", SMALLEST_ESS), 1.0)))))
    few = now["num_draws"] < 2 * SMALLEST_ESS
    return {"num_samples": times * now["num_samples"]} if few else {"thinning": times * now["thinning"]}


def _less_crowded(now: Settings) -> Settings:
    if now["num_inducing"] > 1:
        return {"num_inducing": now["num_inducing"] // 2}
    return {"latent_noise": max(0.01, 2 * now["latent_noise"])}


REMEDIES: dict[Trouble, Callable[[Settings], Settings]] = {
    Trouble.NOT_SAMPLED: lambda now: {"temperature": 1},
    Trouble.LARGE_STEPS: _smaller_steps,
    Trouble.NOISY_BATCHES: lambda now: {"batch_size": 2 * now["batch_size"]},
    Trouble.ONE_CHAIN: lambda now: {"num_chains": 4},
    Trouble.DISAGREEMENT: _longer_warmup,
    Trouble.FEW_DRAWS: _more_draws,
    Trouble.STUCK_KERNEL: _longer_warmup,
    Trouble.STUCK_LATENTS: _longer_warmup,
    Trouble.CROWDED_INPUTS: _less_crowded,
    Trouble.VAGUE_INPUTS: lambda now: {"num_inducing": 2 * now["num_inducing"]},
}
"""What to fit with instead, given what was fitted with: the smallest step_size of a chain, batch_size of all rows if
there was none, num_inducing and latent_noise 0 where there are none, num_draws of all chains."""


class Remedy(NamedTuple):
    """What to do in words, and by what it changes the options of the command line that do it, if any."""

    words: str
    options: Mapping[str, str]


Said = tuple[str, Remedy | None]
"""What is wrong, and what to do about it."""


def on(trouble: Trouble, now: Settings) -> Remedy:
    """What to fit with instead; of chains that disagree after a long warm-up, that it is not to be longer still."""
    if trouble == Trouble.DISAGREEMENT and now["num_warmup"] >= LONG_WARMUP:
        return Remedy(OTHERWISE, {})
    changes = {name: f"{name}={value}" for name, value in REMEDIES[trouble](now).items()}
    return Remedy(f"Use {', '.join(changes.values())}", {name: SET + text for name, text in changes.items()})


def on_unseen(columns: Sequence[str], of_images: bool) -> Remedy | None:
    """What to do about columns without an observed cell: nothing about pixels, without which there is no image.  A name
    with a comma is no name on the command line."""
    if of_images:
        return None
    words = f"Leave {'it' if len(columns) == 1 else 'them'} out"
    named = {} if any("," in name for name in columns) else {"exclude": f"--exclude {shlex.quote(','.join(columns))}"}
    return Remedy(words, named)


class Manner(NamedTuple):
    """How remedies are carried out: what follows the words of the only one, and what does all of several."""

    the_only_one: Callable[[Sequence[Remedy]], str]
    all_together: Callable[[Sequence[Remedy]], str]


def in_sentences(said: Sequence[Said], manner: Manner) -> list[str]:
    """Each trouble with its remedy; one command for all of them, at the end of the only one or as a sentence of its
    own."""
    kept = without_conflicts([remedy for _, remedy in said])
    remedies = [remedy for remedy in kept if remedy is not None]
    if len(remedies) == 1 and remedies[0].options:
        tail = f"{manner.the_only_one(remedies)}."
        return [words if remedy is None else f"{words} {remedy.words}{tail}"
                for (words, _), remedy in zip(said, kept, strict=True)]  # fmt: skip
    sentences = [words if remedy is None else f"{words} {remedy.words}."
                 for (words, _), remedy in zip(said, kept, strict=True)]  # fmt: skip
    if not any(remedy.options for remedy in remedies) or not (together := manner.all_together(remedies)):
        return sentences
    return [*sentences, f"{TOGETHER}{together}"]


def call(remedies: Iterable[Remedy]) -> str:
    """What does all of it for those who call the library; nothing where no argument is changed."""
    changes = [option.removeprefix(SET) for option in _options(remedies).values() if option.startswith(SET)]
    return f"model.set_params({', '.join(changes)}).fit(…)" if changes else ""


def without_conflicts(remedies: Iterable[Remedy | None]) -> list[Remedy | None]:
    """One setting has one value: a remedy that wants another than one before it is left out."""
    taken: dict[str, str] = {}
    kept = []
    for remedy in remedies:
        clashes = remedy is not None and any(taken.get(name, o) != o for name, o in remedy.options.items())
        kept.append(None if clashes else remedy)
        taken.update({} if clashes or remedy is None else remedy.options)
    return kept


def command(remedies: Iterable[Remedy]) -> str:
    """What does all of it."""
    return f"{BEGINNING} {' '.join(_options(remedies).values())} --out NEW"


def _or_in_python(remedies: Iterable[Remedy]) -> str:
    return f"{found} in Python, or " if (found := call(remedies)) else ""


COMMANDS = Manner(
    lambda remedies: f"; on the command line, in a new folder: {command(remedies)}",
    lambda remedies: f"{_or_in_python(remedies)}on the command line, in a new folder: {command(remedies)}",
)
CALLS = Manner(lambda remedies: f": {call(remedies)}" if call(remedies) else "", call)
"""On the command line, and in Python."""


class Typed(NamedTuple):
    """The command that fitted a run, but for what is of that run only, and a folder that is not taken."""

    command: str
    folder: str


def spelled_out(sentence: str, typed: Typed | None) -> str:
    """A sentence with what was typed in the place of the dots, where that is known, but for what it changes."""
    if typed is None:
        return sentence

    def whole(found: re.Match[str]) -> str:
        options = shlex.split(found[1])
        return f"{shlex.join([*_unchanged(shlex.split(typed.command), options), *options, '--out', typed.folder])}"

    return COMMAND.sub(whole, sentence).replace(BEGINNING, typed.command)


def _unchanged(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """What was typed without the settings that are set again: the last word would count, but nobody would know."""
    again = {value.partition("=")[0] for option, value in pairwise(options) if option == SET.strip()}
    typed = iter(words)
    for word in typed:
        value = next(typed, "") if word in (SET.strip(), ALONE) else None
        if value is None:
            yield word
        elif not (word == ALONE and ALONE in options) and value.partition("=")[0] not in again:
            yield from (word, value)


def _options(remedies: Iterable[Remedy]) -> dict[str, str]:
    return {name: option for remedy in remedies for name, option in remedy.options.items()}
