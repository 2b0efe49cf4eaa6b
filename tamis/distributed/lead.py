"""The first rank of a run: a trainer and a stream over all ranks, as a `TrainingRun` needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import WaitingRoom
from tamis.checkpoint import Checkpoints, NotSavedError, Restored
from tamis.data import NO_SAMPLES, Samples, Slot, concat
from tamis.distributed.member import Member
from tamis.distributed.wire import Message, unpack_rows
from tamis.model_view import Average, ModelView
from tamis.monitoring import Accuracy
from tamis.noise import JointLabels, Tracker
from tamis.review.scorer import MOST_HELD
from tamis.selectors import Selector
from tamis.sources import Validator

PART = 4096
"""Rows held that the first rank gets at once, of all shards."""


class LeadTrainer:
    """The trainer of a run over ranks, on the first of them: what it does, it orders of all.

    `held` returns up to 10,000 of the rows held, spread over all shards; `held_parts` yields all
    of them, some at a time. `validator` has the rejected rows of all ranks.
    """

    annotators: JointLabels | None = None
    waiting: WaitingRoom | None = None

    def __init__(self, member: Member, validator: Validator) -> None:
        self.member = member
        self.validator = validator
        self.trainer = member.trainer
        self.selector: Selector = self.trainer.selector
        self.tracker: Tracker | None = self.trainer.tracker
        self.model: nn.Module = self.trainer.model
        self.optimizer: Optimizer = self.trainer.optimizer
        self.average: Average | None = self.trainer.average
        self.seed = self.trainer.seed
        self.grown = 0
        self.changed: list[int] = []
        self.joined: Samples = NO_SAMPLES
        self.arrived: Samples | None = None
        """The rows that were read, and are to be trained on in the next slot."""

    @property
    def slots(self) -> int:
        """Slots so far."""
        return self.trainer.slots

    @property
    def averaged(self) -> ModelView:
        """The model with averaged weights, where an average is kept."""
        return self.trainer.averaged

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.trainer.device

    @property
    def skipped_steps(self) -> int:
        """Steps that were not taken, since the start."""
        return self.trainer.skipped_steps

    @property
    def held_count(self) -> int:
        """Number of rows held on all ranks in the last slot."""
        return self.trainer.pool.held

    @property
    def kept_count(self) -> int:
        """Number of rows held on all ranks in the last slot."""
        return self.held_count

    def order(self, name: str, content: Any = None, **tensors: Tensor) -> list[Message]:
        """Order something of all ranks, and return their answers, if it has any."""
        message = Message(content, tensors)
        self.member.orders.give(name, None if content is None and not tensors else message)
        mine = self.member.do(name, message)
        return [] if mine is None else self.member.orders.answer(mine)

    def step(self, item: Any = None) -> Slot:
        """Do one slot with the rows that were read, of which `item` are those to be trained on."""
        corrected: dict[str, Tensor] = {}
        if self.arrived is not None and isinstance(item, Samples):
            corrected = corrections_of(self.arrived, item)
        self.arrived = None
        message = Message(None, corrected)
        self.member.orders.give("step", message if corrected else None)
        slot: Slot = self.member.step(corrected)
        return slot

    def held(self) -> Samples:
        """Return the rows held, or, of many, every second, third, and so on."""
        step = max(1, -(-self.held_count // MOST_HELD))
        return joined(self.order("held", [0, None, step]))

    def held_parts(self) -> Iterator[Samples]:
        """Yield all rows held, some of every shard at a time."""
        size = max(1, PART // self.trainer.pool.shards)
        for start in range(0, max(1, self.held_count), size):
            found = joined(self.order("held", [start, start + size, 1]))
            if not len(found):
                return
            yield found

    def kept_ids(self) -> list[int]:
        """Return the ids of the rows held on all ranks."""
        answers = self.order("ids")
        return list(chain.from_iterable(answer.tensors["ids"].tolist() for answer in answers))

    def on_any_rank(self, flag: bool) -> bool:
        """Return the flag: only the first rank reads decisions."""
        return flag

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held on any rank; return how many have changed."""
        if not len(ids):
            return 0
        self.member.orders.give("relabel", Message(None, {"ids": ids, "labels": labels}))
        return self.trainer.relabel(ids, labels)

    def remove(self, ids: Tensor) -> int:
        """Remove rows held on any rank; return how many."""
        if not len(ids):
            return 0
        self.member.orders.give("remove", Message(None, {"ids": ids}))
        return self.trainer.remove(ids)

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Pass on which rows came with a right label."""
        self.order("audit", ids=ids, right=right)

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        return self.trainer.best_model()

    def accuracy(self, inputs: Any, labels: Any) -> Accuracy:
        """Return the share of labels that the model predicts, and that its average does."""
        return self.trainer.accuracy(inputs, labels)

    def settings(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on and that does not change."""
        return self.trainer.settings()

    def write_rejects(self, answers: list[Message]) -> None:
        """Write the rows that ranks have rejected."""
        for answer in answers:
            for lines in answer.content:
                for line in lines:
                    self.validator.rejects.add(*line)

    def close(self) -> None:
        """End the run on all ranks."""
        self.member.orders.give("end")
        self.member.close()


class LeadCheckpoints:
    """Checkpoints of a run over ranks, as a `TrainingRun` saves and restores them."""

    def __init__(self, lead: LeadTrainer) -> None:
        self.lead = lead
        self.shared = lead.member.checkpoints
        self.folder = self.shared.folder
        self.failed = 0
        self.damaged: dict[int, str] = {}

    def save(self, run: Any, offset: Any = None, others: Mapping[str, object] | None = None) -> int:
        """Save a checkpoint on all ranks, and return its slot once it is safe."""
        self.lead.write_rejects(self.lead.order("drain"))
        self.lead.member.orders.give("save")
        try:
            self.lead.member.save(self._parts(others))
        except NotSavedError:
            self.failed += 1
            raise
        return self.lead.slots

    def load(
        self,
        run: Any,
        others: Mapping[str, object] | None = None,
        allow_mismatch: bool = False,
    ) -> Restored:
        """Restore the newest checkpoint that all ranks can read."""
        self.lead.member.orders.give("load", Message(allow_mismatch, {}))
        self.lead.member.load(allow_mismatch, self._parts(others))
        return Restored(self.lead.slots, self.lead.slots, self.lead.slots)

    def generations(self) -> list[int]:
        """List the slots that there are checkpoints of."""
        return self.shared.slots()

    def clear(self) -> None:
        """Remove all checkpoints, and those of a run of one process."""
        self.shared.clear()
        Checkpoints(self.folder).clear()

    def _parts(self, others: Mapping[str, object] | None) -> dict[str, object]:
        return {**(others or {}), "rejects": self.lead.validator.rejects}


def joined(answers: list[Message]) -> Samples:
    """Return the rows of all shards, in the order of the shards."""
    found = list(unpack_rows(answers).values())
    return concat(found) if found else NO_SAMPLES


def corrections_of(arrived: Samples, item: Samples) -> dict[str, Tensor]:
    """Return what became of rows: ids and new labels of some, and ids of those dropped."""
    found: dict[str, Tensor] = {}
    kept = torch.isin(arrived.ids, item.ids)
    if not kept.all():
        found["dropped"] = arrived.ids[~kept]
    changed = arrived.labels[kept] != item.labels
    if changed.any():
        found |= {"ids": item.ids[changed], "labels": item.labels[changed]}
    return found
