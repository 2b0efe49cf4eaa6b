"""A rank of a run: does what the first rank orders, with the shards that are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from tamis.checkpoint import NotSavedError, RefusedError
from tamis.data import Samples, match_ids
from tamis.distributed.orders import Orders
from tamis.distributed.reading import Item, ShardReader
from tamis.distributed.saving import RankCheckpoints
from tamis.distributed.trainer import RankTrainer
from tamis.distributed.wire import Message, pack_rows
from tamis.errors import TamisError
from tamis.review.live import MOST_A_SLOT
from tamis.training.holding import pass_audit

NOTHING = Message(None, {})


class Member:
    """One rank of a run. `readers` are those of its own shards, in the order of `trainer.own`."""

    def __init__(
        self,
        orders: Orders,
        trainer: RankTrainer,
        readers: Sequence[ShardReader],
        checkpoints: RankCheckpoints,
    ) -> None:
        self.orders = orders
        self.trainer = trainer
        self.readers = readers
        self.checkpoints = checkpoints
        self.looked_at = max(1, MOST_A_SLOT // trainer.pool.shards)

    def follow(self) -> None:
        """Do what the first rank orders, until it ends the run."""
        while True:
            name, message = self.orders.receive()
            if name == "end":
                return
            with suppress(NotSavedError, RefusedError):  # the first rank raises them, too
                if (answer := self.do(name, message)) is not None:
                    self.orders.answer(answer)

    def do(self, name: str, message: Message) -> Message | None:
        """Do what an order names, and return the answer, if it has one."""
        content, tensors = message
        if name == "read":
            return self._read(float(content))
        if name == "step":
            self.step(tensors)
        elif name == "held":
            return self._held(*content)
        elif name == "ids":
            return Message(None, {"ids": self.trainer.held().ids})
        elif name == "relabel":
            self.trainer.relabel(tensors["ids"], tensors["labels"])
        elif name == "remove":
            self.trainer.remove(tensors["ids"])
        elif name == "audit":
            parts = (self.trainer.tracker, self.trainer.selector)
            pass_audit(parts, tensors["ids"], tensors["right"])
        elif name == "drain":
            return Message([reader.drain() for reader in self.readers], {})
        elif name == "save":
            self.save()
        elif name == "load":
            self.load(bool(content))
        elif name == "acknowledge":
            for reader in self.readers:
                reader.acknowledge()
        else:
            return Message([reader.stats() for reader in self.readers], {})
        return None

    def step(self, corrected: Mapping[str, Tensor]) -> Any:
        """Train a slot on what was read, with the labels that people gave."""
        items = [reader.take() for reader in self.readers]
        return self.trainer.step(*(item and correct(item.samples, corrected) for item in items))

    def save(self, others: Mapping[str, object] | None = None) -> None:
        """Save a checkpoint; `others` are parts that the first rank saves."""
        offsets = [reader.offset for reader in self.readers]
        self.checkpoints.save(self.trainer, offsets, others)

    def load(self, allow_mismatch: bool, others: Mapping[str, object] | None = None) -> None:
        """Restore the newest checkpoint, and continue all streams where they were."""
        offsets = self.checkpoints.load(self.trainer, allow_mismatch, others)
        for reader, offset in zip(self.readers, offsets, strict=True):
            if offset is not None:
                reader.seek(offset)

    def close(self) -> None:
        """Close all streams."""
        for reader in self.readers:
            reader.close()

    def _read(self, wait: float) -> Message:
        """Return what is next in every shard: ids, labels, and inputs of the first rows."""
        found: list[dict[str, Any]] = []
        tensors: dict[str, Tensor] = {}
        for number, reader in zip(self.trainer.own, self.readers, strict=True):
            about: dict[str, Any] = {"shard": number, "rejects": reader.drain()}
            try:
                item = reader.read(wait)
            except (TamisError, OSError) as error:
                about |= {"error": [type(error).__name__, str(error)]}
                item = None
            about |= {"ended": reader.ended, "idle": reader.idle}
            if item:
                about |= self._describe(item)
                displayed = item.samples[slice(self.looked_at)]
                tensors |= pack_rows(str(number), displayed)
                tensors[f"{number} ids"] = item.samples.ids
                tensors[f"{number} labels"] = item.samples.labels
            found.append(about)
        return Message(found, tensors)

    def _describe(self, item: Item) -> dict[str, Any]:
        ids = item.samples.ids[: self.looked_at].tolist()
        records = {id_: item.records[id_] for id_ in ids if id_ in item.records}
        names = None if item.names is None else list(item.names)
        return {"names": names, "records": list(records.items())}

    def _held(self, start: int, stop: int | None, step: int) -> Message:
        """Return rows held in each shard here."""
        tensors: dict[str, Tensor] = {}
        for shard in self.trainer.shards:
            if len(shard.buffer):
                rows = shard.buffer.pool()[slice(start, stop, step)]
                tensors |= pack_rows(str(shard.number), rows)
        return Message(None, tensors)


def correct(samples: Samples, corrected: Mapping[str, Tensor]) -> Samples:
    """Return rows with their labels corrected, without those that were dropped."""
    if "ids" in corrected:
        labels = samples.labels.clone()
        rows, places = match_ids(samples.ids, corrected["ids"])
        labels[rows] = corrected["labels"][places]
        samples = Samples(**{**samples.columns(), "labels": labels})
    if "dropped" in corrected:
        samples = samples[~torch.isin(samples.ids, corrected["dropped"])]
    return samples
