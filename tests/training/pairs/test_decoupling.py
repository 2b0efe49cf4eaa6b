"""Decoupling against the authors' algorithm, one number at a time."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Generator

from tamis.data import Samples
from tamis.models import logistic, start
from tamis.training.pairs import Decoupling

RATE = 0.5


def authors_slot(models, batch) -> set[int]:
    """Do algorithm 1 for a batch of (row, x, y); return what was learned from."""
    disagree = [row for row in batch if len({model.predict(row[1]) for model in models}) == 2]
    inputs = [x for _, x, _ in disagree]
    for model in models:
        model.step(RATE, inputs, [model.gradient(x, y) for _, x, y in disagree])
    return {row for row, _, _ in disagree}


@pytest.mark.parametrize("batch_size", [20, 300])
def test_slots_are_the_authors(blobs: Samples, make_pair, plain, batch_size: int) -> None:
    exact = replace(blobs, inputs=blobs.inputs.double())
    models = tuple(start(logistic, (2,), 3, seed).double() for seed in (0, 1))
    mine = [plain(model) for model in models]
    pair = make_pair(Decoupling, models=models, rate=RATE, k=batch_size, batch=batch_size, seed=3)
    rng = Generator().manual_seed(3)
    sizes = set()
    for number in range(8):
        rows = torch.randperm(300, generator=rng)[:batch_size]
        batch = [(int(r), exact.inputs[r].tolist(), int(exact.labels[r])) for r in rows]
        learned = authors_slot(mine, batch)
        slot = pair.step(exact if number == 0 else None)
        assert set(slot.ids.tolist()) == learned
        sizes.add(len(learned))
    assert 0 < max(sizes) < batch_size
    for ours, theirs in zip(models, mine, strict=True):
        numbers = torch.cat([part.flatten() for part in ours.parameters()]).tolist()
        assert numbers == pytest.approx(theirs.numbers(), abs=1e-9)


def test_without_disagreement_nothing_happens(blobs: Samples, make_pair) -> None:
    model = start(logistic, (2,), 3, 0)
    surer = copy.deepcopy(model)
    with torch.no_grad():
        for weight in surer.parameters():
            weight *= 2  # other probabilities, the same predictions
    before = [copy.deepcopy(one.state_dict()) for one in (model, surer)]
    pair = make_pair(Decoupling, models=(model, surer))
    slots = list(pair.run([blobs, None, None]))
    assert [(slot.loss, slot.purity, len(slot.ids)) for slot in slots] == [(None, None, 0)] * 3
    assert pair.buffer.pool().uses.sum() == 0
    for one, weights in zip((model, surer), before, strict=True):
        assert all(torch.equal(one.state_dict()[name], weights[name]) for name in weights)
    assert pair.average.steps == pair.second.average.steps == 0


def test_at_most_k_rows_are_learned_from(blobs: Samples, make_pair) -> None:
    model, mirror = (start(logistic, (2,), 3, 0) for _ in range(2))
    with torch.no_grad():
        for ours, theirs in zip(model.parameters(), mirror.parameters(), strict=True):
            theirs.copy_(-ours)  # they disagree about every row
    pair = make_pair(Decoupling, models=(model, mirror), k=5)
    assert pair.batch == 20
    assert len(pair.step(blobs).ids) == 5


def test_warm_up_learns_from_any_row(blobs: Samples, make_pair) -> None:
    pair = make_pair(Decoupling, warm_up=30)
    slots = list(pair.run([blobs] + [None] * 59))
    assert [slot.warm_up for slot in slots] == [True] * 30 + [False] * 30
    assert {len(slot.ids) for slot in slots[:30]} == {8}
    assert min(len(slot.ids) for slot in slots[30:]) < 8


def test_two_models_that_agree_on_one_class_stall(make_pair) -> None:
    """The method's own weakness, described on its page: after it, only new rows can help."""
    one_class = Samples.of(torch.eye(2), torch.tensor([1, 1]))
    pair = make_pair(Decoupling, warm_up=50)
    list(pair.run([one_class] + [None] * 49))
    assert [len(slot.ids) for slot in pair.run([None] * 10)] == [0] * 10
