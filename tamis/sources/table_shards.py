"""A table in shards: each is every so many-th chunk of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from tamis.data import Samples
from tamis.sources.rejects import Rejects
from tamis.sources.tables import Playback, Table
from tamis.sources.validation import Validator


class OwnRejects(Rejects):
    """Passes on the rejected rows of one shard; those of the others are theirs to report."""

    def __init__(self, rejects: Rejects, shard: int, shards: int, rows_per_slot: int) -> None:
        super().__init__()
        self.rejects = rejects
        self.shard, self.shards = shard, shards
        self.rows_per_slot = rows_per_slot

    def add(self, position: Any, reason: str, detail: str = "", record: Any = None) -> None:
        """Pass a row on, if it is of this shard."""
        if int(position) // self.rows_per_slot % self.shards == self.shard:
            self.rejects.add(position, reason, detail, record)


class ShardPlayback(Playback):
    """One shard of a table as a stream with a position: the number of its chunks read.

    Chunk c of the table is in shard c modulo the number of shards. Every shard reads the table, and
    keeps its own chunks.
    """

    def __init__(self, table: Table, validator: Validator, shard: int, shards: int) -> None:
        rejects = OwnRejects(validator.rejects, shard, shards, table.rows_per_slot)
        reading = Validator(len(table.classes), validator.on_bad, rejects=rejects)
        super().__init__(replace(table, validator=reading))
        self.shard, self.shards = shard, shards

    def named(self) -> Iterator[tuple[Samples, list[str] | None]]:
        """Yield samples of this shard, and the ids of their rows as text if there are any."""
        table, first = self.table, self.offset * self.shards + self.shard
        if table.grouped:
            rest = table.in_random_order(first)
        else:
            rest = table.named(table.rows_per_slot, table.validator, first)
        for samples, names in islice(rest, 0, None, self.shards):
            self.offset += 1
            yield samples, names if table.schema.id else None
