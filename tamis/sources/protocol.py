"""What every source is: something to read from an offset on, and to acknowledge up to one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from tamis.errors import TamisError

T = TypeVar("T")

Decode = Callable[[bytes], Any]
"""Turns the bytes of a line or a message into a record; what it raises makes the record bad."""


class SourceError(TamisError):
    """A source that cannot be read on, in one sentence and without its secrets."""


class BadRecordError(TamisError, ValueError):
    """A record that is no sample; `reason` is one of few, to be counted, `detail` is anything."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Unreadable:
    """Stands in a batch for what could not even be made a record."""

    raw: Any
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Batch:
    """Records in order, the position of each, and the offset after the last.

    `offset` is JSON and means something to its source alone. `time` is when the newest record was
    made, in seconds since 1970, where the source knows it.
    """

    records: list[Any]
    positions: list[Any]
    offset: Any
    time: float | None = None

    def __len__(self) -> int:
        return len(self.records)


class Source(Protocol):
    """Where records come from.

    Save the offset of the last batch trained on together with the state that was trained; a run
    that dies goes on with `read(offset)`, and so sees every record once.
    """

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield what comes after the offset; all there is where it is None."""

    def acknowledge(self, offset: Any) -> None:
        """Let go of everything up to an offset: call it once the state that holds it is safe."""

    def behind(self) -> int | None:
        """Count the records that wait to be read, where that can be known."""

    def close(self) -> None:
        """Make `read` end soon, and let go of connections; any thread may call it, and again."""


def from_json(raw: bytes) -> Any:
    """Decode one JSON value."""
    return json.loads(raw)


def decoded(raw: Any, decode: Decode) -> Any:
    """Make a record of bytes, or something that says why there is none."""
    if raw is None:
        return Unreadable(raw, "empty")
    try:
        return decode(raw)
    except Exception as error:  # the bytes are a stranger's: whatever they provoke is their fault
        return Unreadable(raw, "not decoded", f"{type(error).__name__}: {error}"[:300])


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut items into lists of one size, the last one shorter.

    >>> list(in_parts("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
