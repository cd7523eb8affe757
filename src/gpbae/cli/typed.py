"""The command that fitted a run as it was typed: it repeats the run, and advice is given in its words."""

import contextvars
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

COMMAND = "gpbae fit"
OF_ONE_RUN = {"--out": 1, "-o": 1, "--log-json": 1, "--quiet": 0, "-q": 0}
"""Options that another run does not share, and how many words each takes."""


latest: contextvars.ContextVar[str] = contextvars.ContextVar("latest")
"""That which is being obeyed."""


def command(arguments: Sequence[str]) -> str:
    """`gpbae fit` with these arguments, as a shell takes them."""
    return f"{COMMAND} {shlex.join(arguments)}"


def shared(typed: str) -> str:
    """The command without what is of one run only, and without a --, behind which no option could be added."""
    words, kept = iter(shlex.split(typed)[len(COMMAND.split()) :]), []
    for word in words:
        name, equals, _ = word.partition("=")
        if word == "--":
            kept += [f"./{file}" if file.startswith("-") else file for file in words]
        elif name not in OF_ONE_RUN:
            kept.append(word)
        elif not equals and OF_ONE_RUN[name]:
            next(words, None)
    return command(kept)


def placed(file: str, folder: str | None) -> str:
    """How a file is named here that was named in a folder: in the same words, where these mean the same file."""
    if folder is None:  # nobody knows
        return file
    whole = os.path.abspath(os.path.join(folder, file))
    if os.path.abspath(file) == whole:
        return file
    return os.path.relpath(whole) if Path(whole).is_relative_to(Path.cwd()) else whole


def here(typed: str, folder: str | None, files: Iterable[str]) -> str:
    """A command that was typed in a folder, as it is to be typed in this one; these of its words are files."""
    named = {Path(file) for file in files}

    def moved(word: str) -> str:
        option, equals, value = word.partition("=")
        if equals and option.startswith("--") and Path(value) in named:
            return f"{option}={placed(value, folder)}"
        return placed(word, folder) if Path(word) in named else word

    return shlex.join(map(moved, shlex.split(typed)))
