"""Kafka, as a member of a consumer group that commits by hand."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tamis.sources.hidden import STARS
from tamis.sources.messages import (
    LOG,
    BrokerAwayError,
    Message,
    Pace,
    Start,
    read_messages,
    warn_of_missed,
)
from tamis.sources.protocol import Batch, Decode, SourceError, decoded, from_json

SECONDS = 2.0
"""That a question to a broker may take: closing waits for it."""
SECRET = re.compile("pass|secret|token|key|pem|oauth", re.IGNORECASE)


class KafkaTopic:
    """Reads messages of a topic; the offset says of every partition where it goes on.

    What the saved offset says of a partition counts more than what the group has committed, so
    that state and stream fit after a crash. A partition that comes from another member of the
    group is read from where that member committed. `settings` go to the client as they are.

    Order holds within a partition; between partitions there is none, so runs over more than one
    do not repeat each other to the bit.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        group: str,
        *,
        settings: Mapping[str, str] | None = None,
        decode: Decode = from_json,
        start: Start = "first",
        pace: Pace | None = None,
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise SourceError("Kafka needs its client: pip install 'tamis[brokers]'.") from None
        self.servers = servers
        self.topic = topic
        self.group = group
        self.settings = dict(settings or {})
        self.decode = decode
        self.start = start
        self.pace = pace or Pace()
        self._kafka: Any = confluent_kafka
        self._client: Any = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._away = ""
        self._fault: SourceError | None = None
        self._positions: dict[str, int] = {}
        """Of the partitions that are ours: the next offset to read."""
        self._left: dict[str, int] = {}
        """Of those that were, in case they come back."""
        self._saved: dict[str, int] = {}
        """Of those that were ours when the offset was saved, until they are again."""
        self._safe: dict[str, int] = {}
        """What was acknowledged, but not committed yet."""
        self._behind: int | None = None
        self._fresh = self._first = True
        self._broken = False

    @property
    def rows(self) -> int:
        """Records of a batch."""
        return self.pace.rows

    def __repr__(self) -> str:
        return f"KafkaTopic({self.servers}, {self.topic}, {self.group})"

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield messages after an offset, for ever."""
        return read_messages(self, offset, self.pace, self._stopped)

    def acknowledge(self, offset: Any) -> None:
        """Have the offsets committed at the next fetch: the client is for one thread alone."""
        self._safe = offset["ours"]

    def behind(self) -> int | None:
        """Count the messages of our partitions that were not read at the last fetch."""
        return self._behind

    def close(self) -> None:
        """End reading and leave the group."""
        self._stopped.set()
        with self._lock:
            self._leave()

    def join(self, offset: Any) -> Any:
        """Be a member of the group; once it is one, see that the brokers are there again."""
        with self._lock:
            self._away = ""
            try:
                if self._client is None:
                    self._connect(offset)
                about = self._client.list_topics(self.topic, timeout=SECONDS)
            except self._kafka.KafkaException as error:
                if self._first and self._client is not None:
                    self._client.poll(0)  # so that it says what is wrong
                    self._leave()
                if self._fault:
                    raise self._fault from None
                raise BrokerAwayError(self._say(error)) from None
            fault = about.topics[self.topic].error
            if fault is not None and not fault.retriable():
                raise SourceError(f"{self} cannot be read: {fault.str()}.")
        return offset

    def fetch(self, count: int, seconds: float) -> list[Message]:
        """Wait for messages after the positions."""
        with self._lock:
            if self._stopped.is_set():
                return []
            self._commit()
            fetched = self._client.consume(count, timeout=seconds)
            if self._fault:
                raise self._fault
            accepted = [message for raw in fetched if (message := self._accept(raw)) is not None]
            self._behind = self._count()
            if self._broken:
                self._leave()
        if not fetched and (self._away or self._first):
            raise BrokerAwayError(self._away or "the group is not formed yet")
        return accepted

    def _accept(self, raw: Any) -> Message | None:
        """Take a message that was not read before."""
        fault = raw.error()
        if fault is not None:
            if fault.fatal() or not (
                fault.retriable() or fault.code() == self._kafka.KafkaError._PARTITION_EOF
            ):
                raise SourceError(f"{self} cannot be read: {fault.str()}.")
            return None
        partition, number = str(raw.partition()), raw.offset()
        if partition not in self._positions or number < self._positions[partition]:
            return None
        self._positions[partition] = number + 1
        _, made = raw.timestamp()
        return Message(
            decoded(raw.value(), self.decode),
            {"partition": raw.partition(), "offset": number},
            {"ours": dict(self._positions), "others": self._saved | self._left},
            made / 1000 if made > 0 else None,
        )

    def _connect(self, offset: Any) -> None:
        settings = {
            **{"bootstrap.servers": self.servers, "group.id": self.group, "log_level": 2},
            **self.settings,
            **{"enable.auto.commit": False, "auto.offset.reset": "error", "error_cb": self._note},
            # Assignments that come whole, as `_take` and `_give` expect them.
            **{"group.protocol": "classic", "partition.assignment.strategy": "range,roundrobin"},
        }
        try:
            self._client = self._kafka.Consumer(settings)
        except self._kafka.KafkaException as error:
            raise SourceError(f"{self} has settings that do not fit: {self._say(error)}.") from None
        self._fresh = offset is None
        self._first, self._broken = True, False
        self._positions = {}
        self._saved, self._left = (
            dict((offset or {}).get(whose, {})) for whose in ("ours", "others")
        )
        self._client.subscribe(
            [self.topic], on_assign=self._take, on_revoke=self._give, on_lost=self._give
        )

    def _leave(self) -> None:
        if self._client is not None:
            self._commit()
            client, self._client = self._client, None
            client.close()

    def _commit(self) -> None:
        """Commit what was acknowledged of our partitions; if that fails, the next time will do."""
        safe, self._safe = self._safe, {}
        ours = [
            self._kafka.TopicPartition(self.topic, int(partition), position)
            for partition, position in safe.items()
            if partition in self._positions
        ]
        if not ours:
            return
        try:
            self._client.commit(offsets=ours, asynchronous=True)
        except self._kafka.KafkaException as error:
            LOG.warning("%r: not acknowledged: %s", self, self._say(error))

    def _count(self) -> int | None:
        waiting = 0
        for partition, position in self._positions.items():
            try:
                _, high = self._client.get_watermark_offsets(
                    self._kafka.TopicPartition(self.topic, int(partition)), cached=True
                )
            except self._kafka.KafkaException:
                return None
            waiting += max(0, high - position)
        return waiting

    def _take(self, client: Any, partitions: list[Any]) -> None:
        """Place every partition that the group hands to us."""
        try:
            about = client.list_topics(self.topic, SECONDS).topics[self.topic]
            alone = len(partitions) == len(about.partitions)
            for partition in partitions:
                partition.offset = self._place(client, partition, alone)
        except self._kafka.KafkaException as error:  # gone again: nothing is known, so join anew
            self._away, self._broken, partitions = self._say(error), True, []
        except SourceError as error:  # nothing may be raised through the client
            self._fault, partitions = error, []
        self._positions = {str(part.partition): part.offset for part in partitions}
        for known in (self._saved, self._left):
            for name in self._positions:
                known.pop(name, None)
        self._first = False
        client.assign(partitions)

    def _place(self, client: Any, partition: Any, alone: bool) -> int:
        """Find where a partition is to be read from."""
        low, high = client.get_watermark_offsets(partition, timeout=SECONDS)
        committed = client.committed([partition], timeout=SECONDS)[0].offset
        name = str(partition.partition)
        if name in self._saved:
            place = self._saved[name]
        elif name in self._left:
            place = max(self._left[name], committed)
        elif committed >= 0 and not (self._first and self._fresh and alone):
            place = committed
        else:
            return int(low if self.start == "first" else high)
        if place > high:
            raise SourceError(
                f"{self} ends at {high} in partition {partition.partition}, and was read up to "
                f"{place} before: it was lost or replaced."
            )
        if place < low:
            warn_of_missed(self, f"{low - place} of partition {partition.partition}")
        return int(max(place, low))

    def _give(self, client: Any, partitions: list[Any]) -> None:
        """Remember how far we came, in case the partitions come back."""
        self._left.update(self._positions)
        self._positions = {}

    def _note(self, error: Any) -> None:
        """Remember that all brokers are away, or what will not get better."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._away = self._say(error)
        elif error.fatal() or error.code() in (
            self._kafka.KafkaError._AUTHENTICATION,
            self._kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
            self._kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            self._fault = SourceError(f"{self} cannot be read: {self._say(error)}.")

    def _say(self, error: Any) -> str:
        """Write an error without the secrets of the settings."""
        fault = error.args[0] if isinstance(error, self._kafka.KafkaException) else error
        text = str(fault.str())
        for name, value in self.settings.items():
            if value and SECRET.search(name):
                text = text.replace(value, STARS)
        return text
