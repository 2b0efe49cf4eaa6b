"""Corrections against the papers' formulas, and that they correct."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tamis.losses import (
    Backward,
    Criterion,
    Forward,
    NoiseAdaptation,
    cross_entropy,
    even_confusion,
    unbiased,
)
from tamis.losses.corrected import invert

CONFUSION = even_confusion(4, 0.6)
each = pytest.mark.parametrize("kind", [Forward, Backward])


def probabilities(logits: list[float]) -> list[float]:
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def forward(logits: list[float], given: int, confusion: list[list[float]]) -> float:
    return -math.log(
        sum(p * confusion[true][given] for true, p in enumerate(probabilities(logits)))
    )


def test_forward_is_theorem_2(
    logits: Tensor, labels: Tensor, shares: Tensor, confusion: Tensor
) -> None:
    table = confusion.tolist()
    wanted = [forward(z, y, table) for z, y in zip(logits.tolist(), labels.tolist(), strict=True)]
    torch.testing.assert_close(Forward(confusion)(logits, labels), torch.tensor(wanted).double())
    wanted = [
        sum(s * forward(z, c, table) for c, s in enumerate(row))
        for z, row in zip(logits.tolist(), shares.tolist(), strict=True)
    ]
    torch.testing.assert_close(Forward(confusion)(logits, shares), torch.tensor(wanted).double())


def test_backward_is_unbiased(logits: Tensor, confusion: Tensor) -> None:
    """Theorem 1: its mean over the labels that a true class is given is the true loss."""
    for true in range(4):
        mean = sum(
            confusion[true, given] * Backward(confusion)(logits, torch.full((12,), given))
            for given in range(4)
        )
        torch.testing.assert_close(mean, cross_entropy(logits, torch.full((12,), true)))


def test_backward_takes_shares_as_a_mean(logits: Tensor, shares: Tensor, confusion: Tensor) -> None:
    criterion = Backward(confusion)
    wanted = sum(shares[:, c] * criterion(logits, torch.full((12,), c)) for c in range(4))
    torch.testing.assert_close(criterion(logits, shares), wanted)


@pytest.mark.parametrize("rates", [(0.3, 0.1), (0.0, 0.4), (0.8, 0.7)])
def test_with_two_classes_backward_is_the_estimator_of_natarajan(
    logits: Tensor, rates: tuple[float, float]
) -> None:
    logits, labels = logits[:, :2], torch.arange(12) % 2
    confusion = torch.tensor([[1 - rates[0], rates[0]], [rates[1], 1 - rates[1]]]).double()
    own_rate, other_rate = torch.tensor(rates).double()[torch.stack([labels, 1 - labels])]
    own, other = cross_entropy(logits, labels), cross_entropy(logits, 1 - labels)
    wanted = torch.stack(
        [
            unbiased(a, b, mine.item(), theirs.item())
            for a, b, mine, theirs in zip(own, other, own_rate, other_rate, strict=True)
        ]
    )
    torch.testing.assert_close(Backward(confusion)(logits, labels), wanted)


def test_natarajans_estimator_has_the_true_loss_for_its_mean() -> None:
    loss, rates = (torch.tensor(0.2), torch.tensor(3.0)), (0.3, 0.1)
    for true in (0, 1):
        other = 1 - true
        kept = unbiased(loss[true], loss[other], rates[true], rates[other])
        flipped = unbiased(loss[other], loss[true], rates[other], rates[true])
        mean = (1 - rates[true]) * kept + rates[true] * flipped
        torch.testing.assert_close(mean, loss[true])


@each
def test_without_confusion_it_is_the_cross_entropy(
    kind, logits: Tensor, labels: Tensor, shares: Tensor
) -> None:
    for targets in (labels, shares):
        for criterion in (kind(torch.eye(4).double()), kind()):
            torch.testing.assert_close(
                criterion(logits, targets), cross_entropy(logits, targets), rtol=1e-5, atol=1e-5
            )


def test_a_sound_confusion_is_inverted_as_it_is(confusion: Tensor) -> None:
    torch.testing.assert_close(invert(confusion, 0.05), torch.linalg.inv(confusion))


def test_random_labels_leave_the_loss_as_it_is() -> None:
    for uniform in (torch.full((4, 4), 0.25), torch.full((1, 1), 1.0)):
        torch.testing.assert_close(invert(uniform, 0.05), torch.eye(len(uniform)))


@pytest.mark.parametrize("right", [0.25, 0.26, 0.2875, 0.2876, 0.3, 0.9])
def test_the_ridge_bounds_the_inverse_and_keeps_its_rows(right: float) -> None:
    """Singular values of the even confusion are 1 and (4 right - 1) / 3."""
    confusion = even_confusion(4, right).double()
    inverse = invert(confusion, 0.05)
    torch.testing.assert_close(inverse.sum(dim=1), torch.ones(4).double())
    assert torch.linalg.matrix_norm(inverse, 2) <= 1 / 0.05 + 1
    exact = (4 * right - 1) / 3 >= 0.05
    assert torch.allclose(confusion @ inverse, torch.eye(4).double()) == exact


def test_the_ridge_minimises_its_objective(confusion: Tensor) -> None:
    confusion[1] = confusion[0]  # two classes that labels cannot separate
    floor, identity = 0.2, torch.eye(4).double()
    ridge = floor**2 - torch.linalg.svdvals(confusion)[-1] ** 2
    found = invert(confusion, floor).requires_grad_()
    cost = (confusion @ found - identity).square().sum()
    cost = cost + ridge * (found - identity).square().sum()
    gradient = torch.autograd.grad(cost, found)[0]
    torch.testing.assert_close(gradient, torch.zeros(4, 4).double())


def test_the_inverse_does_not_jump_at_the_floor() -> None:
    at = (3 * 0.05 + 1) / 4
    below, above = (invert(even_confusion(4, at + step).double(), 0.05) for step in (-1e-6, 1e-6))
    assert (below - above).abs().max() < 1e-2


@each
def test_a_matrix_that_does_not_fit_is_refused(kind, logits: Tensor, labels: Tensor) -> None:
    with pytest.raises(ValueError, match="over 3 classes, the logits 4"):
        kind(torch.eye(3))(logits, labels)
    with pytest.raises(ValueError, match="sums to 1"):
        kind(torch.ones(4, 4))


@each
def test_criteria_do_not_share_a_running_confusion(kind, logits: Tensor, labels: Tensor) -> None:
    first, second = kind(), kind()
    first(logits, labels)
    assert second.confusion.state_dict()["tally"].numel() == 0


@pytest.mark.parametrize("floor", [0.0, 1.5])
def test_a_floor_out_of_range_is_refused(floor: float) -> None:
    with pytest.raises(ValueError, match="floor"):
        Backward(torch.eye(2), floor)


@pytest.mark.parametrize(
    "criterion", [Forward(CONFUSION), Backward(CONFUSION), NoiseAdaptation(CONFUSION)]
)
def test_lower_precision_does_not_reach_the_sums_over_classes(
    logits: Tensor, labels: Tensor, criterion: Criterion
) -> None:
    for given in (logits.float(), logits.bfloat16()):
        exact = criterion(given.float(), labels)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(criterion(given, labels), exact)
        torch.testing.assert_close(criterion(given, labels), exact)
