"""What a user should know of a table before it is fitted: likelihoods, logarithms, numbers that look like gaps, rows
that look like several series."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpbae.cli import arguments, parsing

MANY = 0.2
SHORTEST_SERIES = 3
"""Share of rows with inputs that another row has too: fewer are slips, or clocks that were turned back."""
MANY_ZEROS = 0.2
"""Share of zeros from which what is said of a column of log1p gives them too little chance to be passed over."""

WITH_ZEROS = " (log1p, as it has zeros)"


def before_fit(estimator: Any, y: Any, transform: Any = "auto") -> Iterator[str]:
    """One sentence each; none for a plain table.  Rows outside `y` may have made another transform of "auto"."""
    if hasattr(estimator, "likelihood") and (words := arguments.likelihoods_in_words(estimator.likelihood, y)):
        yield words
    if getattr(estimator, "transform", None) == "auto" and (names := _logarithms(estimator, y, transform)):
        yield f"Logarithms are modelled of {', '.join(names)}: never negative and skewed. Change this with --transform."
        yield from _zeros(y[[name.removesuffix(WITH_ZEROS) for name in names if name.endswith(WITH_ZEROS)]])
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


def _logarithms(estimator: Any, y: Any, transform: Any) -> list[str]:
    from gpbae.tabular import choice, tables, transforms

    seen = tables.observations(y)
    kinds = choice.choose(estimator.likelihood, seen)[0].kinds(seen.values.shape[1])
    real = np.array([kind == "real" for kind in kinds])
    found = transforms.fit(transform, np.where(real, seen.values, np.nan), seen.frame.names())
    how = {transforms.Log: "", transforms.Log1p: WITH_ZEROS}
    return [f"{name}{how[type(t)]}" for name, t in zip(y.columns, found, strict=False) if type(t) in how]


def _zeros(y: Any) -> Iterator[str]:
    """No likelihood of ours has a mass at zero: what lies below zero is drawn as zero, which is too seldom."""
    for name, share in (y == 0).sum().div(y.notna().sum()).items():
        if share >= MANY_ZEROS:
            yield (
                f"{name} is 0 in {share:.0%} of its cells, and will be drawn as 0 less often: take its upper bounds, "
                "not its chance of 0, and expect --evaluate to find fewer cells inside, as it counts zeros by that "
                f"chance. For the chance, add a column of yes and no that says whether {name} is above 0."
            )
