"""What a diverged step must not leave behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tamis.training.step import restore, save_buffers


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
