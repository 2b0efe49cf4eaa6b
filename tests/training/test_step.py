"""What a spoilt step must not leave behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tamis.training.step import keep_buffers, put_back


@pytest.fixture
def model() -> nn.Module:
    """A model with buffers of two types and of several shapes."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(4), nn.BatchNorm1d(5))
    model.register_buffer("grid", torch.arange(6.0).reshape(2, 3))
    return model


@pytest.mark.parametrize("spoilt", [True, False])
def test_buffers_are_put_back_if_the_step_is_spoilt(model: nn.Module, spoilt: bool) -> None:
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    kept = keep_buffers(model)
    assert [place.data_ptr() for place, _ in kept] == [b.data_ptr() for b in model.buffers()]
    for buffer in model.buffers():
        buffer.fill_(torch.nan if buffer.is_floating_point() else 7)
    put_back(kept, torch.tensor(spoilt))
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]) == spoilt


def test_two_models_are_kept_together(model: nn.Module) -> None:
    other = nn.BatchNorm1d(2)
    kept = keep_buffers(model, other)
    assert len(kept) == 13
    other.num_batches_tracked.fill_(9)
    put_back(kept, torch.tensor(True))
    assert other.num_batches_tracked == 0


def test_a_model_without_buffers_has_nothing_to_keep() -> None:
    kept = keep_buffers(nn.Linear(2, 2))
    assert not kept
    put_back(kept, torch.tensor(True))
