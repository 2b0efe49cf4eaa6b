"""Kafka, as a member of a consumer group that commits by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tamis.errors import as_clause
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
from tamis.sources.redaction import STARS

SECONDS = 2.0
"""That a request to a broker may take: closing waits for it."""
SECRET = re.compile("pass|secret|token|key|pem|oauth", re.IGNORECASE)


class KafkaTopic(Broker):
    """Reads messages of a topic; the offset holds the next position of every partition.

    A saved offset takes precedence over what the group has committed, so that state and stream
    agree after a crash. A partition that comes from another member of the group is read from where
    that member committed. Messages are in order within a partition, not between partitions, so runs
    over more than one are not identical to the bit.

    Parameters
    ----------
    servers: addresses of brokers, separated by commas.
    topic: name of the topic.
    group: name of the consumer group.
    settings: further settings of the client, passed on unchanged.
    decode: turns the bytes of a message into a record.
    start: where a reader without an offset begins.
    pace: how messages become batches.
    skip_lost: where it was replaced by one that ends earlier, warn and read it from its beginning,
        instead of raising.
    part: of several readers, each reads some of the partitions, by their numbers: those that there
        were when it connected.
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
        skip_lost: bool = False,
        part: Part = COMPLETE,
    ) -> None:
        super().__init__(decode, start, pace, skip_lost)
        self.part = part
        self._kafka = import_client("confluent_kafka", "Kafka")
        self.servers = servers
        self.topic = topic
        self.group = group
        self.settings = dict(settings or {})
        self._client: Any = None
        self._unavailable = ""
        self._fault: SourceError | None = None
        self._positions: dict[str, int] = {}
        """Next offset to read of each assigned partition."""
        self._revoked: dict[str, int] = {}
        """The same of those revoked, in case they come back."""
        self._saved: dict[str, int] = {}
        """The same of those assigned when the offset was saved, until they are again."""
        self._acknowledged: dict[str, int] = {}
        """Offsets acknowledged, but not committed yet."""
        self._behind: int | None = None
        self._lost = 0
        """Messages removed unread that none has reported yet."""
        self._fresh = self._first = True
        self._broken = False

    def __repr__(self) -> str:
        return f"KafkaTopic({self.servers}, {self.topic}, {self.group})"

    def acknowledge(self, offset: Any) -> None:
        """Commit the offsets at the next fetch: the client may be used by one thread only."""
        self._acknowledged = offset["ours"]

    def behind(self) -> int | None:
        """Return how many messages of the assigned partitions were unread at the last fetch."""
        return self._behind

    def close(self) -> None:
        """End reading and leave the group."""
        self._stopped.set()
        with self._lock:
            self._disconnect()

    def join(self, offset: Any) -> Any:
        """Join the group; once a member, check that the brokers can be reached again."""
        with self._lock:
            self._unavailable = ""
            try:
                if self._client is None:
                    self._connect(offset)
                about = self._client.list_topics(self.topic, timeout=SECONDS)
            except self._kafka.KafkaException as error:
                if self._first and self._client is not None:
                    self._client.poll(0)  # so that it reports what is wrong
                    self._disconnect()
                if self._fault:
                    raise self._fault from None
                raise BrokerUnavailableError(self._text_of(error)) from None
            fault = about.topics[self.topic].error
            if fault is not None and not fault.retriable():
                raise SourceError(f"{self} cannot be read: {self._text_of(fault)}.")
            if self.part.of > 1 and self._first:
                self._assign_part(about.topics[self.topic].partitions)
        return offset

    def fetch(self, count: int, seconds: float) -> list[Message]:
        """Wait for messages after the positions."""
        with self._lock:
            if self._stopped.is_set():
                return []
            if self._client is None:  # disconnected by the last fetch, which had messages
                raise BrokerUnavailableError(self._unavailable or "the connection broke")
            self._commit()
            fetched = self._client.consume(count, timeout=seconds)
            if self._fault:
                raise self._fault
            accepted = [message for raw in fetched if (message := self._accept(raw)) is not None]
            if accepted:
                accepted[0] = accepted[0]._replace(lost=self._lost)
                self._lost = 0
            self._behind = self._count()
            if self._broken:
                self._disconnect()
        if not fetched and (self._unavailable or self._first):
            raise BrokerUnavailableError(self._unavailable or "the group is not formed yet")
        return accepted

    def _accept(self, raw: Any) -> Message | None:
        """Return a message that was not read before."""
        fault = raw.error()
        if fault is not None:
            if fault.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                # What comes next was removed: joining again finds and reports it.
                self._unavailable, self._broken = self._text_of(fault), True
                return None
            if fault.fatal() or not (
                fault.retriable() or fault.code() == self._kafka.KafkaError._PARTITION_EOF
            ):
                raise SourceError(f"{self} cannot be read: {self._text_of(fault)}.")
            return None
        partition, number = str(raw.partition()), raw.offset()
        if partition not in self._positions or number < self._positions[partition]:
            return None
        self._positions[partition] = number + 1
        _, made = raw.timestamp()
        return Message(
            decoded(raw.value(), self.decode),
            {"partition": raw.partition(), "offset": number},
            {"ours": dict(self._positions), "others": self._saved | self._revoked},
            made / 1000 if made > 0 else None,
        )

    def _connect(self, offset: Any) -> None:
        settings = {
            **{"bootstrap.servers": self.servers, "group.id": self.group, "log_level": 2},
            **self.settings,
            **{
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "error_cb": self._on_error,
            },
            # Complete assignments, as `_on_assign` and `_on_revoke` expect them.
            **{"group.protocol": "classic", "partition.assignment.strategy": "range,roundrobin"},
        }
        try:
            self._client = self._kafka.Consumer(settings)
        except self._kafka.KafkaException as error:
            raise SourceError(
                f"{self} has settings that do not fit: {self._text_of(error)}."
            ) from None
        self._fresh = offset is None
        self._first, self._broken = True, False
        self._positions, self._lost = {}, 0
        self._saved, self._revoked = (
            dict((offset or {}).get(whose, {})) for whose in ("ours", "others")
        )
        if self.part.of == 1:
            self._client.subscribe(
                [self.topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_revoke,
            )

    def _assign_part(self, numbers: Iterable[int]) -> None:
        """Read the partitions that are this part's, without the help of the group."""
        own = [number for number in sorted(numbers) if number % self.part.of == self.part.number]
        self._on_assign(
            self._client, [self._kafka.TopicPartition(self.topic, number) for number in own]
        )
        if self._fault:
            raise self._fault
        if self._broken:
            raise BrokerUnavailableError(self._unavailable)

    def _disconnect(self) -> None:
        if self._client is not None:
            self._commit()
            client, self._client = self._client, None
            client.close()

    def _commit(self) -> None:
        """Commit what was acknowledged; after a failure, the next commit covers it."""
        safe, self._acknowledged = self._acknowledged, {}
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
            LOG.warning("%r: not acknowledged: %s", self, self._text_of(error))

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

    def _on_assign(self, client: Any, partitions: list[Any]) -> None:
        """Set where each newly assigned partition is read from."""
        try:
            about = client.list_topics(self.topic, SECONDS).topics[self.topic]
            alone = self.part.of > 1 or len(partitions) == len(about.partitions)
            for partition in partitions:
                partition.offset = self._start_of(client, partition, alone)
        except self._kafka.KafkaException as error:  # nothing is known: join again
            self._unavailable, self._broken, partitions = self._text_of(error), True, []
        except SourceError as error:  # nothing may be raised through the client
            self._fault, partitions = error, []
        self._positions = {str(part.partition): part.offset for part in partitions}
        for known in (self._saved, self._revoked):
            for name in self._positions:
                known.pop(name, None)
        self._first = False
        client.assign(partitions)

    def _start_of(self, client: Any, partition: Any, alone: bool) -> int:
        """Return the offset from which to read a partition."""
        low, high = client.get_watermark_offsets(partition, timeout=SECONDS)
        committed = client.committed([partition], timeout=SECONDS)[0].offset
        name = str(partition.partition)
        if name in self._saved:
            position = self._saved[name]
        elif name in self._revoked:
            position = max(self._revoked[name], committed)
        elif committed >= 0 and not (self._first and self._fresh and alone):
            position = committed
        else:
            return int(low if self.start == "first" else high)
        if position > high:
            self.report_replaced(f"{high} in partition {partition.partition}", position)
            position = low
        if position < low:
            self._lost += low - position
            warn_of_lost(self, f"{low - position} of partition {partition.partition}")
        return int(max(position, low))

    def _on_revoke(self, client: Any, partitions: list[Any]) -> None:
        """Remember the positions, in case the partitions come back."""
        self._revoked.update(self._positions)
        self._positions = {}

    def _on_error(self, error: Any) -> None:
        """Note that no broker can be reached, or an error that is final."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._unavailable = self._text_of(error)
        elif error.fatal() or error.code() in (
            self._kafka.KafkaError._AUTHENTICATION,
            self._kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
            self._kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            self._fault = SourceError(f"{self} cannot be read: {self._text_of(error)}.")

    def _text_of(self, error: Any) -> str:
        """Return the text of an error without the secrets of the settings."""
        fault = error.args[0] if isinstance(error, self._kafka.KafkaException) else error
        text = str(fault.str())
        for name, value in self.settings.items():
            if value and SECRET.search(name):
                text = text.replace(value, STARS)
        return as_clause(text)
