"""Trainers of many classes: nothing that they allocate or save grows with the square of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tamis import Alarm, Plausible, Samples, Sliding, Trainer
from tamis.models import mlp, start
from tamis.review import LabelScorer
from tamis.sources import Validator
from tamis.training.run import TrainingRun
from tests.support.memory import bytes_of

WIDTH, ROWS = 8, 20


def slots(classes: int, count: int, first: int = 0) -> list[Samples]:
    found = []
    for slot in range(first, first + count):
        generator = Generator().manual_seed(slot)
        labels = torch.randint(classes, (ROWS,), generator=generator)
        inputs = torch.randn(ROWS, WIDTH, generator=generator)
        found.append(Samples.of(inputs, labels, slot * ROWS))
    return found


def build(classes: int) -> Trainer:
    model = start(mlp, (WIDTH,), classes, 0)
    rule = torch.optim.SGD(model.parameters(), 0.1)
    return Trainer(
        model,
        rule,
        Plausible(),
        Sliding(300),
        validator=Validator(classes),
        tracker=Alarm(classes, half_life=40),
    )


def test_saved_and_resumed_equals_unbroken() -> None:
    unbroken, resumed = build(200), build(200)
    for samples in slots(200, 12):
        unbroken.step(samples)
    resumed.load_state_dict(unbroken.state_dict())
    for samples in slots(200, 8, first=12):
        unbroken.step(samples)
        resumed.step(samples)
    for ours, theirs in zip(resumed.model.parameters(), unbroken.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert resumed.tracker.estimate() == unbroken.tracker.estimate()


class Largest(TorchDispatchMode):
    """Records the most bytes of memory that the result of an operation has."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for part in found if isinstance(found, tuple | list) else (found,):
            if isinstance(part, Tensor) and not part.is_sparse:
                self.most = max(self.most, part.untyped_storage().nbytes())
        return found


@pytest.mark.slow
def test_nothing_allocated_grows_with_the_square_of_classes(tmp_path: Path) -> None:
    """A matrix of 3,000 x 3,000 takes 36 MB or more, one of 512 random features by classes 12."""
    classes, largest = 3000, Largest()
    trainer = build(classes)
    with largest:
        for samples in slots(classes, 25):
            trainer.step(samples)
        trainer.relabel(trainer.held().ids[:5], torch.arange(5))
        trainer.tracker.estimate()
        trainer.tracker.confusion()
        LabelScorer(trainer.averaged, trainer.held()).scores(trainer.held())
    assert largest.most < classes * classes * 2


@pytest.mark.slow
def test_checkpoints_grow_with_classes_not_with_their_square(tmp_path: Path) -> None:
    saved, states = {}, {}
    for classes in (500, 1000, 2000):
        folder = tmp_path / str(classes)
        trainer = build(classes)
        with TrainingRun(folder, trainer) as run:
            for _ in run.train(slots(classes, 60)):
                pass
        newest = max((folder / "checkpoints").iterdir())
        saved[classes] = sum(file.stat().st_size for file in newest.iterdir())
        states[classes] = bytes_of([trainer.tracker.state_dict(), trainer.selector.state_dict()])
    for sizes in (saved, states):
        assert sizes[2000] - sizes[1000] < 2.2 * (sizes[1000] - sizes[500])
    assert states[2000] < 2 * 2000 * 2000
