"""ELR against the gradient of its paper's loss, and the averages against a plain loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.losses import cross_entropy
from tamis.model_view import Average, ModelView
from tamis.models import mlp, start
from tamis.selectors import ELR


def paper_loss(logits: Tensor, labels: Tensor, averages: Tensor, strength: float) -> Tensor:
    """Eq. 6, as a sum over rows."""
    probabilities = logits.softmax(dim=1)
    total = logits.new_zeros(())
    for probability, label, average in zip(probabilities, labels, averages, strict=True):
        total = total - probability[label].log() + strength * (1 - probability @ average).log()
    return total


@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0])
def test_targets_give_the_gradient_of_the_paper(blobs: Samples, strength: float) -> None:
    model, g = start(mlp, (2,), 3, seed=0), Generator().manual_seed(0)
    selector = ELR(strength=strength)
    averages = torch.zeros(len(blobs), 3)
    for _ in range(5):
        picks = selector.select(blobs, ModelView(model), 100, g)
        with torch.no_grad():
            probabilities = model(blobs.inputs[picks.rows]).softmax(dim=1)
        averages[picks.rows] = 0.7 * averages[picks.rows] + 0.3 * probabilities  # eq. 9
        logits, labels = model(blobs.inputs[picks.rows]), blobs.labels[picks.rows]
        ours = cross_entropy(logits, picks.targets).sum()
        theirs = paper_loss(logits, labels, averages[picks.rows], strength)
        gradients = [
            torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
            for loss in (ours, theirs)
        ]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(picks.targets.sum(dim=1), torch.ones(100))
        with torch.no_grad():
            for weight, gradient in zip(model.parameters(), gradients[1], strict=True):
                weight -= 0.0005 * gradient
    assert torch.equal(selector.state_dict()["ids"], averages.any(dim=1).nonzero()[:, 0])
    torch.testing.assert_close(selector.state_dict()["averages"], averages[averages.any(dim=1)])


def test_a_wrong_label_pulls_less_once_the_model_was_right(
    blobs: Samples, blob_model: nn.Module
) -> None:
    selector, view, g = ELR(), ModelView(blob_model), Generator().manual_seed(0)
    for _ in range(20):
        picks = selector.select(blobs, view, len(blobs), g)
    probabilities = view.probabilities(blobs.inputs[picks.rows])
    wrong = ~blobs.clean[picks.rows]
    labels = blobs.labels[picks.rows][:, None]
    plain = (1 - probabilities.gather(1, labels))[wrong]
    pulled = (picks.targets - probabilities).gather(1, labels)[wrong]
    assert (pulled < plain).all()
    towards = (picks.targets - probabilities).gather(1, probabilities.argmax(dim=1)[:, None])[wrong]
    assert (towards > 0).float().mean() > 0.9  # the given label no longer pushes it down


def test_averages_look_through_memory_and_gradients_through_the_newest(blobs: Samples) -> None:
    model, memory = start(mlp, (2,), 3, seed=0), Average(0.9)
    memory.update(model)
    with torch.no_grad():
        model[-1].weight.neg_()
    view = ModelView(model, memory)
    selector = ELR()
    picks = selector.select(blobs, view, 300, Generator().manual_seed(0))
    inputs = blobs.inputs[picks.rows]
    t, p = 0.3 * view.probabilities(inputs), view.newest().probabilities(inputs)
    s = (p * t).sum(dim=1, keepdim=True)
    given = nn.functional.one_hot(blobs.labels[picks.rows], 3)
    torch.testing.assert_close(picks.targets, given + 3 * p * (t - s) / (1 - s))


def test_a_confident_model_gives_finite_targets(blobs: Samples, blob_model: nn.Module) -> None:
    with torch.no_grad():
        blob_model.weight.mul_(1e4)
    picks = ELR(decay=0.0).select(blobs, ModelView(blob_model), 300, Generator().manual_seed(0))
    assert picks.targets.isfinite().all()
    assert picks.targets.abs().max() <= 4 + 1e-3


def test_saved_and_resumed_equals_unbroken(blobs: Samples, blob_model: nn.Module) -> None:
    view, g = ModelView(blob_model), Generator().manual_seed(0)
    unbroken, resumed = ELR(), ELR()
    resumed.load_state_dict(unbroken.state_dict())
    for _ in range(3):
        unbroken.select(blobs, view, 50, g)
    resumed.load_state_dict({name: value.clone() for name, value in unbroken.state_dict().items()})
    then = g.get_state()
    expected = unbroken.select(blobs, view, 50, g)
    picks = resumed.select(blobs, view, 50, Generator().set_state(then))
    assert torch.equal(picks.rows, expected.rows)
    assert torch.equal(picks.targets, expected.targets)


def test_it_forgets_what_left_the_pool(blobs: Samples, blob_model: nn.Module) -> None:
    selector, g = ELR(), Generator().manual_seed(0)
    for first in range(0, 290, 10):
        held = blobs[slice(first, first + 20)]
        selector.select(held, ModelView(blob_model), 8, g)
        assert len(selector.state_dict()["ids"]) <= len(held)
    assert repr(selector) == "ELR(strength=3.0, decay=0.7)"


def test_ids_that_come_twice(blobs: Samples, blob_model: nn.Module) -> None:
    same = replace(blobs, ids=torch.zeros_like(blobs.ids))
    selector = ELR()
    for _ in range(3):
        picks = selector.select(same, ModelView(blob_model), 8, Generator().manual_seed(0))
        assert picks.targets.shape == (8, 3)
    assert selector.state_dict()["ids"].tolist() == [0]


@pytest.mark.parametrize("settings", [{"strength": -1.0}, {"decay": 1.0}])
def test_settings_that_cannot_be(settings: dict) -> None:
    with pytest.raises(ValueError, match="ELR needs"):
        ELR(**settings)
