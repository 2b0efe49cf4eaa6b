"""Streams with a position that a checkpoint can hold, so that a run continues where it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from tamis.data import Events, Samples
from tamis.sources.validation import pair_of, samples_of, text_fault

Named = tuple[Any, Sequence[str] | None]
"""Samples, or a pair of inputs and labels, and the ids of their rows as text if they have any."""


@runtime_checkable
class Positioned(Protocol):
    """A stream that knows where it is, as `Feed` and `Table.play` do."""

    @property
    def offset(self) -> Any:
        """Position of the stream as JSON, after the last samples that it yielded."""

    def seek(self, offset: Any) -> None:
        """Continue from an offset."""

    def named(self) -> Iterator[Named]:
        """Yield samples, and the ids of their rows as text; None where their numbers are ids."""

    def acknowledge(self) -> None:
        """Release everything up to the offset: the state that holds it is safe."""

    def close(self) -> None:
        """End a wait for records; any thread may call it."""


@runtime_checkable
class Rereadable(Protocol):
    """A stream of so many rows, any of which can be read again, as `Table.play` is."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def records(self, rows: Collection[int]) -> dict[int, dict[str, str]]:
        """Return rows by number as they were written, cells by column."""


@runtime_checkable
class Recorded(Protocol):
    """A stream that has the records of the rows that it yielded last, as `Feed` does."""

    @property
    def arrived(self) -> Mapping[int, Mapping[str, Any]]:
        """Records by the ids of their rows."""


@runtime_checkable
class InputsElsewhere(Protocol):
    """A stream whose rows are in other processes: only some of their inputs are here."""

    def here(self, samples: Samples) -> Tensor:
        """Return which of the rows that arrived have their inputs."""


class Counted:
    """Any iterable as a positioned stream: its offset is the number of items read.

    A resumed run reads it from the start again and skips so many items.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items
        self.offset = 0
        self._closed = False

    def seek(self, offset: Any) -> None:
        """Skip the items that were read before."""
        self.offset = int(offset)

    def named(self) -> Iterator[Named]:
        """Yield the items; one may also be a pair of samples and the ids of their rows."""
        for item in islice(self.items, self.offset, None):
            self.offset += 1
            pair = isinstance(item, tuple) and len(item) == 2
            named = pair and isinstance(item[0], Samples | Events)
            yield item if named else (item, None)
            if self._closed:
                return

    def acknowledge(self) -> None:
        """Do nothing: an iterable keeps no record of who has read it."""

    def close(self) -> None:
        """Stop before the next item."""
        self._closed = True


def as_positioned(source: Any) -> Positioned:
    """Return a stream with a position; an iterable gets one by counting its items."""
    return source if isinstance(source, Positioned) else Counted(source)


def as_arrived(item: Any, first_id: int) -> Samples | Events | None:
    """Return what a stream yielded as samples; None where it cannot be, and is to be rejected.

    Events are as they were.
    """
    if item is None or isinstance(item, Samples | Events):
        return item
    inputs, labels = pair_of(item)
    return None if text_fault(inputs, labels) else samples_of(inputs, labels, first_id)


def with_inputs(
    stream: object, samples: Samples | None, names: Sequence[str] | None
) -> tuple[Samples | None, Sequence[str] | None]:
    """Return the rows that arrived whose inputs are here, and their ids as text."""
    if samples is None or not isinstance(stream, InputsElsewhere):
        return samples, names
    kept = stream.here(samples)
    left = None if names is None else [names[row] for row in kept.nonzero()[:, 0].tolist()]
    return samples[kept], left
