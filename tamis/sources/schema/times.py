"""Columns of dates and times."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from tamis.sources.schema.cells import Cells, numbers_of, text_of, texts_of
from tamis.sources.schema.column import Column, Part, share_missing, with_estimates

DAY = 86_400.0
DATED = re.compile(r"\d\D+\w+\D+\d|[12]\d{7}|\dW\d")
"""What every date has: three parts of which two are numbers, or eight digits."""
DATES = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d",
    "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%d-%b-%Y", "%d.%m.%y",
    "%m/%d/%y", "%d/%m/%y", "%d-%b-%y",
)  # fmt: skip
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
FORMATS = (
    "iso",
    *(day + clock for clock, day in product(CLOCKS, DATES)),
    "%a, %d %b %Y %H:%M:%S %z",
    "%a %b %d %H:%M:%S %Y",
)
"""`iso` is what `datetime.fromisoformat` reads; month before day where both are possible."""


@dataclass(frozen=True)
class DateTime(Column):
    """A date, or a time: days before the newest one, month, day, weekday, hour.

    A missing one becomes the median of each part, with a flag.
    """

    kind: ClassVar[str] = "datetime"
    part: ClassVar[Part] = "numbers"
    format: str = "iso"
    newest: float = 0.0
    parts: tuple[str, ...] = ("age", "month", "day", "weekday", "hour")
    medians: tuple[float, ...] = (0.0, 6.0, 15.0, 3.0, 12.0)
    missing: float = 0.0

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with its format, its newest time and the parts that it has."""
        format_ = format_of(cells)
        times = times_of(cells, format_)
        if np.isnan(times).all() and (epoch := epoch_of(cells)):
            format_, times = epoch, times_of(cells, epoch)
        present = times[~np.isnan(times)]
        newest = float(present.max()) if len(present) else 0.0
        clock = bool((present % DAY).any())
        parts = ("age", "month", "day", "weekday", *(("hour",) if clock else ()))
        column = cls(name, format_, newest, parts, (), share_missing(times))
        medians = np.zeros(len(parts))
        if len(present):
            medians = np.median(column.split(present), axis=0)
        return cls(
            name, format_, newest, parts, tuple(medians.astype(np.float32).tolist()), column.missing
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, and of the flag."""
        found = tuple(f"{self.name} {part}" for part in self.parts)
        return (*found, f"{self.name} missing") if self.flagged else found

    def split(self, times: np.ndarray) -> np.ndarray:
        """Return the parts of times that are there, a column each; NaN where there is none."""
        absent = np.isnan(times)
        seconds = np.where(absent, 0.0, times)
        days = np.floor(seconds / DAY)
        dates = days.astype(np.int64).astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        found = {
            "age": (self.newest - seconds) / DAY,
            "month": months.astype(np.int64) % 12 + 1,
            "day": (dates - months.astype("datetime64[D]")).astype(np.int64) + 1,
            "weekday": (days + 3) % 7,  # 1 January 1970 was a Thursday
            "hour": (seconds - days * DAY) / 3600,
        }
        parts = np.stack([np.asarray(found[part], np.float64) for part in self.parts], axis=1)
        parts[absent] = np.nan
        return parts

    def read(self, cells: Cells) -> np.ndarray:
        """Return the parts of each time."""
        return self.split(times_of(cells, self.format))

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return the parts, and the flags."""
        return with_estimates(values, self.medians, self.flagged)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return date and time in ISO form, as exactly as a single holds the age."""
        if self.flagged and cells[len(self.parts)]:
            return None
        seconds = self.newest - float(cells[0]) * DAY
        if "hour" not in self.parts:
            seconds = round(seconds / DAY) * DAY
        try:
            when = datetime.fromtimestamp(round(seconds), UTC)
        except (OverflowError, ValueError, OSError):
            return None
        return when.strftime("%Y-%m-%d %H:%M:%S" if "hour" in self.parts else "%Y-%m-%d")

    def note(self) -> str:
        """Return the newest time and the format."""
        cells = np.zeros(len(self.parts) + 1, np.float32)
        return f"until {self.decode(cells)}, {self.format}"


def times_of(cells: Cells, format_: str) -> np.ndarray:
    """Return seconds since 1970, in UTC; NaN where a cell is missing or in another format."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        found = cells.astype("datetime64[us]")
        seconds = found.astype(np.int64) / 1e6
        return np.where(np.isnat(found), np.nan, seconds)
    if format_ in EPOCHS:
        return numbers_of(cells) / EPOCHS[format_]
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    read = reader_of(format_)
    known: dict[Any, float] = {}
    seconds = np.empty(len(values), np.float64)
    for at, cell in enumerate(values):
        try:
            seconds[at] = known[cell]
        except KeyError:  # of a date that comes often, all but the first
            seconds[at] = known[cell] = seconds_of(cell, read)
        except TypeError:
            seconds[at] = math.nan
    return seconds


EPOCHS = {"unix": 1.0, "unix ms": 1e3}
"""Formats of a number of seconds, or milliseconds, since 1970."""


def reader_of(format_: str) -> Callable[[str], datetime]:
    """Return what reads one format."""
    if format_ == "iso":
        return datetime.fromisoformat
    return lambda text: datetime.strptime(text, format_)


def seconds_of(cell: Any, read: Callable[[str], datetime]) -> float:
    """Return one time as seconds since 1970; without a zone it is in UTC."""
    try:
        if not isinstance(cell, datetime):
            if isinstance(cell, date):
                cell = datetime(cell.year, cell.month, cell.day, tzinfo=UTC)
            else:
                cell = read(text_of(cell))
        return float((cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError):
        return math.nan


def format_of(cells: Cells, most: int = 2_000) -> str:
    """Return the format that reads the most cells; of those that read as many, the first."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return "iso"
    texts = [text for text in texts_of(cells) if text]
    step = -(-len(texts) // most) or 1
    texts = texts[::step]
    best, most_read = "iso", 0.0
    if 2 * sum(bool(DATED.search(text)) for text in texts[:20]) < len(texts[:20]):
        return best  # there are many formats, and few columns are dates
    for format_ in FORMATS:
        share = format_share(texts, format_)
        if share > most_read:
            best, most_read = format_, share
        if most_read == 1:
            break
    return best


def epoch_of(cells: Cells) -> str | None:
    """Return the format of numbers that count seconds or milliseconds since 1970, if they do.

    Only a column that a user declares is one: numbers are numbers else.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return None
    numbers = np.abs(numbers_of(cells))
    if np.isnan(numbers).all():
        return None
    return "unix ms" if np.nanmedian(numbers) > 1e11 else "unix"


def format_share(texts: Sequence[str], format_: str) -> float:
    """Return the share of texts that a format reads; a few first ones are tried before the rest."""
    for part in (texts[:20], texts):
        times = times_of(part, format_)
        share = float((~np.isnan(times)).mean()) if len(part) else 0.0
        if share < 0.5:
            return 0.0
    return share
