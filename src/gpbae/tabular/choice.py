"""Which likelihood each column gets: the one that was asked for, or one that suits what the column holds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbae import likelihoods
from gpbae.errors import InputError
from gpbae.likelihoods import AbstractLikelihood, Blocks, Mixed
from gpbae.tabular.columns import Coding
from gpbae.tabular.tables import Observations

FEWEST_COUNTS = 20
LARGEST_COUNT = 1000
LEAST_SCATTER, POISSON_SCATTER, LARGE_SCATTER = 0.5, 1.2, 10.0
"""Variance over mean.  Below the first, whole numbers are no counts; above the second, a Poisson is too narrow; above
the third, whole numbers may be counts though no zero was seen."""
UNSEEN_ZEROS = 3.0
MOST_NAMES = 8


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a table: its observed cells and, from a data frame, how it looked."""

    name: str
    observed: np.ndarray
    coding: Coding | None


def choose(argument: Any, seen: Observations) -> tuple[AbstractLikelihood, dict[str, str]]:
    """The likelihood of a table, and in a few words that of each column (of all of them, where there is but one)."""
    names = tuple(seen.frame.names())
    argument = Mixed(argument) if isinstance(argument, dict) else argument
    members, words = _members(argument, seen, names)
    likelihood = likelihoods.join(members)
    likelihood.check(seen.values, seen.mask, names)
    if seen.frame.columns is None and not isinstance(likelihood, Blocks):
        return likelihood, {"every column": words[0]}
    return likelihood, dict(zip(names, words, strict=True))


def _members(argument: Any, seen: Observations, names: tuple[str, ...]) -> tuple[list[AbstractLikelihood], list[str]]:
    columns = [_column(seen, i, name) for i, name in enumerate(names)]
    asked, default = _asked(argument, names)
    if not asked and default == "auto" and (one := _of_the_whole(seen)) is not None:
        return [one[0]] * len(names), [f"{word_of(one[0])}: {one[1]}"] * len(names)
    pairs = [_one(asked.get(i, default), column) for i, column in enumerate(columns)]
    return [member for member, _ in pairs], [f"{word_of(member)}: {why}" for member, why in pairs]


def _asked(argument: Any, names: tuple[str, ...]) -> tuple[dict[int, Any], Any]:
    """What was asked for by position, and what the other columns get."""
    if not isinstance(argument, Mixed):
        return {}, argument
    found = {}
    for name, value in argument.columns.items():
        is_position = name not in names and name.isdigit() and int(name) < len(names)
        if name not in names and not is_position:
            raise InputError(f"likelihood names the column {name!r}; y has {', '.join(names[:20])}.")
        found[int(name) if is_position else names.index(name)] = value
    return found, argument.default


def _one(asked: Any, column: Column) -> tuple[AbstractLikelihood, str]:
    """The likelihood of one column, sized for its labels, and why."""
    if isinstance(asked, str) and asked == "auto":
        member, why = _suited(column)
    elif isinstance(asked, str) and asked in likelihoods.WORDS:
        member, why = likelihoods.WORDS[asked](), "as asked"
    elif isinstance(asked, AbstractLikelihood) and not isinstance(asked, Blocks):
        member, why = asked, "as asked"
    else:
        raise InputError(
            f"likelihood must be 'auto', {', '.join(map(repr, likelihoods.WORDS))}, a value of gpbae.likelihoods or "
            f"one of these by column; got {asked!r}."
        )
    return _sized(member, column), why


def _sized(member: AbstractLikelihood, column: Column) -> AbstractLikelihood:
    """Labels need as many classes as there are labels, and no likelihood of numbers."""
    labels = column.coding.labels if column.coding is not None else ()
    (kind,) = member.kinds(1)
    if labels and kind != "class" and not (kind == "truth" and len(labels) == 2):
        raise InputError(
            f"Column {column.name} holds labels such as {labels[0]!r}, and {word_of(member)} is for numbers: "
            "use likelihood='auto' or 'categorical' for it, or leave it out."
        )
    if not isinstance(member, likelihoods.Categorical) or member.num_classes is not None:
        return member
    num = len(labels) if labels else int(column.observed.max(initial=0)) + 1
    if num < 2:
        if len(column.observed) < 2:
            raise InputError(
                f"Column {column.name} must have labels in at least two rows to learn from; got "
                f"{len(column.observed)}. Pass more rows, or leave it out."
            )
        what = f"the label {labels[0]!r}" if labels else "0"
        raise InputError(f"Column {column.name} holds {what} only, which leaves nothing to learn: leave it out.")
    return likelihoods.Categorical(num)


def _of_the_whole(seen: Observations) -> tuple[AbstractLikelihood, str] | None:
    """Tables of zeros and ones, and images, are of one piece."""
    labelled = any(coding.labels for coding in seen.frame.codings or ())
    if not labelled and np.isin(seen.values[seen.mask], (0.0, 1.0)).all():
        return likelihoods.Bernoulli(), "0 and 1"
    return (likelihoods.Gaussian(), "real numbers") if len(seen.frame.event_shape) > 1 else None


def _suited(column: Column) -> tuple[AbstractLikelihood, str]:
    """A likelihood for what the column holds."""
    y, coding = column.observed, column.coding
    if coding is not None and coding.labels:
        return likelihoods.Categorical(), f"{len(coding.labels)} labels"
    if coding is not None and coding.holds == "truth":
        return likelihoods.Bernoulli(), "yes or no"
    if set(np.unique(y)) == {0.0, 1.0}:
        return likelihoods.Bernoulli(), "0 and 1"
    if _are_counts(y):
        scatter = y.var() / y.mean()
        why = f"whole numbers from {y.min():.0f}, variance {scatter:.2g} times the mean"
        return (likelihoods.NegativeBinomial() if scatter > POISSON_SCATTER else likelihoods.Poisson()), why
    return likelihoods.Gaussian(), "real numbers"


def _are_counts(y: np.ndarray) -> bool:
    """Enough whole numbers, none negative, that scatter like counts: ratings and ages do not."""
    if y.size < FEWEST_COUNTS or y.min() < 0 or not 1 < y.max() <= LARGEST_COUNT or (y != np.round(y)).any():
        return False
    if y.min() == 0:
        return bool(y.var() >= LEAST_SCATTER * y.mean())
    return _are_large_counts(y)


def _are_large_counts(y: np.ndarray) -> bool:
    """Whole numbers without a zero may as well be measurements that were rounded.  They are taken for counts if they
    scatter so much that a Poisson's variance, the least that a count may have, is a small part of theirs; if they have
    at least half the skewness of a negative binomial of their mean m and variance, which is about twice sd/m; and if
    so many draws of it would hold but a few zeros: P(0) = (1 + d m)^(−1/d) with variance = m + d m²."""
    m, variance = y.mean(), y.var()
    if variance < LARGE_SCATTER * m:
        return False
    skewness = np.mean((y - m) ** 3) / variance**1.5
    d = (variance - m) / m**2
    return bool(skewness >= np.sqrt(variance) / m and y.size * (1 + d * m) ** (-1 / d) < UNSEEN_ZEROS)


def in_words(chosen: Mapping[str, str]) -> str:
    """Which likelihood goes with which columns, of what `choose` says of each; one word where all have the same."""
    columns: dict[str, list[str]] = {}
    for name, words in chosen.items():
        columns.setdefault(words.split(":")[0], []).append(name)
    if len(columns) == 1:
        return next(iter(columns))
    return "; ".join(
        f"{word} for {', '.join(names[:MOST_NAMES])}" + (" …" if len(names) > MOST_NAMES else "")
        for word, names in columns.items()
    )


def word_of(likelihood: AbstractLikelihood) -> str:
    """The word for a likelihood, its class where there is none."""
    words = {cls: word for word, cls in likelihoods.WORDS.items()}
    return words.get(type(likelihood), type(likelihood).__name__)


def _column(seen: Observations, i: int, name: str) -> Column:
    codings = seen.frame.codings
    return Column(name, seen.values[seen.mask[:, i], i], None if codings is None else codings[i])
