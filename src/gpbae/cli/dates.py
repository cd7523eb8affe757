"""Dates among the inputs: numbers of days, hours or seconds for the model, dates again for the reader.

Times with an offset are compared in UTC, so that an hour is an hour when clocks are changed; times without one are
taken as they are written.
"""

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbae.cli import parsing
from gpbae.errors import InputError

if TYPE_CHECKING:
    import pandas

ISO = "ISO8601"
UNITS = {"D": "days", "h": "hours", "s": "seconds"}
_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d %b %Y", "%b %d %Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H.%M", " %H.%M.%S", " %I:%M %p")
FORMATS = (ISO, *(day + time for day, time in itertools.product(_DAYS, _TIMES)))
CLOCK = r"(?:T\d{2,6}|:\d{2})(?:[.,]\d+)?"
OFFSET = CLOCK + r" ?(?:[zZ]|[+-]\d{2}(?::?\d{2})?)$"
DAY = "%Y%m%d"
FEW, HALF = 20, 0.5
"""Cells by which the format of a column is guessed, and the share of them that it must read."""


class Dates(NamedTuple):
    """How a column of dates becomes numbers: (t − origin) / unit."""

    origin: str
    unit: str
    format: str = ISO
    aware: bool = False

    @property
    def words(self) -> str:
        return f"{self.unit_name} since {self.text(0.0)}"

    @property
    def unit_name(self) -> str:
        return UNITS[self.unit]

    @property
    def zone(self) -> str:
        return " UTC" if self.aware else ""

    def text(self, number: float) -> str:
        """A date for people: no more of the clock than is needed."""
        (time,) = self.dates([number])
        clock = "" if time == time.normalize() else " %H:%M:%S" if time.second else " %H:%M"
        return time.strftime(f"%Y-%m-%d{clock}") + (self.zone if clock else "")

    def numbers(self, column: Any, name: str) -> np.ndarray:
        """Times since the origin."""
        import pandas as pd

        values = pd.Series(column)
        times = _parse(values, self.format, name)
        if len(values) and _is_aware(values, name, self.format) != self.aware:
            raise InputError(
                f"Column {name!r} must give its times {self._offset} as the fitted table did; got {values.iloc[0]!s} "
                f"{parsing.place(values, 0)}. Write them alike."
            )
        return self._since_origin(times)

    def number(self, text: str) -> float:
        """The number of one date, as a user writes it: as the table does, or ISO.  A day alone begins at midnight, UTC
        where times have an offset."""
        import pandas as pd

        one = pd.Series([text.strip()])
        for date_format in _formats_of_one(text, self.format):
            times = pd.to_datetime(one, format=date_format, utc=True, errors="coerce")
            if times.isna().any():
                continue
            is_day = (times == times.dt.normalize()).all() and not one.str.contains(CLOCK, regex=True).any()
            if _is_aware(one, "date", date_format) != self.aware and not is_day:
                raise InputError(f"Expected a time {self._offset} as in the fitted table; got {text!r}. Write it so.")
            return float(self._since_origin(times)[0])
        pattern = "" if self.format == ISO else f" or {self.format}"
        raise InputError(f"Expected a date, as 2004-03-28{pattern}; got {text!r}. Write it so.")

    @property
    def _offset(self) -> str:
        return "with an offset, such as +01:00 or Z," if self.aware else "without an offset,"

    def _since_origin(self, times: "pandas.Series") -> np.ndarray:
        import pandas as pd

        known = times if self.aware else times.dt.tz_localize(None)
        return ((known - self._origin()) / pd.Timedelta(1, self.unit)).to_numpy(float)

    def dates(self, numbers: Any) -> "pandas.DatetimeIndex":
        """The dates of numbers, to the second."""
        import pandas as pd

        seconds = np.round(np.asarray(numbers, float) * pd.Timedelta(1, self.unit).total_seconds())
        return pd.DatetimeIndex(self._origin() + pd.to_timedelta(seconds, unit="s"))

    def _origin(self):
        import pandas as pd

        return pd.Timestamp(self.origin)


def fit(column: Any, name: str, date_format: str | None = None) -> Dates | None:
    """How to read a column of dates; None if it holds none.  The unit follows from the range: 14 days, one hour."""
    import pandas as pd

    values = pd.Series(column)
    found = date_format or (ISO if values.dtype.kind == "M" else _format_of(values, name))
    if found is None:
        return None
    times = _parse(values, found, name)
    aware = _is_aware(values, name, found)
    times = times if aware else times.dt.tz_localize(None)
    span = (times.max() - times.min()) / pd.Timedelta(1, "h")
    unit = "D" if span > 14 * 24 else "h" if span >= 1 else "s"
    return Dates(times.min().isoformat(), unit, found, aware)


def are_in_format(column: Any, date_format: str | None) -> bool:
    """Whether most cells are dates in a given format, which may look like numbers."""
    import pandas as pd

    if date_format is None:
        return False
    return bool(pd.to_datetime(written(column), format=date_format, utc=True, errors="coerce").notna().mean() > 0.5)


def are_days(column: Any) -> bool:
    """Whether numbers look like 20200130, every one of them."""
    import pandas as pd

    words = written(column)
    if not words.str.fullmatch(r"(?:18|19|20)\d{6}").all():
        return False
    return bool(pd.to_datetime(words, format=DAY, errors="coerce").notna().all())


def written(column: Any) -> "pandas.Series":
    """Cells as they are written; whole numbers have no decimal point."""
    import pandas as pd

    values = pd.Series(column)
    if values.dtype.kind == "f" and (values == values.round()).all():
        values = values.astype("int64")
    return values.astype(str).str.strip()


def _is_aware(values, name: str, date_format: str) -> bool:
    if values.dtype.kind == "M" or getattr(values.dtype, "tz", None) is not None:
        return getattr(values.dtype, "tz", None) is not None
    if date_format != ISO:
        return "%z" in date_format.lower()
    text = values.astype(str).str.strip()
    aware = text.str.contains(OFFSET, regex=True)
    if aware.any() and not aware.all():
        raise InputError(
            f"Column {name!r} must give all of its times with an offset or none; got "
            f"{text.iloc[int(aware.argmin())]!r} {parsing.place(text, int(aware.argmin()))} and others have one. "
            "Write them alike."
        )
    return bool(aware.any())


def _parse(values: "pandas.Series", date_format: str, name: str) -> "pandas.Series":
    """Times in UTC; those without an offset as if they were."""
    import pandas as pd

    if values.dtype.kind == "M":
        times = pd.to_datetime(values, utc=True)
    else:
        times = pd.to_datetime(written(values), format=date_format, utc=True, errors="coerce")
    if times.isna().any():
        bad = int(times.isna().to_numpy().argmax())
        where = parsing.place(values, bad)
        raise InputError(
            f"Column {name!r} must hold a date in every row; got {values.iloc[bad]!r} {where}. Write it like the "
            "others, or drop the row; a pattern of your own can be named with --date-format when fitting."
        )
    return times


def _formats_of_one(text: str, fitted: str) -> tuple[str, ...]:
    """Patterns to try for one date: those of the fitted table, to the day or with a clock, and ISO.  Where that is the
    table's own, any that is clear."""
    import pandas as pd

    if fitted == ISO:
        return (_format_of(pd.Series([text]), "date") or ISO,)
    days = [day for day in _DAYS if fitted.startswith(day)]
    return (fitted, *(day + time for day, time in itertools.product(days, _TIMES)), ISO)


def _format_of(values, name: str) -> str | None:
    """The pattern that reads every cell; day before month and month before day must not both do.  Where none reads all,
    that which reads most of the first, so that the cell that breaks it is named when it is read."""
    import pandas as pd

    text = values.astype(str).str.strip()
    shares = {f: _share_read(text.iloc[:FEW], f) for f in FORMATS}
    likely = [f for f, share in shares.items() if share >= HALF]
    found = [f for f in likely if not pd.to_datetime(text, format=f, utc=True, errors="coerce").isna().any()]
    if not found:
        return max(likely, key=shares.__getitem__) if likely else None
    if len(found) > 1 and found[0] != ISO:
        first, second = (pd.to_datetime(text, format=f, utc=True) for f in found[:2])
        if not first.equals(second):
            raise InputError(
                f"The dates of column {name!r} can be read as {found[0]} and as {found[1]}, for example "
                f"{text.iloc[0]!r}. Say which with --date-format {found[0]!r}."
            )
    return found[0]


def _share_read(text: "pandas.Series", date_format: str) -> float:
    """How many of the cells that are not blank are dates in a format."""
    import pandas as pd

    words = text[text != ""]
    return (
        float(pd.to_datetime(words, format=date_format, utc=True, errors="coerce").notna().mean())
        if len(words)
        else 0.0
    )
