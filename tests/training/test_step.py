"""What a diverged step must not leave behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tamis.training.step import descend, restore, save_buffers


@pytest.fixture
def model() -> nn.Module:
    """A model with buffers of two types and of several shapes."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(4), nn.BatchNorm1d(5))
    model.register_buffer("grid", torch.arange(6.0).reshape(2, 3))
    return model


@pytest.mark.parametrize("diverged", [True, False])
def test_buffers_are_restored_if_the_step_has_diverged(model: nn.Module, diverged: bool) -> None:
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    saved = save_buffers(model)
    assert [place.data_ptr() for place, _ in saved] == [b.data_ptr() for b in model.buffers()]
    for buffer in model.buffers():
        buffer.fill_(torch.nan if buffer.is_floating_point() else 7)
    restore(saved, torch.tensor(diverged))
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]) == diverged


@pytest.mark.parametrize(("length", "taken"), [(0.9e6, True), (1.1e6, False), (1e30, False)])
def test_a_step_far_too_long_is_not_taken(length: float, taken: bool) -> None:
    """A step is as long as the gradient times the learning rate."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], 0.1)
    loss = descend((10 * length * weight).sum(), optimizer)
    assert bool(loss.isfinite()) == taken
    assert weight.item() == pytest.approx(-length if taken else 0)


def test_two_models_are_saved_together(model: nn.Module) -> None:
    other = nn.BatchNorm1d(2)
    saved = save_buffers(model, other)
    assert len(saved) == 13
    other.num_batches_tracked.fill_(9)
    restore(saved, torch.tensor(True))
    assert other.num_batches_tracked == 0


def test_a_model_without_buffers_has_nothing_to_keep() -> None:
    saved = save_buffers(nn.Linear(2, 2))
    assert not saved
    restore(saved, torch.tensor(True))
