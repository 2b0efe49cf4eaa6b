"""Times and numbers as people write them."""

from __future__ import annotations

from datetime import UTC, datetime


def as_time(text: str) -> str:
    """Return a time of ISO 8601 as a person writes it, in UTC; any other text as it is.

    >>> as_time("2026-03-04T17:05:09+01:00"), as_time("once")
    ('4 March 2026, 16:05 UTC', 'once')
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


def as_duration(seconds: float) -> str:
    """Return a duration in the units that a person would use.

    >>> [as_duration(seconds) for seconds in (0.00042, 0.0189, 12.3, 200.4, 7510)]
    ['0.42 ms', '18.9 ms', '12 s', '3 min 20 s', '2 h 5 min']
    """
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def as_percent(value: float) -> str:
    """Return a share in percent, with a digit behind the point where it is small.

    >>> [as_percent(share) for share in (0.4, 0.123, 0.0312, 0.0)]
    ['40%', '12%', '3.1%', '0%']
    """
    percent = 100 * value
    return f"{percent:.1f}%" if 0 < percent < 9.95 else f"{percent:.0f}%"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if need be.

    >>> count_of(1, "label"), count_of(1200, "label")
    ('1 label', '1,200 labels')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
