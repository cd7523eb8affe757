"""An option that `gpbae fit` does not have: which one, or which argument of the model, was meant."""

import difflib
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from typer.core import TyperCommand

from gpbae.cli import typed
from gpbae.cli.models import Model

ALIKE = 0.75
"""Of 1, for words that are the same."""
ELSEWHERE = {"draws": "num_samples", "iterations": "num_samples", "burn_in": "num_warmup", "burnin": "num_warmup",
             "tune": "num_warmup", "latents": "latent_dim", "thin": "thinning", "noise": "likelihood"}  # fmt: skip
"""What other programs call our arguments."""


class WithArguments(TyperCommand):
    """A command that says, of an option it does not have, what to write instead, and remembers how it was typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        typed.latest.set(typed.command(given))
        try:
            return super().parse_args(ctx, args)
        except Exception as problem:
            if type(problem).__name__ == "NoSuchOption":  # of click, or of the copy inside later releases of typer
                options = [name for option in self.params for name in option.opts]
                problem.message = sentence(problem.option_name, options, given)
                problem.possibilities = None
            elif type(problem).__name__ == "BadParameter" and getattr(problem.param, "name", None) == "model":
                problem.message = no_model(given)
            raise


def no_model(given: Sequence[str]) -> str:
    """Which models there are, and which one was meant by the word behind --model."""
    asked, models = _value("--model", given), [model.value for model in Model]
    model, likeness = _closest(_letters(asked), {_letters(name): name for name in models})
    meant = f" Did you mean {model}?" if likeness >= ALIKE else ""
    return f"expected one of {', '.join(models)}; got {asked!r}.{meant}"


def _letters(name: str) -> str:
    """Case and hyphens aside."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def sentence(wrong: str, options: Sequence[str], given: Sequence[str]) -> str:
    """What there is no such option of, and what to write: an option, or an argument of the model with its value."""
    asked, found = _plain(wrong), f"No such option: {wrong}"
    option, likeness = _closest(asked, {_plain(name): name for name in options if name.startswith("--")})
    if likeness == 1.0:  # one dash too few
        return f"{found}; write {option}."
    argument, closeness = _closest(ELSEWHERE.get(asked, asked), _forms(_arguments()))
    if closeness >= ALIKE and (own := f"--{argument.replace('_', '-')}") in options:
        return f"{found}; write {own} {_value(wrong, given)}."
    if max(closeness, likeness) < ALIKE:
        return f"{found}; `gpbae fit --help` has them all, and --set NAME=value sets an argument of the model."
    if closeness > likeness:
        return f"{found}; set it with --set {shlex.quote(f'{argument}={_value(wrong, given)}')}."
    return f"{found}; did you mean {option}?"


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_").lower()


def _arguments() -> list[str]:
    """Of the models that are sampled; whether the one at hand has it is asked later."""
    from gpbae import estimators

    return list(dict.fromkeys(name for cls in (estimators.SGPBAE, estimators.DSGPBAE) for name in cls._names()))


def _forms(names: Iterable[str]) -> dict[str, str]:
    """Every name as it is, and counts without their num_."""
    return {form: name for name in names for form in (name, name.removeprefix("num_"))}


def _closest(asked: str, known: dict[str, str]) -> tuple[str, float]:
    """The name most like what was asked, and how like it is."""
    likeness = {form: difflib.SequenceMatcher(None, asked, form).ratio() for form in known}
    best = max(likeness, key=likeness.__getitem__)
    return known[best], likeness[best]


def _value(wrong: str, given: Sequence[str]) -> str:
    """What was typed for it, behind an equals sign or as the next word."""
    for word, following in zip(given, [*given[1:], "-"], strict=True):
        name, equals, value = word.partition("=")
        if name == wrong:
            return value if equals else "VALUE" if following.startswith("-") else following
    return "VALUE"
