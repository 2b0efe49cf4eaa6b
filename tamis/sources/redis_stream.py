"""Redis Streams, as a consumer of a group."""

from __future__ import annotations

from typing import Any

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
from tamis.sources.protocol import Decode, SourceError, decoded, from_json
from tamis.sources.redaction import redact, scrub

SECONDS = 3.0
"""That a reply may take: closing waits for it."""
PAGE = 1_000


class RedisStream(Broker):
    """Reads entries of a stream; the offset is the id of the last one.

    A reader that has its group to itself goes by ids: after a crash it reads on from the offset,
    whether what comes next is pending, acknowledged or new. One of several consumers, each with a
    permanent name, goes by what is pending for it, so what it has acknowledged does not come back.

    A record is the mapping of an entry's fields, as text where they are text; or the decoded field
    `payload`.

    Parameters
    ----------
    url: address of the server.
    stream: name of the stream.
    group: name of the consumer group.
    consumer: name of this reader in the group.
    payload: the field to decode; None makes a record of all fields.
    decode: turns the bytes of `payload` into a record.
    start: where a reader without an offset begins.
    pace: how messages become batches.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        group: str,
        *,
        consumer: str = "tamis",
        payload: str | None = None,
        decode: Decode = from_json,
        start: Start = "first",
        pace: Pace | None = None,
    ) -> None:
        super().__init__(decode, start, pace)
        redis = import_client("redis", "Redis")
        self.url = url
        self.stream = stream
        self.group = group
        self.consumer = consumer
        self.payload = payload
        self._errors = redis.exceptions
        try:
            # The client must not retry by itself: it would skip what it was sent before.
            once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
            self._client: Any = redis.Redis.from_url(
                url, socket_timeout=SECONDS, socket_connect_timeout=2, retry=once
            )
        except (ValueError, TypeError) as error:
            raise SourceError(f"{self} is no address: {scrub(str(error), url)}.") from None
        self._position = "0-0"
        self._replay_to: str | None = None
        self._alone = True
        self._own_first = False

    def __repr__(self) -> str:
        return f"RedisStream({redact(self.url)}, {self.stream}, {self.group})"

    def acknowledge(self, offset: Any) -> None:
        """Acknowledge all entries up to an id; during an outage, the next call covers them."""
        consumer = None if self._alone else self.consumer
        try:
            while True:
                pending = self._client.xpending_range(
                    self.stream, self.group, "-", offset, PAGE, consumer
                )
                if not pending:
                    return
                ids = [entry["message_id"] for entry in pending]
                self._client.xack(self.stream, self.group, *ids)
        except self._errors.RedisError as error:
            LOG.warning("%r: not acknowledged: %s", self, scrub(str(error), self.url))

    def behind(self) -> int | None:
        """Return how many entries no consumer of the group was sent."""
        try:
            return self._group().get("lag")
        except (self._errors.RedisError, SourceError):
            return None

    def close(self) -> None:
        """End reading and disconnect."""
        self._stopped.set()
        with self._lock:
            self._client.close()

    def join(self, offset: Any) -> str:
        """Join the group as a consumer that reads on after an id."""
        with self._lock:
            try:
                return self._join(offset)
            except self._errors.AuthenticationError as error:
                raise self._failed(error) from None
            except (self._errors.ConnectionError, self._errors.TimeoutError) as error:
                raise BrokerUnavailableError(scrub(str(error), self.url)) from None
            except self._errors.RedisError as error:
                raise self._failed(error) from None

    def fetch(self, count: int, seconds: float) -> list[Message]:
        """Wait for entries after the position."""
        with self._lock:
            if self._stopped.is_set():
                return []
            try:
                entries = self._entries(count, seconds)
            except (self._errors.ConnectionError, self._errors.TimeoutError) as error:
                raise BrokerUnavailableError(scrub(str(error), self.url)) from None
            except self._errors.ResponseError as error:
                if str(error).startswith("NOGROUP"):
                    raise BrokerUnavailableError("the group is gone") from None
                raise self._failed(error) from None
        fetched = []
        for raw_id, fields in entries:
            name = raw_id.decode()
            if number(name) <= number(self._position):
                continue
            self._position = name
            if fields:  # deleted since it was sent, it has none
                time = number(name)[0] / 1000
                made = time if time > 1e8 else None  # ids that a producer chose need not be times
                fetched.append(Message(self._record(fields), name, name, made))
        return fetched

    def _join(self, offset: Any) -> str:
        begin = offset or {"first": "0", "new": "$"}[self.start]
        try:
            self._client.xgroup_create(self.stream, self.group, begin, mkstream=True)
        except self._errors.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._client.xgroup_createconsumer(self.stream, self.group, self.consumer)
        about = self._client.xinfo_stream(self.stream)
        last = about["last-generated-id"].decode()
        delivered = self._group()["last-delivered-id"].decode()
        others = [
            one["name"].decode()
            for one in self._client.xinfo_consumers(self.stream, self.group)
            if one["name"].decode() != self.consumer
        ]  # after reading what was delivered: whoever joins now gets later entries
        self._alone = not others
        self._position = offset or ("0-0" if self.start == "first" else last)
        if number(self._position) > number(last):
            raise SourceError(
                f"{self} ends at {last}, and was read up to {self._position} before: "
                "it was lost or replaced."
            )
        if offset:
            self._look_for_gaps(offset, about)
        self._replay_to = delivered if self._alone else None
        self._own_first = not self._alone
        return self._position

    def _look_for_gaps(self, offset: str, about: dict[str, Any]) -> None:
        """Warn of entries deleted after the offset, or trimmed before the group was sent them."""
        deleted = about.get("max-deleted-entry-id", b"0-0").decode()  # since Redis 7
        sent = self._group().get("entries-read")
        trimmed = about.get("entries-added", 0) - about["length"] - (sent or 0)
        if number(deleted) > number(offset):
            warn_of_lost(self, f"entries between {offset} and {deleted}")
        elif sent is not None and trimmed > 0:
            warn_of_lost(self, f"{trimmed} entries after {offset}")

    def _entries(self, count: int, seconds: float) -> list[tuple[bytes, dict[bytes, bytes] | None]]:
        """Return what the group was sent before, then what is new."""
        if self._replay_to is not None:
            found = self._client.xrange(self.stream, f"({self._position}", self._replay_to, count)
            if found:
                return list(found)
            self._replay_to = None
        if self._own_first:
            own = self._read_group(self._position, count, None)
            if own:
                return own
            self._own_first = False
        return self._read_group(">", count, max(1, int(seconds * 1000)))

    def _read_group(self, after: str, count: int, block: int | None) -> list[Any]:
        reply = self._client.xreadgroup(
            self.group, self.consumer, {self.stream: after}, count, block
        )
        return list(reply[0][1]) if reply else []

    def _group(self) -> dict[str, Any]:
        for group in self._client.xinfo_groups(self.stream):
            if group["name"].decode() == self.group:
                return dict(group)
        raise SourceError(f"{self} has lost its group.")

    def _record(self, fields: dict[bytes, bytes]) -> Any:
        if self.payload is not None:
            return decoded(fields.get(self.payload.encode()), self.decode)
        return {as_text(name): as_text(value) for name, value in fields.items()}

    def _failed(self, error: Exception) -> SourceError:
        return SourceError(f"{self} cannot be read: {scrub(str(error), self.url)}.")


def number(entry: str) -> tuple[int, int]:
    """Return an id as numbers that can be compared.

    >>> number("9-1") < number("10-0")
    True
    """
    first, _, second = entry.partition("-")
    return int(first), int(second or 0)


def as_text(value: bytes) -> Any:
    """Return bytes as text where they are text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
