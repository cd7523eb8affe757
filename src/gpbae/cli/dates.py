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
OFFSET = r"(?:[zZ]|[+-]\d{2}:?\d{2})$"


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

        times = _parse(column, self.format, self.aware, name)
        return ((times - self._origin()) / pd.Timedelta(1, self.unit)).to_numpy(float)

    def number(self, text: str) -> float:
        """The number of one date, as a user writes it."""
        return float(Dates(self.origin, self.unit, _format_of_one(text), self.aware).numbers([text], "date")[0])

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
    aware = _is_aware(values, name)
    found = date_format or (ISO if values.dtype.kind == "M" else _format_of(values, name))
    if found is None:
        return None
    times = _parse(values, found, aware, name)
    span = (times.max() - times.min()) / pd.Timedelta(1, "h")
    unit = "D" if span > 14 * 24 else "h" if span >= 1 else "s"
    return Dates(times.min().isoformat(), unit, found, aware)


def _is_aware(values, name: str) -> bool:
    if getattr(values.dtype, "tz", None) is not None:
        return True
    if values.dtype.kind == "M":
        return False
    text = values.astype(str).str.strip()
    with_time = text.str.contains(":", regex=False)
    aware = text.str.contains(OFFSET, regex=True) & with_time
    if aware.any() and not aware.all():
        raise InputError(
            f"Column {name!r} must give all of its times with an offset or none; got "
            f"{text.iloc[int(aware.argmin())]!r} {parsing.place(text, int(aware.argmin()))} and others have one. "
            "Write them alike."
        )
    return bool(aware.any())


def _parse(column: Any, date_format: str, aware: bool, name: str) -> "pandas.Series":
    import pandas as pd

    values = pd.Series(column)
    text = values if values.dtype.kind == "M" else values.astype(str).str.strip()
    times = pd.to_datetime(text, format=None if text.dtype.kind == "M" else date_format, utc=aware, errors="coerce")
    if times.isna().any():
        bad = int(times.isna().to_numpy().argmax())
        where = parsing.place(values, bad)
        raise InputError(
            f"Column {name!r} must hold a date in every row; got {values.iloc[bad]!r} {where}. Write it like the "
            "others, or drop the row; a pattern of your own can be named with --date-format when fitting."
        )
    return times


def _format_of_one(text: str) -> str:
    import pandas as pd

    return _format_of(pd.Series([text]), "date") or ISO


def _format_of(values, name: str) -> str | None:
    """The pattern that reads every cell; day before month and month before day must not both do."""
    import pandas as pd

    text = values.astype(str).str.strip()
    likely = [f for f in FORMATS if not pd.to_datetime(text.iloc[:1], format=f, utc=True, errors="coerce").isna().any()]
    found = [f for f in likely if not pd.to_datetime(text, format=f, utc=True, errors="coerce").isna().any()]
    if not found:
        return likely[0] if likely else None  # the cell that breaks the pattern is named when it is read
    if len(found) > 1 and found[0] != ISO:
        first, second = (pd.to_datetime(text, format=f, utc=True) for f in found[:2])
        if not first.equals(second):
            raise InputError(
                f"The dates of column {name!r} can be read as {found[0]} and as {found[1]}, for example "
                f"{text.iloc[0]!r}. Say which with --date-format {found[0]!r}."
            )
    return found[0]
