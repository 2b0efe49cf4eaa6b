"""Rows held back: which, how often they are picked, and what they show."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tamis import Growing, Replay, Trainer
from tamis.models import mlp, start
from tamis.selectors import Plausible
from tamis.selectors.plausible import Reserve
from tamis.streams import Constant, Symmetric, digits


@pytest.mark.parametrize("step", [1, 7, 16, 1000])
def test_one_row_in_so_many_is_held_back_whatever_the_ids(step: int) -> None:
    ids = step * torch.arange(8000)
    assert Reserve(one_in=8).holds(ids).sum().item() == pytest.approx(1000, abs=20)
    assert not Reserve(one_in=0).holds(ids).any()


def test_no_id_is_too_large() -> None:
    ids = torch.tensor([2**62 + number for number in range(800)])
    assert Reserve(one_in=8).holds(ids).sum().item() == pytest.approx(100, abs=20)


def test_a_number_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="got -1"):
        Reserve(one_in=-1)


def played(rows: int, slots: int, clean_ratio: float) -> tuple[Trainer, Counter[int]]:
    """Return a trainer that sees the same few rows again and again, and how often it picks each."""
    data, picked = digits(), Counter[int]()
    stream = Replay(
        data.inputs[:rows], data.labels[:rows], Symmetric(10), Constant(clean_ratio),
        slots=1, rows_per_slot=rows, seed=0,
    )  # fmt: skip
    model = start(mlp, (8, 8), 10, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    trainer = Trainer(model, optimizer, Plausible(), Growing(rows), k=32, predict_first=False)
    (first,) = stream
    for slot in range(slots):
        picked.update(trainer.step(None if slot else first).ids.tolist())
    return trainer, picked


def test_a_row_held_back_is_trained_on_once_at_the_most() -> None:
    trainer, picked = played(rows=200, slots=150, clean_ratio=0.7)
    ids = trainer.held().ids
    held_back = set(ids[trainer.selector.reserve.holds(ids)].tolist())
    assert max(picked[row] for row in held_back) == 1
    assert max(picked.values()) > 10


def test_labels_learned_by_heart_are_noticed_and_not_believed() -> None:
    """Where 15% of few labels are right, all others are learned by heart in the end."""
    trainer, _ = played(rows=320, slots=1500, clean_ratio=0.15)
    rule = trainer.selector
    assert rule.agreements.memorising() > 0.5
    assert rule.learned_by_heart() > 0.2
    assert rule.estimate().low < 0.15 + 0.05
