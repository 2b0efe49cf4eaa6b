"""Any order of taking in, evicting, learning, saving, crashing and restoring.

Beside the trainer there are two models of it: ids and uses in plain Python, and a twin that never
crashes. What was done since the last save is done again, as a source that can be replayed does.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torch import nn

from tamis import Samples, Sliding, Slot, Trainer
from tamis.checkpoint import Checkpoints
from tamis.models import start
from tamis.selectors import AdaptiveK
from tests.support.identical import comparable, identical

CAPACITY = 12


def make_trainer() -> Trainer:
    model = start(lambda *_: nn.Linear(2, 2), (2,), 2, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    return Trainer(model, optimizer, AdaptiveK(batch=8), Sliding(CAPACITY), k=3, window=2)


@dataclass
class Plain:
    """What a trainer with a sliding buffer holds, in plain Python."""

    ids: deque[int] = field(default_factory=lambda: deque(maxlen=CAPACITY))
    uses: Counter[int] = field(default_factory=Counter)
    slots: int = 0

    def take(self, ids: list[int], slot: Slot) -> None:
        self.ids.extend(ids)
        self.uses.update(slot.ids.tolist())
        self.slots += 1


class Crashes(RuleBasedStateMachine):
    """Runs the three side by side."""

    def __init__(self) -> None:
        super().__init__()
        torch.set_num_threads(1)
        self.folder = Path(tempfile.mkdtemp())
        self.trainer, self.twin = make_trainer(), make_trainer()
        self.plain, self.saved = Plain(), Plain()
        self.since: list[Samples | None] = []
        self.arrived = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def do(self, item: Samples | None) -> None:
        """Do a slot with the trainer and its twin."""
        slot, same = self.trainer.step(item), self.twin.step(item)
        assert identical(comparable([slot]), comparable([same]))
        self.plain.take([] if item is None else item.ids.tolist(), slot)
        self.since.append(item)

    @rule(rows=st.integers(1, 2 * CAPACITY), seed=st.integers(0, 99))
    def take_in_and_evict(self, rows: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(2, (rows,), generator=generator)
        inputs = torch.randn(rows, 2, generator=generator) + labels[:, None]
        self.do(Samples.of(inputs, labels, self.arrived))
        self.arrived += rows

    @rule(slots=st.integers(1, 3))
    def select_and_learn(self, slots: int) -> None:
        for _ in range(slots):
            self.do(None)

    @rule()
    def save(self) -> None:
        Checkpoints(self.folder).save(self.trainer, self.trainer.slots)
        self.saved, self.since = copy.deepcopy(self.plain), []

    @rule(damaged=st.booleans())
    def crash_and_restore(self, damaged: bool) -> None:
        """Start again from the disk; a save that was under way has left half of itself."""
        if damaged:
            part = self.folder / "00000099.part"
            part.mkdir(exist_ok=True)
            (part / "state.json").write_text("{")
        self.trainer = make_trainer()
        checkpoints = Checkpoints(self.folder)
        if checkpoints.generations():
            assert checkpoints.load(self.trainer).offset == self.saved.slots
        self.plain = copy.deepcopy(self.saved)
        self.agree()
        again, self.since = self.since, []
        for item in again:
            slot = self.trainer.step(item)
            self.plain.take([] if item is None else item.ids.tolist(), slot)
            self.since.append(item)

    @precondition(lambda self: self.since)
    @rule()
    def crash_twice(self) -> None:
        self.crash_and_restore(damaged=True)
        self.crash_and_restore(damaged=False)

    @invariant()
    def agree(self) -> None:
        assert self.trainer.slots == self.plain.slots
        if len(self.trainer.buffer):
            pool = self.trainer.buffer.pool()
            assert sorted(pool.ids.tolist()) == sorted(self.plain.ids)
            uses = dict(zip(pool.ids.tolist(), pool.uses.tolist(), strict=True))
            assert uses == {row: self.plain.uses[row] for row in self.plain.ids}

    @invariant()
    def twins(self) -> None:
        assert identical(self.trainer.state_dict(), self.twin.state_dict())


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, derandomize=True
)
