"""A consumer group of Redis, as its server keeps it: who was sent what, and what was removed."""

from __future__ import annotations

from typing import Any, NamedTuple

from tamis.sources.protocol import SourceError

Entry = tuple[bytes, dict[bytes, bytes] | None]
"""Id and fields; none where an entry was removed since it was sent."""
PAGE = 1_000
LAST = "18446744073709551615-0"
"""An id after all others; the highest of all stands for `>` inside Redis."""
READ = """
local function field(list, name)
  for i = 1, #list, 2 do if list[i] == name then return list[i + 1] end end
end
local lost, delivered = 0, '0-0'
local about = redis.pcall('XINFO', 'STREAM', KEYS[1])
local groups = about.err and {} or redis.call('XINFO', 'GROUPS', KEYS[1])
for _, group in ipairs(groups) do
  if field(group, 'name') == ARGV[1] then
    delivered = field(group, 'last-delivered-id')
    local sent, added = field(group, 'entries-read'), field(about, 'entries-added')
    local gone = added and added - field(about, 'length')
    if sent and gone and gone > sent then
      lost = gone - sent
      redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], delivered, 'ENTRIESREAD', gone)
      redis.call('HINCRBY', KEYS[2], ARGV[2], lost)
    end
  end
end
local found = redis.call(
  'XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
return {lost, delivered, found and found[1][2] or {}}
"""
"""Reads new entries, and in the same step counts those removed before the group was sent them.

A script, because no other consumer may read between the count and `SETID`. Redis counts since 7.
"""
CLAIM = """
local taken, lost = 0, 0
for i = 6, #ARGV do
  local id = ARGV[i]
  if #redis.call('XRANGE', KEYS[1], id, id) > 0 then
    taken = taken + #redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[4], ARGV[5], id, 'JUSTID')
  elseif #redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[3]) > 0 then
    lost = lost + redis.call('XACK', KEYS[1], ARGV[1], id)
  end
end
if lost > 0 then redis.call('HINCRBY', KEYS[2], ARGV[2], lost) end
return {taken, lost}
"""
"""Claims entries of a dead consumer, and in the same step counts those that were removed."""


class New(NamedTuple):
    """New entries, how many were removed before them, and the last id sent before."""

    found: list[Entry]
    lost: int
    delivered: str


class Group:
    """A consumer group; what its server answers, as text and numbers.

    What is removed before a consumer gets it is counted by that consumer's name in a hash, in the
    step that finds it missing: the count outlives a consumer that is killed before it saves it.
    """

    def __init__(self, client: Any, stream: str, name: str) -> None:
        self.client = client
        self.stream = stream
        self.name = name
        tag = stream if "{" in stream else f"{{{stream}}}"  # the same slot of a cluster
        self.counts = f"{tag}:lost:{name}"

    def create(self, begin: str, removed: int | None) -> None:
        """Create it where it does not exist, for entries after `begin`."""
        try:
            self.client.xgroup_create(self.stream, self.name, begin, True, removed)
        except Exception as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def delivered(self) -> str:
        """Return the id of the last entry that any consumer was sent."""
        return str(self.info()["last-delivered-id"].decode())

    def info(self) -> dict[str, Any]:
        """Return what the server knows of it."""
        for group in self.client.xinfo_groups(self.stream):
            if group["name"].decode() == self.name:
                return dict(group)
        raise SourceError(f"The stream {self.stream} has lost its group {self.name}.")

    def idle(self) -> dict[str, float]:
        """Return seconds since each consumer was last active."""
        found = self.client.xinfo_consumers(self.stream, self.name)
        return {one["name"].decode(): one["idle"] / 1000 for one in found}

    def lost(self, consumer: str) -> int:
        """Return how many entries were removed before a consumer got them, since ever."""
        return int(self.client.hget(self.counts, consumer) or 0)

    def pending(self, consumer: str, first: str, last: str, count: int = PAGE) -> list[str]:
        """Return ids of entries that a consumer was sent and has not acknowledged."""
        found = self.client.xpending_range(self.stream, self.name, first, last, count, consumer)
        return [entry["message_id"].decode() for entry in found]

    def all_pending(self, consumer: str, after: str, last: str) -> set[str]:
        """Return all such ids between two."""
        ids: list[str] = []
        while page := self.pending(consumer, f"({ids[-1] if ids else after}", last):
            ids += page
        return set(ids)

    def acknowledge(self, ids: list[str] | tuple[str, ...]) -> None:
        """Release entries."""
        self.client.xack(self.stream, self.name, *ids)

    def read_own(self, consumer: str, after: str, count: int) -> list[Entry]:
        """Return entries that a consumer was sent and has not acknowledged."""
        reply = self.client.xreadgroup(self.name, consumer, {self.stream: after}, count)
        return list(reply[0][1]) if reply else []

    def read_new(self, consumer: str, count: int) -> New:
        """Return entries that no consumer was sent."""
        lost, delivered, found = self.client.eval(
            READ, 2, self.stream, self.counts, self.name, consumer, count
        )
        return New([(name, as_fields(fields)) for name, fields in found], lost, delivered.decode())

    def claim(
        self, ids: list[str], dead: str, consumer: str, heir: str, seconds: float
    ) -> tuple[int, int]:
        """Pass entries of a dead consumer on; return how many, and how many were removed."""
        least = int(1000 * seconds)
        taken, lost = self.client.eval(
            CLAIM, 2, self.stream, self.counts, self.name, consumer, dead, heir, least, *ids
        )
        return taken, lost


def number(entry: str) -> tuple[int, int]:
    """Return an id as numbers that can be compared.

    >>> number("9-1") < number("10-0")
    True
    """
    first, _, second = entry.partition("-")
    return int(first), int(second or 0)


def as_fields(fields: Any) -> dict[bytes, bytes]:
    """Return names and values in turn, as a script returns them, as a mapping."""
    return dict(zip(fields[::2], fields[1::2], strict=True))
