"""What a service takes from a request: names, times, the columns of a record."""

from __future__ import annotations

from time import time
from typing import Any, NamedTuple

from tamis.errors import TamisError
from tamis.sources import Schema
from tamis.sources.rows import id_of

LONGEST_ID = 500
"""Characters of an id or of an annotator's name, at the most."""
AHEAD = 60.0
"""Seconds that the time of an event may be ahead of the clock."""


class RequestError(TamisError, ValueError):
    """A request that is not accepted, in one sentence. `details` are more of it, as JSON."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class StoppingError(TamisError):
    """A request that came when the service was about to end."""


class FaultError(TamisError):
    """A mistake in the service itself; its log has more."""


class Roles(NamedTuple):
    """Names of the columns of a record that are not inputs."""

    id: str
    label: str
    time: str
    annotator: str

    @classmethod
    def of(cls, schema: Schema) -> Roles:
        """Return the names of a schema, and others that no column has.

        The id of a picture may be its path: where pictures come with their rows, it is not.
        """
        taken = {column.name for column in schema.columns}

        def free(name: str) -> str:
            while name in taken:
                name = f"_{name}"
            taken.add(name)
            return name

        label = schema.label or free("label")
        taken.add(label)
        row_id = schema.id if schema.id and schema.id not in taken else free("id")
        taken.add(row_id)
        return cls(row_id, label, free("time"), free("annotator"))


def check_name(name: Any, what: str) -> str:
    """Return an id or a name as text; raise where it is neither text nor an integer."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise RequestError(f"An {what} is text.")
    if not 0 < len(text := str(name)) <= LONGEST_ID or not text.isprintable():
        raise RequestError(f"An {what} has 1 to {LONGEST_ID} characters that can be printed.")
    return text


def check_time(given: float | None) -> float:
    """Return the time of an event, by default now; raise where it is in the future."""
    now = time()
    if given is None:
        return now
    if not 0 <= given <= now + AHEAD:
        raise RequestError("A time is in seconds since 1970, and not in the future.")
    return float(given)


def hashed(name: str) -> int | None:
    """Return the number that text has as the id of a record."""
    return id_of({"id": name}, "id")[0]
