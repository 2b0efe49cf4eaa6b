"""Entries of Redis Streams: their ids, their fields, and the script that reads new ones."""

from __future__ import annotations

from typing import Any

Entry = tuple[bytes, dict[bytes, bytes] | None]
"""Id and fields; none where an entry was removed since it was sent."""
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


def number(entry: str) -> tuple[int, int]:
    """Return an id as numbers that can be compared.

    >>> number("9-1") < number("10-0")
    True
    """
    first, _, second = entry.partition("-")
    return int(first), int(second or 0)


def split_offset(offset: Any) -> tuple[str | None, tuple[str, ...]]:
    """Return the last id of an offset, and the ids that were claimed besides."""
    if isinstance(offset, dict):
        return offset["id"], tuple(offset["claimed"])
    return offset, ()


def as_fields(fields: Any) -> dict[bytes, bytes]:
    """Return names and values in turn, as a script returns them, as a mapping."""
    return dict(zip(fields[::2], fields[1::2], strict=True))


def as_text(value: bytes) -> Any:
    """Return bytes as text where they are text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
