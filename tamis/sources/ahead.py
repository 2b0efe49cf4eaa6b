"""A bounded queue between a thread that reads and a trainer that may be slower."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

from tamis.sources.protocol import Batch, Source

Policy = Literal["block", "drop oldest", "every nth"]
STOP_SECONDS = 5.0


class ReadAhead:
    """Reads a source in a thread of its own, at most `most` records ahead of the trainer.

    `policy` is what happens where the trainer is slower. `block`: the reader waits, and nothing is
    lost. `drop oldest`: the oldest records make room. `every nth`: while the queue is more than
    half full only every n-th record is added, and the reader waits where it is full. `dropped`
    counts the records that were dropped. A `ReadAhead` is a source; its offsets are those of what
    was taken from the queue, never of what was read ahead.
    """

    def __init__(
        self, source: Source, most: int = 10_000, policy: Policy = "block", nth: int = 10
    ) -> None:
        if policy not in get_args(Policy):
            raise ValueError(f"policy is one of {', '.join(get_args(Policy))}, got {policy!r}.")
        rows = getattr(source, "rows", 1)
        if rows > most:
            raise ValueError(f"The queue holds {most} records, fewer than a batch of {rows}.")
        self.source = source
        self.most = most
        self.policy = policy
        self.nth = nth
        self.dropped = 0
        self.held = 0
        """Records in the queue now."""
        self._queue: deque[Batch] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._ended = self._stopped = self._awaited = False
        self._arrived = 0
        self._taken: Any = None
        self._part: Batch | None = None

    def __repr__(self) -> str:
        return f"ReadAhead({self.source!r})"

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield batches in order; what the reader raised is raised here, after what it had read."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._fill, args=(offset,), name="tamis reads ahead", daemon=True
            )
            self._taken = offset
            self._thread.start()
        if offset != self._taken:
            raise RuntimeError("A ReadAhead cannot go back: build another for another offset.")
        while (batch := self._take()) is not None:
            yield batch
        if self._error:
            raise self._error

    def acknowledge(self, offset: Any) -> None:
        """Pass it on."""
        self.source.acknowledge(offset)

    def behind(self) -> int | None:
        """Return how many records wait in the queue and, where known, at the source."""
        waiting = self.source.behind()
        return self.held if waiting is None else self.held + waiting

    @property
    def idle(self) -> bool:
        """Whether a batch is waited for, and the source had nothing when it last looked."""
        return self._awaited and not self._queue and bool(getattr(self.source, "idle", True))

    def close(self) -> None:
        """Stop the thread and the source; what is in the queue was not taken, so it is not lost."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self.source.close()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                warnings.warn(
                    f"{self.source!r} did not end within {STOP_SECONDS:.0f} s; it is abandoned.",
                    ResourceWarning,
                    stacklevel=2,
                )

    def _fill(self, offset: Any) -> None:
        try:
            for batch in self.source.read(offset):
                if not all(self._put(part) for part in self._thin(batch)):
                    break
            if self._part is not None:
                self._put(self._part)
        except BaseException as error:  # the trainer's thread raises it
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _thin(self, batch: Batch) -> Iterator[Batch]:
        """Yield the batch; or under pressure its n-th records, once they are as many as a batch."""
        first, self._arrived = self._arrived, self._arrived + len(batch)
        pressed = self.policy == "every nth" and self.held > self.most // 2
        kept = [row for row in range(len(batch)) if not pressed or (first + row) % self.nth == 0]
        self.dropped += len(batch) - len(kept)
        if pressed:
            part = self._part
            if part is None:
                part = replace(batch, records=[], positions=[], lost=0)
            batch = replace(
                batch,
                records=part.records + [batch.records[row] for row in kept],
                positions=part.positions + [batch.positions[row] for row in kept],
                lost=part.lost + batch.lost,
            )
            self._part = batch
            if len(batch) < getattr(self.source, "rows", 1):
                return
        elif self._part:
            yield self._part
        elif self._part is not None:  # nothing of it was kept
            batch = replace(batch, lost=self._part.lost + batch.lost)
        self._part = None
        yield batch

    def _put(self, batch: Batch) -> bool:
        """Queue a batch, having made or waited for room; False where all has stopped."""
        lost = 0  # counted in batches that are dropped
        with self._changed:
            while self._queue and self.held + len(batch) > self.most and not self._stopped:
                if self.policy == "drop oldest":
                    oldest = self._queue.popleft()
                    self.held -= len(oldest)
                    self.dropped += len(oldest)
                    lost += oldest.lost
                else:
                    self._changed.wait()
            if self._stopped:
                return False
            self._queue.append(batch)
            self._queue[0] = replace(self._queue[0], lost=lost + self._queue[0].lost)
            self.held += len(batch)
            self._changed.notify_all()
        return True

    def _take(self) -> Batch | None:
        """Wait for a batch; None where all has ended."""
        with self._changed:
            self._awaited = True
            self._changed.wait_for(lambda: self._queue or self._ended or self._stopped)
            self._awaited = False
            if self._stopped or not self._queue:
                return None
            batch = self._queue.popleft()
            self.held -= len(batch)
            self._taken = batch.offset
            self._changed.notify_all()
        return batch
