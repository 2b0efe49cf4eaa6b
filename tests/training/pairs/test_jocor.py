"""JoCoR against the authors' algorithm, one number at a time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, nn

from tamis.data import Samples
from tamis.losses import cross_entropy
from tamis.models import logistic, start
from tamis.training.pairs import JoCoR
from tamis.training.pairs.jocor import divergence
from tamis.training.step import descend

RATE, STRENGTH = 0.5, 0.3


def kl(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def joint_loss(first, second, x: list[float], y: int) -> float:
    p, q = first.probabilities(x), second.probabilities(x)
    supervised = first.loss(x, y) + second.loss(x, y)
    return (1 - STRENGTH) * supervised + STRENGTH * (kl(p, q) + kl(q, p))


def joint_gradient(own, other, x: list[float], y: int) -> list[float]:
    """Return that of the joint loss in the logits of one model, by hand."""
    p, q = own.probabilities(x), other.probabilities(x)
    pull = [a * (math.log(a / b) - kl(p, q)) + a - b for a, b in zip(p, q, strict=True)]
    supervised = own.gradient(x, y)
    return [(1 - STRENGTH) * s + STRENGTH * c for s, c in zip(supervised, pull, strict=True)]


def authors_slot(models, batch, keep: float) -> tuple[set[int], float]:
    count = int(keep * len(batch))
    picks = sorted(batch, key=lambda row: joint_loss(*models, *row[1:]))[:count]
    loss = sum(joint_loss(*models, *row[1:]) for row in picks) / count
    gradients = [
        [joint_gradient(own, other, x, y) for _, x, y in picks]
        for own, other in (models, reversed(models))
    ]
    for model, gradient in zip(models, gradients, strict=True):
        model.step(RATE, [x for _, x, _ in picks], gradient)
    return {row for row, _, _ in picks}, loss


@pytest.mark.parametrize("batch_size", [20, 300])
def test_slots_are_the_authors(blobs: Samples, make_pair, plain, batch_size: int) -> None:
    exact = replace(blobs, inputs=blobs.inputs.double())
    models = tuple(start(logistic, (2,), 3, seed).double() for seed in (0, 1))
    mine = [plain(model) for model in models]
    pair = make_pair(
        JoCoR, models=models, rate=RATE, noise_rate=0.4, ramp=4, batch=batch_size, seed=3,
        strength=STRENGTH,
    )  # fmt: skip
    rng = Generator().manual_seed(3)
    for number in range(8):
        rows = torch.randperm(300, generator=rng)[:batch_size]
        batch = [(int(r), exact.inputs[r].tolist(), int(exact.labels[r])) for r in rows]
        learned, loss = authors_slot(mine, batch, 1 - 0.4 * min(number / 4, 1))
        slot = pair.step(exact if number == 0 else None)
        assert set(slot.ids.tolist()) == learned
        assert slot.loss == pytest.approx(loss, abs=1e-6)
    for ours, theirs in zip(models, mine, strict=True):
        numbers = torch.cat([part.flatten() for part in ours.parameters()]).tolist()
        assert numbers == pytest.approx(theirs.numbers(), abs=1e-9)


def test_divergence_is_both_kullback_leiblers(generator: Generator) -> None:
    first, second = torch.randn(2, 10, 4, generator=generator, dtype=torch.float64)
    p, q = first.softmax(dim=1).tolist(), second.softmax(dim=1).tolist()
    expected = [kl(a, b) + kl(b, a) for a, b in zip(p, q, strict=True)]
    assert divergence(first, second).tolist() == pytest.approx(expected)
    assert divergence(first, first).tolist() == [0] * 10


def test_the_two_come_to_agree(blobs: Samples, make_pair) -> None:
    apart = {}
    for strength in (0.0, 0.5):
        pair = make_pair(JoCoR, strength=strength, rate=0.1)
        list(pair.run([blobs] + [None] * 200))
        apart[strength] = divergence(*(one.now.logits(blobs.inputs) for one in pair.both)).mean()
    assert apart[0.5] < 0.5 * apart[0.0]


def test_a_loss_that_is_not_a_number_counts_as_the_largest(blobs: Samples, make_pair) -> None:
    def criterion(logits, targets):
        return cross_entropy(logits, targets).masked_fill(targets == 2, torch.nan)

    pair = make_pair(JoCoR, noise_rate=0.6, ramp=1, k=16, criterion=criterion)
    pair.slots = 1
    for slot in pair.run([blobs] + [None] * 20):
        assert slot.class_picks[2] == 0
        assert slot.class_picks.sum() == 16


def test_a_non_finite_loss_moves_no_weight_and_leaves_no_gradient() -> None:
    models = [nn.Linear(1, 1) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), 1, momentum=0.9) for model in models]
    inputs = torch.ones(1, 1)

    def loss() -> torch.Tensor:
        return sum(model(inputs).sum() for model in models)

    descend(loss(), *optimizers)
    before = [weight.clone() for model in models for weight in model.parameters()]
    descend(loss() * torch.inf, *optimizers)
    after = [weight for model in models for weight in model.parameters()]
    assert all(map(torch.equal, before, after))
    assert all(weight.grad is None for weight in after)
    descend(loss(), *optimizers)
    assert not any(map(torch.equal, before, after))


@pytest.mark.parametrize("strength", [-0.1, 1.1])
def test_a_strength_is_a_share(make_pair, strength: float) -> None:
    with pytest.raises(ValueError, match="strength"):
        make_pair(JoCoR, strength=strength)
