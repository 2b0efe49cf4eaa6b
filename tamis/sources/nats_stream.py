"""NATS JetStream, by a durable pull consumer; the event loop that its client needs is kept here."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

from tamis.sources.messages import (
    LOG,
    Broker,
    BrokerUnavailableError,
    Message,
    Pace,
    Start,
    import_client,
    warn_of_lost,
)
from tamis.sources.part import COMPLETE, Part
from tamis.sources.protocol import Decode, SourceError, decoded, from_json
from tamis.sources.redaction import redact, scrub

T = TypeVar("T")
SECONDS = 2.0
"""That a request to the server may take: closing waits for it."""
UNACKNOWLEDGED = 3600.0
"""Seconds until the server sends a message again: longer than checkpoints are apart."""


class NatsStream(Broker):
    """Reads messages of a stream; the offset is the sequence number of the last one.

    The durable consumer belongs to one reader. It is created again at the offset whenever that
    reader joins, so that the next message is the first that the saved state has not seen, whatever
    was sent or acknowledged before. A reader whose consumer another one has created again stops.
    Lost messages are detected and counted by their sequence numbers, unless `subject` leaves gaps.

    A stream that keeps messages until they are acknowledged (a work queue) is read in the same way,
    but what was acknowledged does not come back. One that keeps them by interest is refused:
    creating its consumer again would drop what it holds.

    Parameters
    ----------
    url: address of the server.
    stream: name of the stream.
    durable: name of the consumer.
    subject: only messages of this subject; None is all.
    decode: turns the bytes of a message into a record.
    start: where a reader without an offset begins.
    pace: how messages become batches.
    skip_lost: where it was replaced by one that ends earlier, warn and read it from its beginning,
        instead of raising.
    part: of several readers, each has a durable consumer of its own, which gets all messages, and
        keeps some, by their numbers. A work queue cannot be read in parts.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        durable: str,
        *,
        subject: str | None = None,
        decode: Decode = from_json,
        start: Start = "first",
        pace: Pace | None = None,
        skip_lost: bool = False,
        part: Part = COMPLETE,
    ) -> None:
        super().__init__(decode, start, pace, skip_lost)
        self.part = part
        self._nats = import_client("nats", "NATS")
        self.url = url
        self.stream = stream
        self.durable = durable
        self.subject = subject
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Any = None
        self._pulls: Any = None
        self._owner = uuid4().hex
        """Describes the durable consumer, so that another reader's is recognised."""
        self._joined = False
        self._position = 0
        self._delivered = 0
        self._lost = 0
        """Messages lost that none has reported yet."""
        self._unacknowledged: deque[tuple[int, str]] = deque()

    def __repr__(self) -> str:
        return f"NatsStream({redact(self.url)}, {self.stream}, {self.durable})"

    def acknowledge(self, offset: Any) -> None:
        """Acknowledge all messages up to a number; during an outage, the next call covers them.

        Once closed it does nothing: the next reader goes by the number that was saved.
        """
        if self._stopped.is_set():
            return
        replies = []
        while self._unacknowledged and self._unacknowledged[0][0] <= offset:
            replies.append(self._unacknowledged.popleft()[1])
        try:
            self._run(self._send(replies))
        except BrokerUnavailableError as error:
            LOG.warning("%r: not acknowledged: %s", self, error)

    def behind(self) -> int | None:
        """Return how many messages were not sent yet."""
        try:
            return int(self._run(self._info()).num_pending)
        except BrokerUnavailableError:
            return None

    def close(self) -> None:
        """End reading, disconnect, and end the event loop."""
        self._stopped.set()
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            try:
                self._run(self._disconnect())
            except BrokerUnavailableError as error:
                LOG.warning("%r: %s", self, error)
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(SECONDS)
            loop.close()

    def join(self, offset: Any) -> int:
        """Create the durable consumer again, after a sequence number."""
        with self._lock:
            return self._run(self._join(offset))

    def fetch(self, count: int, seconds: float) -> list[Message]:
        """Wait for messages after the position."""
        with self._lock:
            if self._stopped.is_set():
                return []
            while raws := self._run(self._fetch(count, seconds)):
                made = [message for raw in raws for message in self._accept(raw)]
                if made or self._stopped.is_set():  # else all were of other parts
                    return made
            return []

    def _accept(self, raw: Any) -> Iterator[Message]:
        """Yield a message that is the next one; raise where one before it was lost."""
        about = raw.metadata
        if about.sequence.consumer != self._delivered + 1:
            raise BrokerUnavailableError("messages were lost on the way")
        self._delivered += 1
        number = about.sequence.stream
        self._unacknowledged.append((number, raw.reply))
        if number > self._position:
            if self.subject is None and self._position:
                self._note_lost(self._position + 1, number - 1)
            self._position = number
            if not self._is_own(number):
                return
            record = decoded(raw.data, self.decode)
            yield Message(record, number, number, about.timestamp.timestamp(), self._lost)
            self._lost = 0

    def _note_lost(self, first: int, last: int) -> None:
        if first <= last:
            others = "" if self.subject is None else ", those of other subjects among them"
            warn_of_lost(self, f"numbers {first} to {last}{others}")
            if self.subject is None:
                number, of = self.part
                self._lost += (last - number) // of - (first - 1 - number) // of

    def _is_own(self, number: int) -> bool:
        """Return whether a message is of this part."""
        return number % self.part.of == self.part.number

    async def _join(self, offset: Any) -> int:
        from nats.js import api

        await self._disconnect()
        self._client = await self._nats.connect(
            self.url,
            connect_timeout=1,
            ping_interval=10,  # or a server that vanished is noticed after minutes only
            allow_reconnect=False,  # by itself: its consumer must be created again
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=ignore,
        )
        jetstream = self._client.jetstream(timeout=SECONDS)
        about = await jetstream.stream_info(self.stream)
        kept, state = about.config.retention, about.state
        if kept == api.RetentionPolicy.WORK_QUEUE and self.part.of > 1:
            raise SourceError(f"{self} is a work queue, which cannot be read in parts.")
        if kept == api.RetentionPolicy.INTEREST:
            raise SourceError(
                f"{self} keeps messages by interest: it cannot be read again after a crash."
            )
        if offset is None:
            offset = 0 if self.start == "first" else state.last_seq
        if offset > state.last_seq:
            self.report_replaced(state.last_seq, offset)
            offset = 0
        queue = kept == api.RetentionPolicy.WORK_QUEUE  # which is always read from its start
        self._lost = 0
        if offset and self.subject is not None and not queue:
            self._note_lost(offset + 1, state.first_seq - 1)
        with suppress(self._nats.js.errors.NotFoundError):
            if self._joined:
                await self._check_owner(jetstream)
            await jetstream.delete_consumer(self.stream, self.durable)
        policy = api.DeliverPolicy.ALL if queue else api.DeliverPolicy.BY_START_SEQUENCE
        await jetstream.add_consumer(
            self.stream,
            api.ConsumerConfig(
                durable_name=self.durable,
                description=self._owner,
                deliver_policy=policy,
                opt_start_seq=None if queue else offset + 1,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=UNACKNOWLEDGED,
                max_ack_pending=-1,
                filter_subject=self.subject,
            ),
        )
        self._pulls = await jetstream.pull_subscribe_bind(self.durable, self.stream)
        self._unacknowledged.clear()
        self._position, self._delivered, self._joined = offset, 0, True
        return int(offset)

    async def _check_owner(self, jetstream: Any) -> None:
        about = await jetstream.consumer_info(self.stream, self.durable)
        if about.config.description != self._owner:
            raise SourceError(
                f"{self} is read by another reader now: give each a durable consumer of its own."
            )

    async def _fetch(self, count: int, seconds: float) -> list[Any]:
        try:
            found = list(await self._pulls.fetch(count, timeout=seconds))
        except TimeoutError:
            if not self._client.is_connected:
                raise
            return []
        try:
            # Afterwards: whoever creates it again from now on has sent nothing of this.
            await self._check_owner(self._client.jetstream(timeout=SECONDS))
        except self._nats.js.errors.NotFoundError:
            raise self._nats.errors.ConnectionClosedError from None
        return found

    async def _send(self, replies: list[str]) -> None:
        if self._client is None:
            raise self._nats.errors.ConnectionClosedError
        for reply in replies:
            await self._client.publish(reply, b"+ACK")
        await self._client.flush(int(SECONDS))

    async def _info(self) -> Any:
        if self._client is None:
            raise self._nats.errors.ConnectionClosedError
        return await self._client.jetstream().consumer_info(self.stream, self.durable)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await client.close()

    def _run(self, doing: Coroutine[Any, Any, T]) -> T:
        """Return what the event loop computed; most failures are outages."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="tamis talks to NATS", daemon=True
            )
            self._thread.start()
        errors = self._nats.errors
        final = (errors.AuthorizationError, self._nats.js.errors.NotFoundError)
        future = asyncio.run_coroutine_threadsafe(doing, self._loop)
        try:
            return future.result(2 * SECONDS)
        except final as error:
            raise SourceError(f"{self} cannot be read: {self._text_of(error)}.") from None
        except (errors.Error, OSError, TimeoutError, CancelledError) as error:
            future.cancel()
            raise BrokerUnavailableError(self._text_of(error)) from None

    def _text_of(self, error: BaseException) -> str:
        return scrub(str(error) or type(error).__name__, self.url)


async def ignore(error: Exception) -> None:
    """Ignore errors that are raised again where they matter."""
