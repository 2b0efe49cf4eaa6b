"""ILL over two views against the authors' terms, and that the model and the confusion learn."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tamis import Growing, Naive, Trainer
from tamis.data import Samples
from tamis.losses import ILL, NoiseAdaptation, even_confusion
from tamis.training.augment import TwoViews


def authors_loss(weak: Tensor, strong: Tensor, labels: Tensor, confusion: Tensor) -> Tensor:
    """Sum the four terms, a row at a time; only the first lets the confusion learn."""
    fixed, total, mean = confusion.detach(), weak.new_zeros(()), weak.new_zeros(4)
    for one, other, label in zip(weak.softmax(1), strong.softmax(1), labels, strict=True):
        total = total - (one @ confusion)[label].log()  # the given label, behind the confusion
        by_weak = one.detach() * fixed[:, label]
        by_strong = other * fixed[:, label]
        by_weak, by_strong = by_weak / by_weak.sum(), by_strong / by_strong.sum()
        total = total - (by_weak * by_strong.log()).sum()  # the posterior of the true class
        total = total - (one.detach() * other.log()).sum()  # consistency
        mean = mean + one / len(labels)
    return total / len(labels) - 0.1 * (mean.log() / 4).sum()


@pytest.fixture
def criterion() -> ILL:
    layer = ILL(even_confusion(4, 0.7).double(), views=2).double()
    with torch.no_grad():
        layer.weight += torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4)
    return layer


def test_the_mean_and_its_gradients_are_the_authors(
    criterion: ILL, logits: Tensor, labels: Tensor
) -> None:
    views = torch.cat([logits, logits.flip(0) * 0.7]).requires_grad_()
    both = torch.cat([labels, labels])
    ours = criterion(views, both).mean()
    theirs = authors_loss(*views.chunk(2), labels, criterion.matrix())
    torch.testing.assert_close(ours, theirs)
    parts = (views, criterion.weight)
    for mine, wanted in zip(
        torch.autograd.grad(ours, parts), torch.autograd.grad(theirs, parts), strict=True
    ):
        torch.testing.assert_close(mine, wanted)
    shares = nn.functional.one_hot(both, 4).double()
    torch.testing.assert_close(criterion(views, shares), criterion(views, both))


def test_over_two_equal_views_only_the_first_term_has_a_gradient(
    logits: Tensor, labels: Tensor
) -> None:
    at, confusion = logits.clone().requires_grad_(), even_confusion(4, 0.7).double()
    twice = ILL(confusion, views=2, balance=0.0)(torch.cat([at, at]), torch.cat([labels, labels]))
    once = NoiseAdaptation(confusion)(at, labels)
    ours, plain = (torch.autograd.grad(loss.mean(), at)[0] for loss in (twice, once))
    torch.testing.assert_close(ours, plain)


def test_a_selector_sees_one_loss_a_row(criterion: ILL, logits: Tensor, labels: Tensor) -> None:
    with torch.no_grad():
        seen = criterion(logits[:5], labels[:5])
    assert seen.shape == (5,)
    with pytest.raises(ValueError, match="even in number"):
        criterion(logits[:5], labels[:5])
    with pytest.raises(ValueError, match="1 or 2 views"):
        ILL(even_confusion(4, 0.7), views=3)


def test_the_confusion_is_learned(blobs: Samples) -> None:
    """Three labels in ten are given as the class after their own."""
    model, layer = nn.Linear(2, 3), ILL(even_confusion(3, 0.9), views=2)
    groups = [{"params": model.parameters()}, {"params": layer.parameters(), "lr": 3.0}]
    shaken = TwoViews(lambda x, y, _, g: (x + 0.3 * torch.randn(x.shape, generator=g), y))
    trainer = Trainer(
        model, torch.optim.SGD(groups, 0.3), Naive(), Growing(300), augment=shaken, criterion=layer
    )
    for item in [blobs] + [None] * 400:
        trainer.step(item)
    matrix, wanted = layer.matrix().detach(), 0.7 * torch.eye(3) + 0.3 * torch.eye(3).roll(1, 1)
    assert (matrix - wanted).abs().max() < 0.15
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    assert trainer.accuracy(blobs.inputs, right).ema > 0.97
    assert math.isclose(matrix.sum().item(), 3, rel_tol=1e-5)
