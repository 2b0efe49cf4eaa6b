"""A durable journal of records: what `append` returned for is on disk, and is read once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock
from typing import Any

from tamis.checkpoint.files import make_folder
from tamis.sources.journal_lines import (
    Ending,
    Segment,
    create_segment,
    cut_torn_end,
    encode_record,
    lines_of,
    read_line,
    segments_in,
    write_line,
)
from tamis.sources.protocol import Batch, ReplacedError, SourceError, Unreadable

DAMAGED = "damaged in the journal"


class NotWrittenRecordsError(SourceError):
    """Records that the disk did not take; none of them was accepted."""


class BacklogError(SourceError):
    """Records that were not accepted since too many wait to be read; later there may be room."""


class Pending:
    """Records of one call that wait to be written with those of others."""

    def __init__(self, texts: list[bytes]) -> None:
        self.texts = texts
        self.first: int | None = None
        self.error: OSError | None = None

    @property
    def done(self) -> bool:
        """Whether they are written, or refused."""
        return self.first is not None or self.error is not None


class Journal:
    """Records in files of JSON lines, each with a checksum; a source that follows what is appended.

    `append` returns once the disk has the records. Calls of several threads that come meanwhile are
    written by one write and one sync. `read` yields what was appended as soon as that is safe, in
    this process. Files are for their owner only. The last line of a process that was killed is cut
    off where it is torn, since it was not accepted; `cut` counts its bytes. A line that is damaged
    is yielded as `Unreadable`. One process at a time writes.

    A segment is removed once two calls of `acknowledge` are past it: a run keeps two checkpoints.

    Parameters
    ----------
    folder: where the segments are.
    rows: records of a batch, at the most.
    follow: wait for more, rather than end.
    linger: seconds that a record waits for a full batch, while following.
    most_unread: records that may wait to be read before `append` refuses.
    most_bytes: bytes of segments before `append` refuses.
    segment_bytes: bytes of a segment after which the next begins.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        rows: int = 100,
        follow: bool = False,
        linger: float = 0.0,
        most_unread: int = 100_000,
        most_bytes: int = 2**30,
        segment_bytes: int = 2**23,
    ) -> None:
        self.folder = Path(folder)
        self.rows = rows
        self.follow, self.linger = follow, linger
        self.most_unread, self.most_bytes = most_unread, most_bytes
        self.segment_bytes = segment_bytes
        self._writing, self._changed = Lock(), Condition()
        self._pending: list[Pending] = []
        self._closed = False
        make_folder(self.folder)
        self.folder.chmod(0o700)
        self._segments = segments_in(self.folder)
        ending = cut_torn_end(self._segments[-1]) if self._segments else Ending(0, 0, 0)
        self.cut = ending.cut
        self._end, self._size = ending.number, ending.size
        self._older = sum(segment.path.stat().st_size for segment in self._segments[:-1])
        self._handle: int | None = None
        self._left = False
        self._read_to = self.first
        self._acknowledged: int | None = None

    def __repr__(self) -> str:
        return f"Journal({str(self.folder)!r})"

    @property
    def first(self) -> int:
        """Number of the oldest record that is kept."""
        return self._segments[0].first if self._segments else 0

    @property
    def end(self) -> int:
        """Number of the next record."""
        return self._end

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._older + self._size

    def append(self, records: Sequence[Any]) -> list[int]:
        """Write records, and return their numbers once the disk has them: all of them or none.

        Raises `BacklogError` where too many wait to be read, and `NotWrittenRecordsError` where
        the disk does not take them. Records are JSON, or ValueError is raised.
        """
        return self.append_encoded([encode_record(record) for record in records])

    def append_encoded(self, texts: list[bytes]) -> list[int]:
        """Write records that `encode_record` has returned as text; see `append`."""
        mine = Pending(texts)
        with self._changed:
            self._check_room(len(mine.texts))
            self._pending.append(mine)
        with self._writing:  # whoever comes first writes what all others wait for
            if not mine.done:
                with self._changed:
                    waiting, self._pending = self._pending, []
                self._commit(waiting)
        if mine.first is None:
            why = (mine.error and mine.error.strerror) or "the disk failed"
            raise NotWrittenRecordsError(
                f"Nothing was accepted: {self.folder} cannot be written to ({why})."
            ) from mine.error
        return list(range(mine.first, mine.first + len(texts)))

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield records after an offset, as soon as they are safe; end when closed."""
        at = self.first if offset is None else int(offset["journal"])
        if not self.first <= at <= self._end:
            raise ReplacedError(
                f"{self.folder} has the records from {self.first} to {self._end}, and"
                f" {at} were read: what is missing was removed."
            )
        self._read_to = at
        items: Iterator[tuple[int, Any]] | None = None
        while self._wait_beyond(at):
            items = items or self._items(at)
            batch = self._take(items, at, self._end)
            self._read_to = at = batch.offset["journal"]
            yield batch

    def acknowledge(self, offset: Any) -> None:
        """Remove the segments that this and the acknowledgement before are past."""
        before, self._acknowledged = self._acknowledged, int(offset["journal"])
        if before is None:
            return
        with self._writing:
            while len(self._segments) > 1 and self._segments[1].first <= before:
                oldest = self._segments.pop(0)
                self._older -= oldest.path.stat().st_size
                oldest.path.unlink()

    def behind(self) -> int:
        """Return how many records wait to be read."""
        return self._end - self._read_to

    def close(self) -> None:
        """End `read` soon; records can still be appended, for who reads later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with self._writing:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None

    def _check_room(self, records: int) -> None:
        waiting = self.behind() + records + sum(len(each.texts) for each in self._pending)
        if waiting > self.most_unread or self.size > self.most_bytes:
            raise BacklogError(
                f"Nothing was accepted: {self.behind()} records wait to be trained on, in"
                f" {self.size >> 20} MiB; try again later."
            )

    def _commit(self, waiting: list[Pending]) -> None:
        """Write and sync what waits, as one; whatever fails leaves the file as it was."""
        number, lines = self._end, []
        for each in waiting:
            lines += [write_line(number + at, text) for at, text in enumerate(each.texts)]
            number += len(each.texts)
        content = b"".join(lines)
        try:
            handle = self._open()
            os.lseek(handle, self._size, os.SEEK_SET)
            if os.write(handle, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        except OSError as error:
            self._leave()
            for each in waiting:
                each.error = error
            return
        first = self._end
        for each in waiting:
            each.first = first
            first += len(each.texts)
        with self._changed:
            self._size += len(content)
            self._end = number
            self._changed.notify_all()

    def _open(self) -> int:
        """Return the open file of the last segment; begin another where it is full or failed."""
        if self._handle is not None and self._size >= self.segment_bytes:
            self._leave()
        if self._handle is None:
            if self._left or not self._segments or self._size >= self.segment_bytes:
                self._begin_segment()
            self._handle = os.open(self._segments[-1].path, os.O_WRONLY)
        return self._handle

    def _begin_segment(self) -> None:
        segment = create_segment(self.folder, self._end)
        with self._changed:
            if self._segments and self._segments[-1] == segment:  # nothing good was in it
                self._segments.pop()
            self._older, self._size = self._older + self._size, 0
            self._segments.append(segment)
        self._left = False

    def _leave(self) -> None:
        """Cut off what was written of records that are not accepted, and leave the file.

        After a sync that failed nobody knows what the disk has of a file. Where it cannot be cut
        either, its lines have the numbers of the next segment, and are not read.
        """
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, self._size)
            os.close(self._handle)
            self._handle = None
        self._left = bool(self._segments)

    def _wait_beyond(self, at: int) -> bool:
        """Return whether there are records from a number on; wait for some while following."""
        with self._changed:
            if self.follow:
                self._changed.wait_for(lambda: self._closed or self._end > at)
            if self.follow and self.linger:
                full = at + self.rows
                self._changed.wait_for(lambda: self._closed or self._end >= full, self.linger)
            return not self._closed and self._end > at

    def _take(self, items: Iterator[tuple[int, Any]], at: int, end: int) -> Batch:
        """Return the next records as a batch."""
        records: list[Any] = []
        positions: list[int] = []
        while at < end and len(records) < self.rows:
            positions.append(at)
            at, record = next(items)
            records.append(record)
        return Batch(records, positions, {"journal": at})

    def _items(self, at: int) -> Iterator[tuple[int, Any]]:
        """Yield records from a number on, each with the number after it.

        A gap in the numbers is damage. Only to be continued while there are more records.
        """
        segment = [segment for segment in self._segments if segment.first <= at][-1]
        number, place = segment.first, 0
        while True:
            following, size, end = self._extent(segment)
            for after, line in lines_of(segment.path, place, size):
                place, found = after, read_line(line)
                if found is None or not number <= found.number < end:
                    continue
                if max(number, at) < found.number:
                    yield found.number, gap(number, found.number)
                number = found.number + 1
                if number > at:
                    yield number, found.record
            if max(number, at) < end:
                yield end, gap(number, end)
            number = end
            if following:
                segment, place = following, 0

    def _extent(self, segment: Segment) -> tuple[Segment | None, int | None, int]:
        """Return the segment after one, the bytes of it that are safe, and the number after it."""
        with self._changed:
            for following in self._segments:
                if following.first > segment.first:
                    return following, None, following.first
            return None, self._size, self._end


def gap(first: int, end: int) -> Unreadable:
    """Return what stands for records that are lost or damaged."""
    return Unreadable(None, DAMAGED, f"records {first} to {end - 1}")
