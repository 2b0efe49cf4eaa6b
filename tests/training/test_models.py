"""Models that are not plain modules of logits: trained on, or refused in one sentence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tamis import Naive, Plausible, Samples, Sliding, Trainer
from tamis.errors import TamisError


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


class Pair(nn.Module):
    """Returns logits and something else."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(inputs), inputs


def train(model: nn.Module, selector: object, *, k: int = 8, rows: int = 5, **settings) -> Trainer:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, selector, Sliding(20), k=k, **settings)
    for number in range(8):
        inputs = torch.randn(rows, 4, generator=generator)
        labels = torch.randint(3, (rows,), generator=generator)
        trainer.step(Samples.of(inputs, labels, rows * number))
    return trainer


@pytest.mark.parametrize(("k", "rows"), [(1, 5), (8, 1)])
@pytest.mark.parametrize("selector", [Naive, Plausible])
def test_a_batch_norm_takes_single_rows(selector: type, k: int, rows: int) -> None:
    torch.manual_seed(0)
    model = batch_norm()
    before = model[0].weight.detach().clone()
    trainer = train(model, selector(), k=k, rows=rows)
    assert trainer.skipped_steps == 0
    assert not torch.equal(model[0].weight, before)
    assert all(bool(buffer.isfinite().all()) for buffer in model.buffers())


def test_a_batch_norm_over_pixels_of_one_row_goes_by_them() -> None:
    """Only where a channel has a single value do the running statistics stand in."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    train(model, Naive(), k=1)
    assert model[1].num_batches_tracked == 8


def test_no_hook_is_left_behind() -> None:
    model = batch_norm()
    train(model, Naive(), k=1)
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("predict_first", [True, False])
def test_outputs_that_are_no_logits(predict_first: bool) -> None:
    with pytest.raises(TamisError, match=r"logits.*Pair returns a tuple\.$"):
        train(Pair(), Naive(), predict_first=predict_first)


def test_data_parallel() -> None:
    with pytest.raises(TamisError, match=r"pass `model\.module`"):
        train(nn.DataParallel(nn.Linear(4, 3)), Naive())


def test_a_compiled_model_has_no_features() -> None:
    model = torch.compile(nn.Linear(4, 3), backend="eager")
    with pytest.raises(TamisError, match="compiled"):
        train(model, Plausible())
