"""What to do about a fit that is not to be trusted yet: one remedy for each trouble, said alike wherever it is said."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

Settings = Mapping[str, Any]


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


def _half(number: float) -> float:
    return float(f"{number / 2:.2g}")


REMEDIES: dict[Trouble, Callable[[Settings], Settings]] = {
    Trouble.NOT_SAMPLED: lambda now: {"temperature": 1},
    Trouble.LARGE_STEPS: lambda now: {"step_size": _half(now["step_size"])},
    Trouble.NOISY_BATCHES: lambda now: {"batch_size": 2 * now["batch_size"]},
    Trouble.ONE_CHAIN: lambda now: {"num_chains": 4},
    Trouble.DISAGREEMENT: lambda now: {"num_warmup": 2 * now["num_warmup"]},
    Trouble.FEW_DRAWS: lambda now: {"thinning": 2 * now["thinning"]},
    Trouble.STUCK_KERNEL: lambda now: {"num_warmup": 2 * now["num_warmup"]},
    Trouble.CROWDED_INPUTS: lambda now: {"latent_noise": 0.01} if now["num_inducing"] < 2
    else {"num_inducing": now["num_inducing"] // 2},
    Trouble.VAGUE_INPUTS: lambda now: {"num_inducing": 2 * now["num_inducing"]},
}  # fmt: skip
"""What to fit with instead, given what was fitted with: step_size as found, batch_size of all rows if there was none,
num_inducing 0 where there are none."""


def on(trouble: Trouble, now: Settings) -> str:
    """What to fit with instead, and the command; … stands for what was typed before."""
    changes = [f"{name}={value}" for name, value in REMEDIES[trouble](now).items()]
    return f"Use {', '.join(changes)}, in a new folder: {_again(*(f'--set {change}' for change in changes))}."


def on_unseen(columns: Sequence[str]) -> str:
    """What to do about columns without an observed cell."""
    names = shlex.quote(",".join(columns))
    return f"Leave it out, in a new folder: {_again(f'--exclude {names}')}."


def _again(*options: str) -> str:
    return f"gpbae fit … {' '.join(options)} --out NEW"
