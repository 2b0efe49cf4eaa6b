"""Samples from a source, ready for a trainer, with the offset to save beside its state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import time
from types import TracebackType
from typing import Any, Self

import numpy as np
from torch import Tensor

from tamis.data import Events, Samples
from tamis.errors import TamisError, as_clause
from tamis.sources.ahead import ReadAhead
from tamis.sources.annotator_column import annotators_of
from tamis.sources.part import COMPLETE, Part
from tamis.sources.protocol import BadRecordError, Batch, Source, Unreadable
from tamis.sources.rejects import Rejects, abbreviate
from tamis.sources.rows import Row, ToRow, open_numbers, without_unused
from tamis.sources.schema_rows import SchemaRows
from tamis.sources.stacking import result_or_fault, stack, stack_inputs
from tamis.sources.validation import (
    NO_INPUTS,
    NO_LABEL,
    NOT_FINITE_SCALED,
    Kind,
    Scaling,
    check_id,
    check_input,
    check_label,
    finite_rows,
)

Read = tuple[Samples | Events, list[str] | None, dict[str, Any]]
"""What came, the ids of its rows as text if they have any, and the offset after it."""


class TooManyBadError(TamisError):
    """Too large a share of the records was rejected."""


@dataclass(frozen=True)
class SourceStats:
    """Counts of a feed since the first run, and how far the trainer lags behind.

    `queued` and `dropped` are those of a `ReadAhead`. `lost` counts records that a broker removed
    before they were read, where it is known how many. `behind` counts records that wait, in the
    queue and at the source; None where it is not known. `late` is the age in seconds of the newest
    record of the last samples when they were taken.
    """

    seen: int
    good: int
    bad: int
    queued: int
    dropped: int
    lost: int
    behind: int | None
    late: float | None


class Feed:
    """Turns the records of a source into `Samples`; those that cannot be used go to `rejects`.

    With `events`, rows may come without labels, and labels without rows: what a batch holds of
    these comes as `Events`. Without it, both are rejected.

    Samples have as many rows as the source reads at once, less the rejected ones; without ids they
    are numbered as they come. `TooManyBadError` is raised between two samples: state and offset can
    still be saved. `offset` is JSON and belongs to the last samples. Iterating again continues.

    Parameters
    ----------
    source: where records come from.
    to_row: turns a record into a row: `SchemaRows`, `Columns`, `Images` or a function.
    offset: where to continue, from an earlier feed.
    rejects: where rejected records are counted and written.
    most_bad: largest share of rejected records, among the last `judged` and at the stream's end.
    judged: number of records that the share is taken over.
    events: whether rows and labels may come apart.
    part: which part the source is, so that rows are numbered otherwise than those of other parts.

    Rows must be finite after `scale`, too, where one is set. `arrived` has the records of the last
    samples by the ids of their rows, where a schema reads them. Names of new classes and annotators
    are part of the offset.
    """

    def __init__(
        self,
        source: Source,
        to_row: ToRow,
        *,
        offset: Any = None,
        rejects: Rejects | None = None,
        most_bad: float = 0.5,
        judged: int = 1_000,
        events: bool = False,
        part: Part = COMPLETE,
    ) -> None:
        self.source, self.to_row = source, to_row
        self.events, self.part = events, part
        self.rejects = Rejects() if rejects is None else rejects
        self.most_bad = most_bad
        self.scale: Scaling | None = None
        self._peeked: deque[Batch] = deque()
        self._batches: Iterator[Batch] | None = None
        self._recent: deque[bool] = deque(maxlen=judged)
        self._recent_bad, self._unjudged = 0, False
        self._last, self._closed = "", False
        self._late: float | None = None
        self.arrived: dict[int, Mapping[str, Any]] = {}
        self.seek(offset or {})

    def __iter__(self) -> Iterator[Samples | Events]:
        for samples, _ in self.named():
            yield samples

    def named(self) -> Iterator[tuple[Samples | Events, list[str] | None]]:
        """Yield what came and the ids of its rows as text; None where records have none."""
        for samples, names, offset in self._read():
            self._offset = offset
            yield samples, names

    def peek(self, rows: int) -> list[Samples]:
        """Return the first rows that are to come, or fewer where the stream ends.

        They are read, counted and rejected later all the same, as if nobody had looked.
        """
        before, recent = self._reached(), (self._recent.copy(), self._recent_bad)
        found: list[Samples] = []
        taken: deque[Batch] = deque()
        for came, *_ in self._read(taken):
            found.append(came.samples if isinstance(came, Events) else came)
            if sum(map(len, found)) >= rows:
                break
        if found:  # else what is wrong with all records is to be reported
            self._go_to(before)
            (self._recent, self._recent_bad), self._peeked = recent, taken + self._peeked
        return found

    def peek_records(self, rows: int) -> list[Any]:
        """Return the first records that are to come, as the source has them, or fewer at its end.

        Call it before any samples are read; `to_row` may be chosen by what it returns.
        """
        if self._batches is None:
            self._batches = iter(self.source.read(self._position))
        while sum(map(len, self._peeked)) < rows:
            if (batch := next(self._batches, None)) is None:
                break
            self._peeked.append(batch)
        records = (record for batch in self._peeked for record in batch.records)
        return [record for record in records if not isinstance(record, Unreadable)]

    def seek(self, offset: dict[str, Any]) -> None:
        """Continue from an offset that an earlier feed had."""
        if "schema" in offset and isinstance(self.to_row, SchemaRows):
            self.to_row.load_state_dict(offset["schema"])
        self._go_to(offset)
        self._peeked.clear()
        self._batches = None

    def _go_to(self, offset: dict[str, Any]) -> None:
        self._position = offset.get("source")
        self._seen = int(offset.get("seen", 0))
        self._lost = int(offset.get("lost", 0))
        self._kind = Kind.from_json(offset.get("kind"))
        if "classes" in offset:
            open_numbers(self.to_row).set_names(offset["classes"])
        if "annotators" in offset:
            annotators_of(self.to_row).numbers.set_names(offset["annotators"])
        if "rejects" in offset:
            self.rejects.load_state_dict(offset["rejects"])
        self._offset = self._reached()

    @property
    def offset(self) -> dict[str, Any]:
        """What to save together with the trainer's state, and to continue from by `seek`."""
        return self._offset | self._names()  # a decision may have named a class since

    def _read(self, taken: deque[Batch] | None = None) -> Iterator[Read]:
        """Yield usable samples from the position on, each with the offset after it."""
        while (batch := self._next_batch()) is not None:
            if taken is not None:
                taken.append(batch)
            came, names = self._came(batch)
            self._position = batch.offset
            self._lost += batch.lost
            self._late = None if batch.time is None else max(0.0, time() - batch.time)
            if len(came):
                yield came, names, self._reached()
            else:  # batches of bad records alone count as read, too
                self._offset = self._reached()
        if not self._closed:  # a stream that was closed early is not judged
            self._judge()

    def _next_batch(self) -> Batch | None:
        """Return the next batch; after the end of the source the next call reads it again."""
        if self._unjudged and len(self._recent) == self._recent.maxlen:
            self._unjudged = False  # whoever goes on all the same gets the next batch
            self._judge()
        if self._peeked:
            return self._peeked.popleft()
        if self._batches is None:
            self._batches = iter(self.source.read(self._position))
        batch = next(self._batches, None)
        if batch is None:
            self._batches = None
        return batch

    def _reached(self) -> dict[str, Any]:
        reached = {
            "source": self._position,
            "seen": self._seen,
            "lost": self._lost,
            "rejects": self.rejects.state_dict(),
            "kind": self._kind and self._kind.to_json(),
        }
        if isinstance(self.to_row, SchemaRows):
            reached["schema"] = self.to_row.state_dict()
        return reached | self._names()

    def _names(self) -> dict[str, list[str]]:
        """Return the names of classes and annotators, where records may name new ones."""
        numbers = open_numbers(self.to_row)
        found = {"classes": list(numbers)} if numbers.open else {}
        named = annotators_of(self.to_row).name is not None
        return found | ({"annotators": self.annotator_names} if named else {})

    @property
    def annotator_names(self) -> list[str]:
        """Names of annotators in the order of their numbers."""
        return list(annotators_of(self.to_row).numbers)

    def acknowledge(self, offset: dict[str, Any] | None = None) -> None:
        """Acknowledge an offset, by default the present one, once its state is safe."""
        position = (offset or self.offset)["source"]
        if position is not None:
            self.source.acknowledge(position)

    def stats(self) -> SourceStats:
        """Return the present counts."""
        ahead = self.source if isinstance(self.source, ReadAhead) else None
        return SourceStats(
            seen=self._seen,
            good=self._seen - self.rejects.total,
            bad=self.rejects.total,
            queued=ahead.held if ahead else 0,
            dropped=ahead.dropped if ahead else 0,
            lost=self._lost,
            behind=self.source.behind(),
            late=self._late,
        )

    def close(self) -> None:
        """Close the source."""
        self._closed = True
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _came(self, batch: Batch) -> tuple[Samples | Events, list[str] | None]:
        """Return the good records of a batch, with their names; the others are rejected."""
        known = len(numbers := open_numbers(self.to_row))
        checked = [result_or_fault(self._check, item) for item in self._make(batch.records)]
        made = without_unused(self._check_scaled(checked), numbers, known)
        rows: list[Row] = []
        self.arrived = {}
        for record, position, found in zip(batch.records, batch.positions, made, strict=True):
            number, self._seen = self.part.numbered(self._seen), self._seen + 1
            self._note(isinstance(found, BadRecordError))
            if isinstance(found, BadRecordError):
                self._last = str(found)
                raw = record.raw if isinstance(record, Unreadable) else record
                self.rejects.add(position, found.reason, found.detail, abbreviate(raw))
            else:
                rows.append(found._replace(id=number) if found.id is None else found)
                if isinstance(self.to_row, SchemaRows) and found.input is not None:
                    self.arrived[number if found.id is None else found.id] = record
        named = [row for row in rows if row.input is not None]
        names = [row.name or str(row.id) for row in named]
        return stack(rows), names if any(row.name for row in named) else None

    def _make(self, records: list[Any]) -> list[Any]:
        """Return what each record becomes, or the fault that rejects it."""
        if isinstance(self.to_row, SchemaRows):
            rows = iter(self.to_row.many([r for r in records if not isinstance(r, Unreadable)]))
            return [r if isinstance(r, Unreadable) else next(rows) for r in records]
        to_row = self.to_row
        return [r if isinstance(r, Unreadable) else result_or_fault(to_row, r) for r in records]

    def _check_scaled(self, made: list[Row | BadRecordError]) -> list[Row | BadRecordError]:
        """Replace rows that are not finite after scaling by their fault."""
        rows = [row for row in made if isinstance(row, Row) and row.input is not None]
        if self.scale is None or not rows:
            return made
        finite = iter(finite_rows(stack_inputs(rows), self.scale).tolist())
        return [
            BadRecordError(NOT_FINITE_SCALED)
            if isinstance(row, Row) and row.input is not None and not next(finite)
            else row
            for row in made
        ]

    def _check(self, item: Any) -> Row:
        """Return the row that a record became, if it fits the rows before."""
        if isinstance(item, Unreadable):
            raise BadRecordError(item.reason, item.detail)
        if isinstance(item, BadRecordError):
            raise item
        made = Row(*item)
        label = None if made.label is None else check_label(made.label)
        if not self.events and (label is None or made.input is None):
            raise BadRecordError(NO_LABEL if label is None else NO_INPUTS)
        if made.input is None:
            if made.id is None:
                raise BadRecordError("id missing", "of the row that a label is for")
            return made._replace(label=label, id=check_id(made.id))
        given = made.input
        array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
        kind = check_input(array, self._kind)
        row = made._replace(input=array, label=label, id=check_id(made.id))
        self._kind = kind
        return row

    def _note(self, bad: bool) -> None:
        if len(self._recent) == self._recent.maxlen:
            self._recent_bad -= self._recent[0]
        self._recent.append(bad)
        self._unjudged = True
        self._recent_bad += bad

    def _judge(self) -> None:
        if self._recent_bad > self.most_bad * len(self._recent):
            raise TooManyBadError(
                f"{self._recent_bad} of the last {len(self._recent)} records were bad, "
                f"the last of them by this: {as_clause(self._last[:300])}."
            )
