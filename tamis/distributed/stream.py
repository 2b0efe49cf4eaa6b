"""The stream of a run over ranks, on the first of them: what all shards have next, as one item."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tamis.data import Samples, concat
from tamis.distributed.lead import LeadTrainer
from tamis.distributed.wire import Message, unpack_rows
from tamis.sources import ReplacedError, SourceError, SourceStats, Table, TooManyBadError
from tamis.training.positions import Named

PAUSE = 0.2
"""Seconds that streams are waited for where none has anything."""
ERRORS = {kind.__name__: kind for kind in (ReplacedError, SourceError, TooManyBadError)}


class LeadStream:
    """All shards of a stream as one. The offset is that of the checkpoint, which has one for each.

    Of rows that arrive, ids and labels are here, and the inputs of the first of each shard: about
    as many as live suspects look at. `here` returns which those are, and `arrived` has their
    records, where there are any.
    """

    def __init__(self, lead: LeadTrainer) -> None:
        self.lead = lead
        self.offset: Any = None
        self.arrived: dict[int, Mapping[str, Any]] = {}
        self._displayed = torch.empty(0, dtype=torch.long)
        self._closed = False
        self._parent = os.getppid()

    def seek(self, offset: Any) -> None:
        """Do nothing: every rank continues its own shards."""

    def acknowledge(self) -> None:
        """Release, in all shards, what was saved."""
        self.lead.order("acknowledge")

    def close(self) -> None:
        """End before the next slot."""
        self._closed = True

    def here(self, samples: Samples) -> Tensor:
        """Return which rows have their inputs here."""
        return torch.isin(samples.ids, self._displayed)

    def named(self) -> Iterator[Named]:
        """Yield what arrived in all shards, and the ids of the rows as text if they have any."""
        wait = 0.0
        while not self._closed:
            answers = self.lead.order("read", wait)
            shards = [shard for answer in answers for shard in answer.content]
            self.lead.write_rejects([Message([s["rejects"] for s in shards], {})])
            for shard in shards:
                if "error" in shard:
                    kind, text = shard["error"]
                    raise ERRORS.get(kind, SourceError)(text)
            if os.getppid() != self._parent:  # whoever started the ranks is gone
                os.kill(os.getpid(), signal.SIGTERM)
                self._parent = os.getppid()
                continue
            there = ["names" in shard for shard in shards]
            late = any(
                not (read or shard["idle"] or shard["ended"])
                for read, shard in zip(there, shards, strict=True)
            )
            if late or not any(there):
                if not late and all(shard["ended"] for shard in shards):
                    return
                wait = PAUSE
                continue
            wait = 0.0
            yield self._joined(answers, shards)

    def stats(self) -> SourceStats:
        """Return the counts of all shards."""
        found = [one for answer in self.lead.order("stats") for one in answer.content if one]
        seen, bad, dropped, lost = (sum(column) for column in list(zip(*found, strict=True))[:4])
        waiting = [one[4] for one in found]
        behind = None if None in waiting else sum(waiting)
        return SourceStats(seen, seen - bad, bad, 0, dropped, lost, behind, None)

    def _joined(self, answers: list[Message], shards: list[dict[str, Any]]) -> Named:
        """Return the rows of all shards, those first whose inputs are here."""
        displayed = unpack_rows(answers)
        everything = {name: part for answer in answers for name, part in answer.tensors.items()}
        texts: list[str] = []
        later: list[str] = []
        ids, labels = [], []
        self.arrived = {}
        for shard in shards:
            if (number := shard["shard"]) not in displayed:
                continue
            count = len(displayed[number])
            ids.append(everything[f"{number} ids"][count:])
            labels.append(everything[f"{number} labels"][count:])
            names = shard["names"] or list(map(str, everything[f"{number} ids"].tolist()))
            texts += names[:count]
            later += names[count:]
            self.arrived |= {int(row): record for row, record in shard["records"]}
        first = concat(list(displayed.values()))
        self._displayed = first.ids
        rest = torch.cat(ids)
        blank = first.inputs.new_zeros(1, *first.inputs.shape[1:]).expand(
            len(rest), *first.inputs.shape[1:]
        )
        others = Samples(blank, torch.cat(labels), rest, torch.zeros_like(rest))
        self.lead.arrived = concat([first, others]) if len(rest) else first
        named = any(shard.get("names") for shard in shards)
        return self.lead.arrived, [*texts, *later] if named else None


class LeadTable(LeadStream):
    """The shards of a table, any row of which can be read again here."""

    def __init__(self, lead: LeadTrainer, table: Table) -> None:
        super().__init__(lead)
        self.table = table

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.rows

    def records(self, rows: Collection[int]) -> dict[int, dict[str, str]]:
        """Return rows by number as they were written."""
        return self.table.records(rows)
