"""The noise adaptation layer against its equations, and that it learns."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.losses import Forward, NoiseAdaptation, even_confusion


def test_it_is_the_entropy_behind_a_softmax_of_weights(logits: Tensor, labels: Tensor) -> None:
    layer = NoiseAdaptation(even_confusion(4, 0.6).double())
    with torch.no_grad():
        layer.weight += torch.linspace(-1, 2, 16, dtype=torch.float64).reshape(4, 4)
    weights = layer.weight.tolist()
    wanted = []
    for z, label in zip(logits.tolist(), labels.tolist(), strict=True):
        total = sum(math.exp(one) for one in z)
        given = sum(
            math.exp(z[true]) / total
            * math.exp(weights[true][label]) / sum(math.exp(w) for w in weights[true])
            for true in range(4)
        )  # fmt: skip
        wanted.append(-math.log(given))
    torch.testing.assert_close(layer(logits, labels).detach(), torch.tensor(wanted).double())


def test_it_starts_from_the_confusion_given(logits: Tensor, labels: Tensor, shares: Tensor) -> None:
    confusion = even_confusion(4, 0.7).double()
    layer = NoiseAdaptation(confusion)
    torch.testing.assert_close(layer.matrix().detach(), confusion)
    for targets in (labels, shares):
        torch.testing.assert_close(
            layer(logits, targets).detach(), Forward(confusion)(logits, targets)
        )


def test_what_is_never_given_can_still_be_learned(logits: Tensor, labels: Tensor) -> None:
    layer = NoiseAdaptation(torch.eye(4).double())
    assert layer.weight.isfinite().all()
    torch.testing.assert_close(layer.matrix().detach(), torch.eye(4).double(), atol=1e-3, rtol=0)
    layer(logits, labels).sum().backward()
    assert layer.weight.grad.isfinite().all()
    assert (layer.weight.grad != 0).all()


def test_a_confusion_given_is_not_tied_to_the_layer() -> None:
    confusion = even_confusion(3, 0.5)
    before = confusion.clone()
    layer = NoiseAdaptation(confusion)
    with torch.no_grad():
        layer.weight.zero_()
    assert torch.equal(confusion, before)


def test_it_learns_the_confusion_beside_a_model_that_is_right(
    confusion: Tensor, generator: Generator
) -> None:
    layer = NoiseAdaptation(even_confusion(4, 0.9))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(300):
        classes = torch.randint(4, (128,), generator=generator)
        labels = torch.multinomial(confusion[classes], 1, generator=generator)[:, 0]
        optimizer.zero_grad()
        layer(20 * nn.functional.one_hot(classes, 4).float(), labels).mean().backward()
        optimizer.step()
    assert (layer.matrix() - confusion).abs().max() < 0.08


def test_saved_and_loaded(logits: Tensor, labels: Tensor) -> None:
    one, other = NoiseAdaptation(even_confusion(4, 0.9)), NoiseAdaptation(even_confusion(4, 0.5))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(logits, labels), other(logits, labels))


def test_what_does_not_fit_is_refused(logits: Tensor, labels: Tensor) -> None:
    with pytest.raises(ValueError, match="sums to 1"):
        NoiseAdaptation(torch.ones(3, 3))
    with pytest.raises(ValueError, match="over 3 classes, the logits 4"):
        NoiseAdaptation(torch.eye(3))(logits, labels)
