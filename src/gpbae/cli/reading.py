"""A user's table as a model takes it: what was asked of its columns and rows, and what was found."""

import dataclasses
import functools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpbae.cli import terminal
from gpbae.cli.commas import Decimal
from gpbae.errors import InputError

FEWEST_ROWS = 2
MOST_NAMES = 8
ALL = "all"
"""Among the outputs: every column of numbers, or of yes and no."""


class Wish(NamedTuple):
    """What the options of `fit` say of a table, as they were typed."""

    inputs: str = ""
    outputs: str = ALL
    exclude: str = ""
    groups: str | None = None
    missing: tuple[str, ...] = ()
    first: str | None = None
    last: str | None = None
    date_format: str | None = None
    decimal: Decimal | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """The roles of the columns, the rows that are meant, and what a model is given of them."""

    columns: Any
    rows: Any
    x: Any
    groups: Any
    is_piece: bool = False
    """Of a longer table, whose other rows may hold what these do not."""

    @functools.cached_property
    def y(self) -> Any:
        """Read when asked for: a table of new inputs has none."""
        from gpbae.cli import roles

        return roles.outputs(self.rows, self.columns)

    @property
    def known(self) -> Any:
        """The columns that say which row it is, as the table has them."""
        return self.rows[[name for name in self.rows.columns if name in self.columns.carried()]]

    @property
    def places(self) -> Any:
        """Where to predict: a model without inputs knows rows by their number."""
        import numpy as np

        return np.zeros((len(self.rows), 1)) if self.x is None else self.x


def names(text: str) -> list[str]:
    """What stands between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read(path: Path, wish: Wish) -> Table:
    """A table to be fitted, and what its columns are."""
    from gpbae.cli import files

    return settled(files.read(path), wish, path.name)


def settled(cells: Any, wish: Wish, name_of_file: str) -> Table:
    """What the columns of a table are."""
    from gpbae.cli import roles

    columns, rows = stretched(cells, wish)
    if len(rows) < FEWEST_ROWS:
        raise InputError(
            f"A fit needs at least {FEWEST_ROWS} rows to learn from; got {len(rows)}. Name a longer table."
        )
    outputs = tuple(_outputs(rows, columns, wish))
    columns = dataclasses.replace(columns, outputs=outputs, table=name_of_file, image=_image(rows, outputs))
    for name, day in roles.days_as_numbers(rows, columns).items():
        terminal.say(f"Note: {name} is read as plain numbers; if {day} is a day, pass --date-format %Y%m%d.")
    return _table(rows, _with_kinds(columns, rows))


def in_words(columns: Any) -> Iterator[str]:
    """How images and dates were read."""
    if columns.image is not None:
        yield f"{columns.image.name} is read as images of {columns.image} pixels."
    for name, dates in columns.dates.items():
        yield f"{name} is read as {dates.words}."


def read_again(path: Path, columns: Any, first: str | None, last: str | None) -> Table:
    """Another table, read as the fitted one was."""
    from gpbae.cli import files, roles

    rows = files.read(path)
    if first is not None or last is not None:
        rows = rows[roles.within(rows, columns, first, last)]
    return _table(rows, columns)


def stretch_again(rows: Any, columns: Any, first: str | None, last: str | None) -> Table:
    """A piece of another table, which may have no row of those that are meant."""
    from gpbae.cli import roles

    if first is not None or last is not None:
        rows = rows[roles.are_within(rows, columns, first, last)]
    return dataclasses.replace(_table(rows, columns), is_piece=True)


def _table(rows: Any, columns: Any) -> Table:
    from gpbae.cli import roles

    return Table(columns, rows, roles.inputs(rows, columns), roles.labels(rows, columns))


def _with_kinds(columns: Any, rows: Any) -> Any:
    from gpbae.cli import roles

    kinds = roles.kinds(rows, columns)
    return dataclasses.replace(columns, kinds=kinds, words=roles.words(rows, kinds))


def stretched(table: Any, wish: Wish) -> tuple[Any, Any]:
    """The roles of all columns but the outputs, and the rows that are meant; dates count from the first."""
    from gpbae.cli import roles

    known = roles.resolve(table, names(wish.inputs))
    columns = roles.Columns(tuple(known), (), wish.groups, missing=roles.parse_missing(wish.missing))
    roles.resolve(table, [] if wish.groups is None else [wish.groups])
    for name, _ in columns.missing:
        roles.resolve(table, [] if name is None else [name])
    columns = dataclasses.replace(columns, decimal=wish.decimal or roles.decimal(table, columns))
    columns = dataclasses.replace(columns, dates=roles.find_dates(table, known, wish.date_format))
    if wish.first is None and wish.last is None:
        return columns, table
    if not known:
        raise InputError("--from and --to are places along the first input; name one with --inputs.")
    table = table[roles.within(table, columns, wish.first, wish.last)]
    return dataclasses.replace(columns, dates=roles.find_dates(table, known, wish.date_format)), table


def _images(table: Any) -> list[Any]:
    from gpbae.cli import files, roles

    return [roles.Image(name, shape) for name, shape in table.attrs.get(files.IMAGES, {}).items()]


def _image(table: Any, outputs: tuple[str, ...]) -> Any:
    """The array of images that the outputs are, if they are one and nothing else."""
    return next((image for image in _images(table) if image.pixels() == list(outputs)), None)


def _outputs(table: Any, columns: Any, wish: Wish) -> list[str]:
    """The columns to model, in the order of the table: those named, all that hold numbers, or both."""
    from gpbae.cli import roles

    taken = [*columns.carried(), *roles.resolve(table, names(wish.exclude))]
    asked, left = names(wish.outputs) or [ALL], []
    found = roles.resolve(table, [name for name in asked if name != ALL])
    if twice := sorted(set(columns.carried()) & set(found)):
        raise InputError(f"A column is either known or modelled; got {', '.join(twice)} as both. Name it once.")
    if ALL in asked:
        found += roles.all_outputs(table, [*taken, *found], columns)
        for pixels in (image.pixels() for image in _images(table)):  # some may be without a value, at an edge
            found += [name for name in pixels if set(pixels) & set(found) and name not in found]
        left = [name for name in table.columns if name not in (*found, *taken)]
        if found:
            _say_left(table, columns, left)
    found = [name for name in table.columns if name in found and name not in taken]
    _check_values(table, columns, found or left)
    _say_empty(without_value(table, columns, found), len(table), _image(table, tuple(found)))
    if not found:
        words = f" but words in {_some(left)}" if left else ""
        raise InputError(f"There is no column of numbers left to model{words}; name one with --outputs.")
    return found


def _check_values(table: Any, columns: Any, wanted: list[str]) -> None:
    """Refuse columns that have no value between them."""
    if wanted and without_value(table, columns, wanted) == wanted:
        raise InputError(
            f"Expected at least one observed cell to learn from; got nothing but gaps in {_some(wanted)} "
            f"({len(table)} rows). Look whether --missing, or --from and --to, leave anything; else name another table."
        )


def _say_empty(names: list[str], num_rows: int, image: Any) -> None:
    """Columns without a value are modelled if they are named, so the user is told; of a long table these are the first
    rows, and others may have some.  Pixels cannot be left out of an image."""
    if names and image is not None:
        terminal.say(
            f"Without a value in {num_rows} rows: {len(names)} of {len(image.pixels())} pixels of {image.name}; what "
            "the model says of them rests on their neighbours at most."
        )
    elif names:
        terminal.say(
            f"Without a value in {num_rows} rows: {_some(names)}. Unless other rows have some, what the model says of "
            f"it means nothing; leave it out with --exclude {shlex.quote(','.join(names))}."
        )


def without_value(table: Any, columns: Any, names: list[str]) -> list[str]:
    """Those of these columns that have no value."""
    from gpbae.cli import parsing

    return [name for name in names if parsing.read(table[name], columns.writing(name))[1].all()]


def _some(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


def _say_left(table: Any, columns: Any, names: list[str]) -> None:
    """Which columns are not modelled, and why."""
    empty = without_value(table, columns, names)
    if words := [name for name in names if name not in empty]:
        example = f"--outputs {shlex.quote(f'{ALL},{words[-1]}')}"
        terminal.say(f"Left out, not being numbers: {', '.join(words)}. Labels are modelled if named, as in {example}.")
    if empty:
        terminal.say(f"Left out, having no value: {', '.join(empty)}.")
