"""What a user should know of a table before it is fitted: likelihoods, logarithms, numbers that look like gaps, rows
that look like several series."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpbae.answering import wording
from gpbae.cli import arguments, parsing

MANY = 0.2
SHORTEST_SERIES = 3
"""Share of rows with inputs that another row has too: fewer are slips, or clocks that were turned back."""


def before_fit(estimator: Any, y: Any, transform: Any = "auto") -> Iterator[str]:
    """One sentence each; none for a plain table.  Rows outside `y` may have made another transform of "auto"."""
    if hasattr(estimator, "likelihood") and (words := arguments.likelihoods_in_words(estimator.likelihood, y)):
        yield words
    if getattr(estimator, "transform", None) == "auto":
        yield from _of_logarithms(estimator, y, transform)
    yield from of_codes(y)


def of_codes(y: Any) -> Iterator[str]:
    """Numbers that look like gaps: a fit that takes them for measurements is not worth much, so they are told before
    it and after."""
    from gpbae.tabular import codes, tables

    for name in () if tables.EVENT_SHAPE in y.attrs else y.columns:
        if y[name].dtype.kind in "iuf" and (found := codes.found(y[name].to_numpy(float))) is not None:
            yield f"{codes.in_words(name, *found)}, pass --missing {shlex.quote(f'{name}={found[0]:g}')}."


def of_latents(estimator: Any, given: Sequence[str]) -> Iterator[str]:
    """How many latents a model of ours has, where the table has chosen; where the fit is to choose, once it has."""
    if not hasattr(estimator, "num_chains") or "latent_dim" in given:  # a baseline has no chains
        return
    number = getattr(estimator, "num_shared_", None) if estimator.latent_dim is None else estimator.latent_dim
    if number is not None:
        were = "latent was" if number == 1 else "latents were"
        yield f"{number} {were} chosen to suit the table; change with --latent-dim."


def of_rows(table: Any) -> Iterator[str]:
    """What rows and their labels may have been copied or typed wrong."""
    yield from of_series(table)
    yield from of_labels(table)
    yield from of_copies(table)


def of_labels(table: Any) -> Iterator[str]:
    """Labels of groups that differ only in case, or in blanks around them."""
    alike: dict[str, list[str]] = {}
    for label in dict.fromkeys(() if table.groups is None else table.groups):
        alike.setdefault(label.strip().casefold(), []).append(label)
    if found := [" and ".join(map(repr, labels)) for labels in alike.values() if len(labels) > 1]:
        yield (
            f"{wording.some(found)} in {table.columns.groups} are series of their own; if they are one, write their "
            "labels alike."
        )


def of_copies(table: Any) -> Iterator[str]:
    """Rows that repeat another, inputs and all."""
    again = table.rows.duplicated().to_numpy() if table.x is not None else np.zeros(1, bool)
    if (number := int(again.sum())) > 0:
        what = "1 row repeats an earlier one" if number == 1 else f"{number} rows repeat earlier ones"
        first = parsing.place(table.rows, int(again.argmax()))
        yield f"{what} in every cell, first {first}. What is no measurement of its own should be left out."


def of_series(table: Any) -> Iterator[str]:
    """A hint where many rows have the inputs of another row and nothing says which series each belongs to."""
    if table.x is None or table.groups is not None:
        return
    again = table.x.duplicated(keep=False)
    if again.mean() >= MANY:
        name = _telling_apart(table)
        is_modelled = name in table.columns.outputs
        which = "a column" if name is None else f"{name}, modelled now," if is_modelled else name
        yield (
            f"{again.sum()} of {len(again)} rows have the same {' and '.join(table.columns.inputs)} as another row. If "
            f"{which} says which series a row belongs to, pass --groups {shlex.quote(name or 'COLUMN')}"
            f"{', and do not name it in --outputs' if is_modelled else ''}."
        )


def _telling_apart(table: Any) -> str | None:
    """The column of labels or whole numbers that tells rows with equal inputs apart and has the fewest values; what is
    not modelled before what is, words before numbers.  A value that only a row or two have names rows, not a series."""
    found = []
    for name in table.rows.columns.difference(table.columns.inputs, sort=False):
        cells = table.rows[name]
        numbers, gaps = parsing.read(cells, table.columns.writing(name))
        are_words = np.isnan(numbers)
        are_labels = not gaps.any() and bool(np.all(are_words | (numbers == np.round(numbers))))
        labels = cells.astype(str)
        if are_labels and labels.value_counts().min() >= SHORTEST_SERIES and _are_unique(table.x, labels):
            found.append((name in table.columns.outputs, not are_words.any(), labels.nunique(), name))
    return min(found, default=(None,))[-1]


def _are_unique(x: Any, labels: Any) -> bool:
    return not x.assign(**{"": labels.to_numpy()}).duplicated().any()


def _of_logarithms(estimator: Any, y: Any, transform: Any) -> Iterator[str]:
    """Of which columns they are modelled, and of which of these zeros will be drawn too seldom."""
    from gpbae.tabular import choice, tables, transforms

    seen = tables.observations(y)
    kinds = choice.choose(estimator.likelihood, seen)[0].kinds(seen.values.shape[1])
    values = np.where([kind == "real" for kind in kinds], seen.values, np.nan)
    found = transforms.fit(transform, values, seen.frame.names())
    how = {transforms.Log: "", transforms.Log1p: " (log1p, as it has zeros)"}
    if names := [f"{name}{how[type(t)]}" for name, t in zip(y.columns, found, strict=False) if type(t) in how]:
        yield f"Logarithms are modelled of {', '.join(names)}: never negative and skewed. Change this with --transform."
    for name, share in transforms.many_zeros(found, values, list(y.columns)).items():
        yield (
            f"{name} is 0 in {share:.0%} of its cells, and will be drawn as 0 less often; the few high values may lie "
            "above its intervals, so rely on neither, and expect --evaluate to find fewer cells inside, as it counts "
            f"zeros by their chance. For the chance, add a column of yes and no that says whether {name} is above 0."
        )
