"""Redis Streams, as a consumer of a group."""

from __future__ import annotations

import threading
from time import monotonic
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
from tamis.sources.redis_group import LAST, Entry, Group, number
from tamis.sources.redis_offset import Offset

SECONDS = 3.0
"""That a reply may take: closing waits for it."""
HEIR = ":claimed"
"""Ends the name under which a consumer claims: what it was sent itself stays in order of ids."""
MOST_CLAIMED = 1_000
"""Entries claimed and not acknowledged: every offset names them."""


class RedisStream(Broker):
    """Reads entries of a stream; the offset is the id of the last, and what was claimed and lost.

    A reader that has its group to itself goes by ids: after a crash it reads on from the offset,
    whether what comes next is pending, acknowledged or new. One of several consumers, each with a
    permanent name, goes by what is pending for it, so what it has acknowledged does not come back.
    It acknowledges its own entries only, and claims those of a consumer that is dead.

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
    claim: seconds after which a consumer that does not read is dead; None claims nothing.
    start: where a reader without an offset begins.
    pace: how messages become batches.
    skip_lost: where it was replaced by one that ends earlier, warn and read it from its beginning,
        instead of raising.
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
        claim: float | None = 600.0,
        start: Start = "first",
        pace: Pace | None = None,
        skip_lost: bool = False,
    ) -> None:
        super().__init__(decode, start, pace, skip_lost)
        redis = import_client("redis", "Redis")
        self.url = url
        self.stream = stream
        self.group = group
        self.consumer = consumer
        self.payload = payload
        self.claim = claim
        self._errors = redis.exceptions
        try:
            # The client must not retry by itself: it would skip what it was sent before.
            once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
            self._client: Any = redis.Redis.from_url(
                url, socket_timeout=SECONDS, socket_connect_timeout=2, retry=once
            )
        except (ValueError, TypeError) as error:
            raise SourceError(f"{self} is not an address: {scrub(str(error), url)}.") from None
        self._group = Group(self._client, stream, group)
        self._position = "0-0"
        self._replay_to: str | None = None
        self._alone = True
        self._own_first = False
        self._claimed: tuple[str, ...] = ()
        """Entries claimed and read, until they are acknowledged."""
        self._lost = self._unreported = 0
        """Entries lost by the server's count, and those that no message has reported yet."""
        self._claiming, self._using = threading.Lock(), threading.Lock()
        self._claim_at = 0.0

    def __repr__(self) -> str:
        return f"RedisStream({redact(self.url)}, {self.stream}, {self.group})"

    def acknowledge(self, offset: Any) -> None:
        """Acknowledge this consumer's entries; during an outage, the next call covers them.

        It may be closed before: one that leaves for good must not leave to others what it saved.
        """
        with self._using:
            try:
                self._acknowledge(Offset.from_json(offset))
            except self._errors.RedisError as error:
                LOG.warning("%r: not acknowledged: %s", self, scrub(str(error), self.url))
        if self._stopped.is_set():
            self.close()

    def _acknowledge(self, offset: Offset) -> None:
        if offset.claimed:
            self._group.acknowledge(offset.claimed)
            with self._claiming:
                known = set(offset.claimed)
                self._claimed = tuple(one for one in self._claimed if one not in known)
        while pending := self._group.pending(self.consumer, "-", str(offset.id)):
            self._group.acknowledge(pending)
        # Reading nothing shows that this consumer lives, however long its trainer takes.
        self._group.read_own(self.consumer, LAST, 1)

    def behind(self) -> int | None:
        """Return how many entries no consumer of the group was sent."""
        with self._using:  # closing waits: it would cut the connection off
            try:
                return self._group.info().get("lag")
            except (self._errors.RedisError, SourceError):
                return None

    def close(self) -> None:
        """End reading and disconnect."""
        self._stopped.set()
        with self._lock, self._using:
            self._client.close()

    def join(self, offset: Any) -> Any:
        """Join the group as a consumer that reads on after an id."""
        with self._lock:
            try:
                return self._join(Offset.from_json(offset)).to_json()
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
                found = self._claim(count) or self._in_order(self._entries(count, seconds))
            except (self._errors.ConnectionError, self._errors.TimeoutError) as error:
                raise BrokerUnavailableError(scrub(str(error), self.url)) from None
            except self._errors.ResponseError as error:
                if "NOGROUP" in str(error):
                    raise BrokerUnavailableError("the group is gone") from None
                raise self._failed(error) from None
            if found:
                found[0] = found[0]._replace(lost=self._unreported)
                self._unreported = 0
            return found

    def _in_order(self, entries: list[Entry]) -> list[Message]:
        """Return messages after the position, and move it; count those removed once sent."""
        fetched, before, removed = [], self._position, 0
        for raw_id, fields in entries:
            name = raw_id.decode()
            if number(name) <= number(self._position):
                continue
            self._position = name
            if fields:
                fetched.append(self._message(name, fields, self._claimed))
            else:
                removed += 1
        self._note_lost(removed, f"entries after {before}")
        return fetched

    def _note_lost(self, count: int, what: str) -> None:
        if count:
            self._unreported += count
            warn_of_lost(self, f"{count} {what}")

    def _message(self, name: str, fields: dict[bytes, bytes], claimed: tuple[str, ...]) -> Message:
        time = number(name)[0] / 1000
        made = time if time > 1e8 else None  # ids that a producer chose need not be times
        offset = Offset(self._position, claimed, self._lost).to_json()
        return Message(self._record(fields), name, offset, made)

    def _join(self, offset: Offset) -> Offset:
        begin = offset.id or {"first": "0", "new": "$"}[self.start]
        self._group.create(begin, None if begin != "0" else self._removed())
        self._client.xgroup_createconsumer(self.stream, self.group, self.consumer)
        about = self._client.xinfo_stream(self.stream)
        last = about["last-generated-id"].decode()
        delivered = self._group.delivered()
        # Listed after reading what was delivered: whoever joins now gets later entries.
        self._alone = set(self._group.idle()) == {self.consumer}
        self._lost, self._unreported = self._group.lost(self.consumer), 0
        if offset.id is None:
            fresh = "0-0" if self.start == "first" or not self._alone else last
            offset = Offset(fresh, lost=self._lost)
        elif number(offset.id) > number(last):
            self.report_replaced(last, offset.id)
            offset = Offset("0-0", lost=self._lost)
            if number(delivered) > number(last):  # or nothing that comes would be new
                self._client.xgroup_setid(self.stream, self.group, "0")
                delivered = "0-0"
        self._position = str(offset.id)
        deleted = about.get("max-deleted-entry-id", b"0-0").decode()  # since Redis 7
        if number(deleted) > max(number(delivered), number(self._position)):
            warn_of_lost(self, f"entries between {self._position} and {deleted}")
        self._note_lost(max(0, self._lost - offset.lost), "entries before this consumer was ended")
        self._replay_to = delivered if self._alone else None
        self._own_first = not self._alone
        with self._claiming:
            self._claimed = offset.claimed
        self._claim_at = 0.0
        return offset

    def _entries(self, count: int, seconds: float) -> list[Entry]:
        """Return what the group was sent before, then what is new."""
        if self._replay_to is not None:
            if found := self._replay(self._replay_to, count):
                return found
            self._replay_to = None
        if self._own_first:
            if own := self._group.read_own(self.consumer, self._position, count):
                return own
            self._own_first = False
        found, delivered = self._read_new(count)
        if not found and self._client.xread(
            {self.stream: delivered}, 1, max(1, int(seconds * 1000))
        ):
            found, _ = self._read_new(count)
        return found

    def _replay(self, last: str, count: int) -> list[Entry]:
        """Return entries by their ids, and count those of them that were sent and removed since."""
        found: list[Entry] = self._client.xrange(self.stream, f"({self._position}", last, count)
        ids = {name.decode() for name, _ in found}
        end = max(ids, key=number) if ids else last
        missing = self._group.all_pending(self.consumer, self._position, end) - ids
        self._note_lost(len(missing), f"entries after {self._position}")
        return found

    def _read_new(self, count: int) -> tuple[list[Entry], str]:
        """Return new entries, and the last id that the group was sent before them."""
        found, lost, delivered = self._group.read_new(self.consumer, count)
        self._lost += lost
        self._note_lost(lost, f"entries after {delivered}")
        return found, delivered

    def _claim(self, count: int) -> list[Message]:
        """Return entries of dead consumers, now and then; first those claimed before a crash."""
        if self.claim is None or monotonic() < self._claim_at:
            return []
        idle = self._group.idle()
        room = min(count, MOST_CLAIMED - len(self._claimed))
        heir = self.consumer + HEIR
        found = self._inherited(heir, room) if heir in idle else []
        if not found and any(self._claim_from(name, heir, room) for name in self._dead(idle)):
            found = self._inherited(heir, room)
        elif not found:
            self._claim_at = monotonic() + self.claim / 4
        messages, removed = [], 0
        for raw_id, fields in found:
            with self._claiming:
                self._claimed = (*self._claimed, raw_id.decode())
            if fields:
                messages.append(self._message(raw_id.decode(), fields, self._claimed))
            else:
                removed += 1
        self._note_lost(removed, "entries that were claimed")
        return messages

    def _inherited(self, heir: str, count: int) -> list[Entry]:
        """Return entries that were claimed and not read."""
        known = set(self._claimed)
        entries = self._group.read_own(heir, "0-0", MOST_CLAIMED + count) if count > 0 else []
        return [entry for entry in entries if entry[0].decode() not in known][:count]

    def _dead(self, idle: dict[str, float]) -> list[str]:
        """Return the other consumers that have not read for too long."""
        reads = {name: name.removesuffix(HEIR) for name in idle}
        return [
            name
            for name, reader in reads.items()
            if reader != self.consumer and idle.get(reader, idle[name]) >= (self.claim or 0)
        ]

    def _claim_from(self, name: str, heir: str, count: int) -> bool:
        """Claim pending entries of a dead consumer, and report those that were removed."""
        ids = self._group.pending(name, "-", "+", count) if count > 0 else []
        if not ids:
            return False
        taken, lost = self._group.claim(ids, name, self.consumer, heir, self.claim or 0)
        if taken:
            LOG.warning("%r: claimed %d entries of %s, which is dead", self, taken, name)
        self._lost += lost
        self._note_lost(lost, f"entries sent to {name}")
        return taken + lost > 0

    def _removed(self) -> int | None:
        """Return how many entries were removed before there was a group; None before Redis 7."""
        try:
            about = self._client.xinfo_stream(self.stream)
        except self._errors.ResponseError:
            return None
        return about["entries-added"] - about["length"] if "entries-added" in about else None

    def _record(self, fields: dict[bytes, bytes]) -> Any:
        if self.payload is not None:
            return decoded(fields.get(self.payload.encode()), self.decode)
        return {as_text(name): as_text(value) for name, value in fields.items()}

    def _failed(self, error: Exception) -> SourceError:
        return SourceError(f"{self} cannot be read: {scrub(str(error), self.url)}.")


def as_text(value: bytes) -> Any:
    """Return bytes as text where they are text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
