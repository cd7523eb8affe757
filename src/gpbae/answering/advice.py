"""What to do about a fit that is not to be trusted yet: one remedy for each trouble, said alike wherever it is said."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

Settings = Mapping[str, Any]
SMALLEST_ESS = 50
"""Effective draws; fewer make intervals rough."""


class Trouble(Enum):
    """What can be wrong with a fit."""

    NOT_SAMPLED = auto()
    LARGE_STEPS = auto()
    NOISY_BATCHES = auto()
    ONE_CHAIN = auto()
    DISAGREEMENT = auto()
    FEW_DRAWS = auto()
    STUCK_KERNEL = auto()
    CROWDED_INPUTS = auto()
    VAGUE_INPUTS = auto()


def _smaller_steps(now: Settings) -> Settings:
    return {"step_size": float(f"{now['step_size'] / 2:.2g}")}


def _longer_warmup(now: Settings) -> Settings:
    """Warm-up is a whole number of draws apart."""
    return {"num_warmup": 2 * max(now["num_warmup"], now["thinning"])}


def _more_draws(now: Settings) -> Settings:
    """Draws farther apart, unless so few are kept that no distance would make them enough."""
    few = now["num_draws"] < 2 * SMALLEST_ESS
    return {"num_samples": 2 * now["num_samples"]} if few else {"thinning": 2 * now["thinning"]}


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
    Trouble.CROWDED_INPUTS: _less_crowded,
    Trouble.VAGUE_INPUTS: lambda now: {"num_inducing": 2 * now["num_inducing"]},
}
"""What to fit with instead, given what was fitted with: the smallest step_size of a chain, batch_size of all rows if
there was none, num_inducing and latent_noise 0 where there are none, num_draws of all chains."""


def on(trouble: Trouble, now: Settings) -> str:
    """What to fit with instead, and the command; … stands for what was typed before."""
    changes = [f"{name}={value}" for name, value in REMEDIES[trouble](now).items()]
    command = _again(*(f"--set {change}" for change in changes))
    return f"Use {', '.join(changes)}; on the command line, in a new folder: {command}."


def on_unseen(columns: Sequence[str]) -> str:
    """What to do about columns without an observed cell; a name with a comma is no name on the command line."""
    words = f"Leave {'it' if len(columns) == 1 else 'them'} out"
    if any("," in name for name in columns):
        return f"{words}."
    names = shlex.quote(",".join(columns))
    return f"{words}; on the command line, in a new folder: {_again(f'--exclude {names}')}."


def _again(*options: str) -> str:
    return f"gpbae fit … {' '.join(options)} --out NEW"
