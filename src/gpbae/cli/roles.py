"""The roles of a table's columns: which are known, which are modelled, and how to read them the same way again."""

import dataclasses
import difflib
import fnmatch
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbae.cli import commas, dates, parsing
from gpbae.cli.commas import Decimal
from gpbae.cli.dates import Dates
from gpbae.errors import InputError
from gpbae.tabular import tables

if TYPE_CHECKING:
    import pandas


class Image(NamedTuple):
    """The array whose pixels the outputs are, and their arrangement."""

    name: str
    shape: tuple[int, ...]

    def pixels(self, ending: str = "") -> list[str]:
        """The columns of the array, or those beside them."""
        return [f"{self.name}[{i}]{ending}" for i in range(math.prod(self.shape))]

    def __str__(self) -> str:
        return " × ".join(map(str, self.shape))


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns are what, and how to read them the same way again."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    groups: str | None = None
    dates: dict[str, Dates] = dataclasses.field(default_factory=dict)
    missing: tuple[tuple[str | None, parsing.Code], ...] = ()
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)
    words: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # for no and yes
    decimal: Decimal | None = None
    table: str = dataclasses.field(default="", compare=False)  # the name of its file, for the reader
    image: Image | None = None

    def carried(self) -> list[str]:
        """Columns that say which row it is."""
        return [*self.inputs, *([] if self.groups is None else [self.groups])]

    def to_json(self) -> bytes:
        plain = dataclasses.asdict(self) | {"dates": {name: d._asdict() for name, d in self.dates.items()}}
        return (json.dumps(plain, indent=2) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> "Columns":
        plain = json.loads(content)
        missing = ((name, code if isinstance(code, str) else float(code)) for name, code in plain.get("missing", ()))
        return cls(
            tuple(plain["inputs"]),
            tuple(plain["outputs"]),
            plain["groups"],
            {name: Dates(**d) for name, d in plain.get("dates", {}).items()},
            tuple(missing),
            plain.get("kinds", {}),
            plain.get("words", {}),
            None if plain.get("decimal") is None else Decimal(plain["decimal"]),
            str(plain.get("table", "")),
            None if plain.get("image") is None else Image(plain["image"][0], tuple(plain["image"][1])),
        )

    def writing(self, name: str) -> parsing.Writing:
        """How the cells of a column are written: what means a gap, what commas are, whether words are yes and no."""
        gaps = tuple(value for column, value in self.missing if column in (None, name))
        return parsing.Writing(gaps, self.decimal, self.kinds[name] == parsing.BOOLEAN if name in self.kinds else None)


# Names.


def resolve(table: "pandas.DataFrame", names: Sequence[str]) -> list[str]:
    """The columns that names stand for: a column, all columns of an array, or a pattern with * and ?."""
    found = []
    for name in names:
        members = _members(list(table.columns), name)
        if not members:
            raise InputError(_unknown(table, name))
        found += members
    if repeated := {name for name in found if found.count(name) > 1}:
        raise InputError(f"Each column must be named once; got {', '.join(sorted(repeated))} more than once.")
    return found


def _members(columns: list[str], name: str) -> list[str]:
    plain = [c for c in columns if c == name or (c.startswith(f"{name}[") and c.endswith("]"))]
    return plain or ([c for c in columns if fnmatch.fnmatchcase(c, name)] if set(name) & set("*?") else [])


def _unknown(table: "pandas.DataFrame", name: str) -> str:
    has = f"the table has {', '.join(map(str, table.columns[:20]))}"
    if set(name) & set("*?"):
        return f"Expected a column that matches {name!r}; {has}."
    letters = {_letters(str(column)): str(column) for column in reversed(table.columns)}
    close = [letters[key] for key in difflib.get_close_matches(_letters(name), letters, n=1)]
    return f"Expected a column {name!r}; {has}." + (f" Did you mean {close[0]!r}?" if close else "")


def _letters(name: str) -> str:
    """Case, blanks and the like aside; all of it where there is nothing else."""
    return "".join(letter for letter in name.casefold() if letter.isalnum()) or name


def all_outputs(table: "pandas.DataFrame", taken: Sequence[str], roles: Columns) -> list[str]:
    """Every column of numbers, or of yes and no, that has a value and no other role."""
    return [name for name in table.columns
            if name not in taken and parsing.is_numeric(table[name], name, roles.writing(name))]  # fmt: skip


# Cells.


def inputs(table: "pandas.DataFrame", roles: Columns) -> "pandas.DataFrame | None":
    """Input columns as floats, dates in their unit; None if there are none."""
    import pandas as pd

    if not roles.inputs:
        return None
    return pd.DataFrame({name: _input(table, roles, name) for name in resolve(table, roles.inputs)})


def _input(table, roles: Columns, name: str) -> np.ndarray:
    if name in roles.dates:
        return roles.dates[name].numbers(table[name], name)
    how = roles.writing(name)._replace(missing=())
    found, _ = parsing.read(table[name], how)
    if np.isnan(found).any():
        _refuse_input(table[name], name, int(np.isnan(found).argmax()))
    if np.isinf(found).any():
        _refuse_input(table[name], name, int(np.isinf(found).argmax()), "a finite number")
    parsing.check_commas(table[name], name, how)
    return found


def _refuse_input(column, name: str, row: int, what: str = "a number") -> None:
    got = f"{column.iloc[row]!r} {parsing.place(column, row)}"
    raise InputError(f"Input {name!r} must be {what} in every row; got {got}. Mend the cell, or drop that row.")


def find_dates(table: "pandas.DataFrame", names: Sequence[str], date_format: str | None) -> dict[str, Dates]:
    """The input columns that hold dates, in the format that was given if there is one; text that is neither a number
    nor a date is refused, and so is a format in which nothing is written."""
    found = {}
    for name in names:
        column = table[name]
        numbers, gaps = parsing.read(column)
        wrong = np.isnan(numbers) & ~gaps
        if column.dtype.kind != "M" and not wrong.any() and not dates.are_in_format(column, date_format):
            continue
        read = dates.fit(column, name, date_format)
        if read is None:
            if wrong.mean() < 0.5:
                _refuse_input(column, name, int(wrong.argmax()))
            first = int(wrong.argmax())
            raise InputError(
                f"Input {name!r} must hold numbers or dates; got {column.iloc[first]!r} {parsing.place(column, first)}."
                f" If it says which series a row belongs to, pass --groups {shlex.quote(name)}; if its dates are "
                "unusual, pass --date-format."
            )
        found[name] = read
    if date_format is not None and not found:
        got = f"{table[names[0]].iloc[0]} in {names[0]!r}" if names else "no input"
        raise InputError(
            f"Expected an input with dates as in --date-format {date_format!r}; got {got}. Mend it, or leave it out."
        )
    return found


def days_as_numbers(table: "pandas.DataFrame", roles: Columns) -> dict[str, str]:
    """Inputs read as numbers that look like 20200130, and the first cell of each."""
    names = [name for name in roles.inputs if name not in roles.dates]
    return {name: dates.written(table[name]).iloc[0] for name in names if dates.are_days(table[name])}


def decimal(table: "pandas.DataFrame", roles: Columns) -> Decimal | None:
    """What the commas of a table's numbers mean, if a column proves it and no other the contrary: files are written in
    one way, and a column of 1,234 and 2,500 is to be read as its neighbours are."""
    proofs = {_proof(table[name], roles.writing(name)) for name in table.columns} - {None}
    return proofs.pop() if len(proofs) == 1 else None


def _proof(column, how: parsing.Writing) -> Decimal | None:
    """None also where there are words, whose commas mean something else."""
    words = _text_of_numbers(column, how)
    return None if words is None else commas.proven(words)


def _text_of_numbers(column, how: parsing.Writing) -> Any:
    """The cells of a column of text that holds numbers and gaps only; None of any other."""
    if column.dtype.kind in "biufM":
        return None
    found, blank = parsing.read(column, how)
    return None if (np.isnan(found) & ~blank).any() else parsing.text(column)


def sign_to_write(table: "pandas.DataFrame", roles: Columns, separator: str) -> Decimal:
    """The decimal sign for what is written beside a table's cells: that which they show.  Where they show both, that of
    the fitted table; where none, the same, unless commas part the columns."""
    texts = ((_text_of_numbers(table[name], roles.writing(name)), roles.writing(name)) for name in table.columns)
    shown = {commas.shown(words, how.decimal) for words, how in texts if words is not None} - {None}
    if len(shown) == 1:
        return Decimal(shown.pop())
    return roles.decimal if roles.decimal and (shown or separator != ",") else Decimal.POINT


def kinds(table: "pandas.DataFrame", roles: Columns) -> dict[str, str]:
    """Whether each input that is no date, and each output, holds numbers, whole numbers, yes and no, or categories."""
    names = [*(name for name in roles.inputs if name not in roles.dates), *roles.outputs]
    return {name: parsing.kind(table[name], name, roles.writing(name)) for name in names}


def outputs(table: "pandas.DataFrame", roles: Columns) -> "pandas.DataFrame":
    """Output columns as the model takes them."""
    import pandas as pd

    def typed(name):
        return parsing.typed(table[name], name, roles.kinds.get(name, parsing.NUMBER), roles.writing(name))

    found = pd.DataFrame({name: typed(name) for name in resolve(table, roles.outputs)})
    if roles.image is not None:
        found = found.astype(float)  # a pixel has no kind of its own
        found.attrs[tables.EVENT_SHAPE] = roles.image.shape
    return found


def gaps(table: "pandas.DataFrame", roles: Columns) -> "pandas.DataFrame":
    """Where output columns have nothing to say."""
    import pandas as pd

    found = {name: parsing.read(table[name], roles.writing(name))[1] for name in roles.outputs}
    return pd.DataFrame(found, index=table.index)


def words(table: "pandas.DataFrame", kinds: Mapping[str, str]) -> dict[str, list[str]]:
    """What columns of yes and no call the two, where it is not False and True."""
    truths = {name: parsing.truths(table[name]) for name, kind in kinds.items() if kind == parsing.BOOLEAN}
    called = {name: [words.get(False, "False"), words.get(True, "True")] for name, words in truths.items()}
    return {name: both for name, both in called.items() if both != ["False", "True"]}


def in_words(cells: "pandas.DataFrame", roles: Columns) -> "pandas.DataFrame":
    """Yes and no as the columns call them."""
    called = {name: dict(zip((False, True), roles.words[name], strict=True)) for name in cells if name in roles.words}
    return cells.assign(**{name: cells[name].map(lambda v, w=w: w.get(v, v)) for name, w in called.items()})


def names_of_words(roles: Columns) -> list[str]:
    """Outputs whose cells are words, for yes and no or as labels."""
    return [name for name in roles.outputs if name in roles.words or roles.kinds.get(name) == parsing.CATEGORY]


Called = dict[str, dict[bool, str]]
"""What columns call yes and no."""


def fill(
    table: "pandas.DataFrame", filled: "pandas.DataFrame", roles: Columns, called: Called | None = None
) -> "pandas.DataFrame":
    """The table with its gaps in these columns filled and every other cell untouched.  Of a table in pieces `called`
    remembers the words of earlier ones."""
    import pandas as pd

    done, empty = table.copy(), gaps(table, roles)
    called = {} if called is None else called
    truths = {n: _called(table[n], roles, called) for n in filled if roles.kinds.get(n) == parsing.BOOLEAN}
    for name in filled.columns[empty[filled.columns].any().to_numpy()]:
        words = truths.get(name, {})
        cells = [words.get(value, value) if gap else cell
                 for cell, value, gap in zip(table[name], filled[name], empty[name], strict=True)]  # fmt: skip
        done[name] = pd.Series(cells, index=table.index, dtype=float if table[name].dtype.kind == "f" else object)
    return done


def _called(column, roles: Columns, earlier: Called) -> dict[bool, str]:
    """What a column calls yes and no, 1 and 0 perhaps; if it does not show, what the fitted table does."""
    shown = parsing.truths(column)
    if shown:
        earlier[column.name] = {not truth: parsing.opposite(word) for truth, word in shown.items()} | shown
    elif np.isfinite(parsing.read(column, roles.writing(column.name))[0]).any():
        earlier[column.name] = {False: "0", True: "1"}
    fitted = dict(zip((False, True), roles.words.get(column.name, ()), strict=False))
    return earlier.get(column.name, fitted)


def labels(table: "pandas.DataFrame", roles: Columns) -> np.ndarray | None:
    """Group labels as text, or None.  A blank is none: rows of any series may have lost theirs."""
    if roles.groups is None:
        return None
    (name,) = resolve(table, [roles.groups])
    column = table[name]
    blank = column.isna().to_numpy() | (parsing.text(column) == "").to_numpy(bool)
    if blank.any():
        first = int(blank.argmax())
        more = f", one of {blank.sum()} such cells" if blank.sum() > 1 else ""
        raise InputError(
            f"Group column {name!r} must hold a label in every row; got a blank {parsing.place(column, first)}{more}. "
            "Write which series the row belongs to, or drop it."
        )
    return column.astype(str).to_numpy()


# Rows.


def within(table: "pandas.DataFrame", roles: Columns, first: str | None, last: str | None) -> np.ndarray:
    """Rows whose first input lies in [first, last), at least one."""
    rows = are_within(table, roles, first, last)
    if not rows.any():
        raise InputError(f"No row of {roles.inputs[0]!r} lies from {first or 'the start'} to {last or 'the end'}.")
    return rows


def are_within(table: "pandas.DataFrame", roles: Columns, first: str | None, last: str | None) -> np.ndarray:
    """Whether each row's first input lies in [first, last); both are dates where the input is one."""
    if not roles.inputs:
        raise InputError("--from and --to are places along an input column, and this run has none; leave them out.")
    values = _input(table, roles, roles.inputs[0])
    low, high = (_bound(roles, text, end) for text, end in ((first, -np.inf), (last, np.inf)))
    return (values >= low) & (values < high)


def _bound(roles: Columns, text: str | None, otherwise: float) -> float:
    if text is None:
        return otherwise
    return position(roles, text)


def position(roles: Columns, text: str) -> float:
    """A place along the first input, as a user writes it: a date where it holds dates, else a number."""
    if not roles.inputs:
        raise InputError("column:NAME:START needs an input column; use cells or rows.")
    name = roles.inputs[0]
    if name in roles.dates:
        return roles.dates[name].number(text)
    try:
        return float(text)
    except ValueError:
        raise InputError(f"Expected a number as a place along {name!r}; got {text!r}.") from None


def parse_missing(texts: Sequence[str]) -> tuple[tuple[str | None, parsing.Code], ...]:
    """`-200` or `n.d.` for every column, `NAME=-200` for one."""
    found: list[tuple[str | None, parsing.Code]] = []
    for text in texts:
        name, _, value = text.rpartition("=")
        if not value.strip():
            raise InputError(
                f"--missing takes a number or a word, such as -200, n.d. or CO=-200; got {text!r}. Empty cells are "
                "missing anyway."
            )
        found.append((name.strip() or None, parsing.code(value)))
    return tuple(found)


def words_by_name(text: str, option: str) -> Any:
    """`log` for all columns, or `CO=log,NOx=log` by name."""
    if "=" not in text:
        return text.strip()
    pairs = [part.split("=") for part in text.split(",") if part.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(f"{option} takes one word, or NAME=word separated by commas; got {text!r}.")
    return {name.strip(): word.strip() for name, word in pairs}
