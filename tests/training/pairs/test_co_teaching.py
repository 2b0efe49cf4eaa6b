"""Co-teaching against the authors' algorithm, one number at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator

from tamis.data import Samples
from tamis.losses import cross_entropy
from tamis.models import logistic, start
from tamis.training.pairs import CoTeaching
from tamis.training.pairs.co_teaching import KeepRate

RATE = 0.5


def authors_slot(models, batch, keep: float) -> set[int]:
    """Do the inner loop of algorithm 1 for a batch of (row, x, y); return what was learned from."""
    count = int(keep * len(batch))
    picks = []
    for model in models:
        ranked = sorted(batch, key=lambda row: model.loss(row[1], row[2]))
        picks.append(ranked[:count])
    learned = set()
    for model, others in zip(models, reversed(picks), strict=True):
        gradients = [model.gradient(x, y) for _, x, y in others]
        model.step(RATE, [x for _, x, _ in others], gradients)
        learned |= {row for row, _, _ in others}
    return learned


@pytest.mark.parametrize("batch_size", [20, 300])
def test_slots_are_the_authors(blobs: Samples, make_pair, plain, batch_size: int) -> None:
    exact = replace(blobs, inputs=blobs.inputs.double())
    models = tuple(start(logistic, (2,), 3, seed).double() for seed in (0, 1))
    mine = [plain(model) for model in models]
    pair = make_pair(
        CoTeaching, models=models, rate=RATE, noise_rate=0.4, ramp=4, batch=batch_size, seed=3
    )
    rng = Generator().manual_seed(3)
    exchanged = 0
    for number in range(8):
        rows = torch.randperm(300, generator=rng)[:batch_size]
        batch = [(int(r), exact.inputs[r].tolist(), int(exact.labels[r])) for r in rows]
        keep = 1 - 0.4 * min(number / 4, 1)
        learned = authors_slot(mine, batch, keep)
        slot = pair.step(exact if number == 0 else None)
        assert set(slot.ids.tolist()) == learned
        exchanged += len(learned) - int(keep * batch_size)
    assert exchanged > 0  # else it would not show who picks for whom
    for ours, theirs in zip(models, mine, strict=True):
        numbers = torch.cat([part.flatten() for part in ours.parameters()]).tolist()
        assert numbers == pytest.approx(theirs.numbers(), abs=1e-9)


def test_each_learns_from_what_the_other_picks(blobs: Samples, make_pair) -> None:
    pair = make_pair(CoTeaching, noise_rate=0.5, ramp=1, batch=100)
    pair.step(blobs)
    rng = Generator()
    rng.set_state(pair.generator.get_state())
    batch = blobs[torch.randperm(300, generator=rng)[:100]]
    losses = (cross_entropy(one.model(batch.inputs), batch.labels) for one in pair.both)
    by_first, by_second = (rows_of(batch.inputs[loss.argsort()[:50]]) for loss in losses)
    learned = []

    def spy(inputs, targets, classes, generator):
        learned.append(rows_of(inputs))
        return inputs, targets

    pair.augment = spy
    pair.step()
    assert learned == [by_second, by_first]
    assert by_first != by_second


def rows_of(inputs: torch.Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in inputs.tolist()}


def test_a_loss_that_is_not_a_number_counts_as_the_largest(blobs: Samples, make_pair) -> None:
    def criterion(logits, targets):
        return cross_entropy(logits, targets).masked_fill(targets == 2, torch.nan)

    pair = make_pair(CoTeaching, noise_rate=0.6, ramp=1, k=16, criterion=criterion)
    pair.slots = 1
    for slot in pair.run([blobs] + [None] * 20):
        assert slot.class_picks[2] == 0
        assert slot.class_picks.sum() >= 16


@pytest.mark.parametrize("noise_rate", [0.0, 0.1, 0.3, 0.45, 0.5, 0.7, 0.9, 0.99])
def test_in_the_end_k_rows_are_kept(noise_rate: float) -> None:
    keep = KeepRate(noise_rate, ramp=10)
    for k in range(1, 200):
        assert keep.count(keep.batch(k), 10) == k
        assert keep.count(keep.batch(k), 0) == keep.batch(k)
        assert keep.batch(k) == 1 or keep.count(keep.batch(k) - 1, 10) <= k
    assert keep.count(1, 10) == 1


def test_with_too_low_a_noise_rate_it_learns_from_more_wrong_rows(
    blobs: Samples, make_pair
) -> None:
    purity = {}
    for noise_rate in (0.0, 0.4):
        pair = make_pair(CoTeaching, noise_rate=noise_rate, ramp=10, k=30)
        slots = list(pair.run([blobs] + [None] * 99))[50:]
        purity[noise_rate] = sum(slot.purity for slot in slots) / len(slots)
    assert purity[0.0] == pytest.approx(0.7, abs=0.05)
    assert purity[0.4] > 0.95


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"noise_rate": 1.0}, "noise rate"),
        ({"noise_rate": -0.1}, "noise rate"),
        ({"ramp": 0}, "ramp"),
    ],
)
def test_wrong_settings_get_a_sentence(make_pair, settings: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_pair(CoTeaching, **settings)
