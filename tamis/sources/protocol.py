"""The interface of every source: read from an offset on, acknowledge up to one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from tamis.errors import TamisError

T = TypeVar("T")

Decode = Callable[[bytes], Any]
"""Turns the bytes of a line or a message into a record; an exception rejects them."""


class SourceError(TamisError):
    """A source that can be read no further, in one sentence and without its secrets."""


class ReplacedError(SourceError):
    """A source that no longer holds what was read of it: it was changed, lost or replaced."""


class BadRecordError(TamisError, ValueError):
    """A record that cannot be a sample; `reason` is one of few, to be counted, `detail` is free."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Unreadable:
    """Stands in a batch for bytes that could not be decoded."""

    raw: Any
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Batch:
    """Records in order, the position of each, and the offset after the last.

    `offset` is JSON that only its source understands. `time` is when the newest record was
    created, in seconds since 1970, where the source knows it. `lost` counts the records that were
    removed before they could be read, since the batch before.
    """

    records: list[Any]
    positions: list[Any]
    offset: Any
    time: float | None = None
    lost: int = 0

    def __len__(self) -> int:
        return len(self.records)


class Source(Protocol):
    """Where records come from.

    Save the offset of the last batch trained on together with the state that was trained. After a
    crash, continue with `read(offset)`: every record is then trained on once.
    """

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield what comes after the offset; everything where it is None."""

    def acknowledge(self, offset: Any) -> None:
        """Release everything up to an offset: call it once the state that holds it is safe."""

    def behind(self) -> int | None:
        """Return how many records wait to be read, or None where it is not known."""

    def close(self) -> None:
        """End `read` soon, and close connections; any thread may call it, more than once."""


def from_json(raw: bytes) -> Any:
    """Decode one JSON value."""
    return json.loads(raw)


def decoded(raw: Any, decode: Decode) -> Any:
    """Return the record that bytes decode to, or an `Unreadable` with the reason."""
    if raw is None:
        return Unreadable(raw, "empty")
    try:
        return decode(raw)
    except Exception as error:  # bytes from outside may raise anything
        return Unreadable(raw, "not decoded", f"{type(error).__name__}: {error}"[:300])


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of one size, the last one shorter.

    >>> list(in_parts("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
