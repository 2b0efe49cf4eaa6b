"""Runs on a GPU go on as they would have, and diverged steps are skipped without a wait."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tamis import OGRS, DivergedError, Execution, Naive, Plausible, Samples, Sliding, Trainer
from tamis.checkpoint import Checkpoints
from tamis.losses import cross_entropy
from tamis.models import start
from tamis.optim import CAdam
from tests.support.identical import comparable, identical

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def build(*_: object) -> nn.Module:
    return nn.Sequential(
        nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)
    )


def make_trainer(selector, graphed: bool = False, optimizer=None, **settings) -> Trainer:
    torch.manual_seed(0)
    model = start(build, (2,), 3, 0).cuda()
    optimizer = optimizer or (lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9))
    return Trainer(
        model,
        optimizer(model.parameters()),
        selector,
        Sliding(60),
        k=8,
        window="average",
        execution=Execution("cuda", graphed=graphed),
        **settings,
    )


def stream_of(blobs: Samples) -> list[Samples]:
    return [blobs[slice(at, at + 5)] for at in range(0, 300, 5)]


@pytest.mark.parametrize("graphed", [False, True])
@pytest.mark.parametrize("kind", [Naive, OGRS, Plausible])
@pytest.mark.parametrize("rule", [None, torch.optim.Adam, CAdam])
def test_it_goes_on(kind, rule, graphed: bool, blobs: Samples, tmp_path: Path) -> None:
    if graphed and rule is torch.optim.Adam:
        pytest.skip("torch's Adam is recorded only where it is set to be capturable")
    stream = stream_of(blobs)
    trainer = make_trainer(kind(), graphed, rule)
    list(trainer.run(stream[:30]))
    Checkpoints(tmp_path).save(trainer, 30)
    before = comparable(trainer.run(stream[30:])), trainer.state_dict()
    again = make_trainer(kind(), graphed, rule)
    assert Checkpoints(tmp_path).load(again).offset == 30
    after = comparable(again.run(stream[30:])), again.state_dict()
    assert identical(before, after)


@pytest.mark.parametrize("graphed", [False, True])
def test_diverged_steps_are_skipped_and_counted(graphed: bool, blobs: Samples) -> None:
    factor = torch.ones((), device="cuda")

    def criterion(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(logits, targets) * factor

    trainer = make_trainer(Naive(), graphed, criterion=criterion)
    for number, item in enumerate(stream_of(blobs)):
        factor.fill_({20: torch.nan, 21: 1e30, 30: torch.inf}.get(number, 1.0))
        trainer.step(item)
        assert all(value.isfinite().all() for value in trainer.model.state_dict().values())
    assert trainer.sound
    assert trainer.skipped_steps == 3
    factor.fill_(torch.nan)
    with pytest.raises(DivergedError, match="10 steps in a row"):
        list(trainer.run([None] * 1000))
