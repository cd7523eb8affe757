"""The command that fitted a run as it was typed: it repeats the run, and advice is given in its words."""

import contextvars
import shlex
from collections.abc import Sequence

COMMAND = "gpbae fit"
OF_ONE_RUN = {"--out": 1, "-o": 1, "--log-json": 1, "--quiet": 0, "-q": 0}
"""Options that another run does not share, and how many words each takes."""


latest: contextvars.ContextVar[str] = contextvars.ContextVar("latest")
"""That which is being obeyed."""


def command(arguments: Sequence[str]) -> str:
    """`gpbae fit` with these arguments, as a shell takes them."""
    return f"{COMMAND} {shlex.join(arguments)}"


def shared(typed: str) -> str:
    """The command without what is of one run only."""
    words, kept = iter(shlex.split(typed)[len(COMMAND.split()) :]), []
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in OF_ONE_RUN:
            kept.append(word)
        elif not equals and OF_ONE_RUN[name]:
            next(words, None)
    return command(kept)
