"""Growth on a GPU: recorded graphs are forgotten, and a resumed run goes on bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tamis import Alarm, Execution, Plausible, Sliding, Trainer, Validator
from tamis.checkpoint import Checkpoints
from tamis.models import mlp, start
from tests.support.identical import comparable, identical
from tests.training.test_growth import CENTRES, stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make_trainer(graphed: bool) -> Trainer:
    model = start(mlp, (2,), 3, 0).cuda()
    return Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        Plausible(),
        Sliding(500),
        k=16,
        window="average",
        validator=Validator(3, max_classes=5),
        tracker=Alarm(3, 200.0),
        execution=Execution("cuda", graphed=graphed),
    )


@pytest.mark.parametrize("graphed", [False, True])
def test_it_grows_and_is_resumed(graphed: bool, tmp_path: Path) -> None:
    items = stream(60, 120)
    unbroken = make_trainer(graphed)
    slots = list(unbroken.run(items))
    assert unbroken.averaged.logits(CENTRES.cuda()).argmax(dim=1).tolist() == [0, 1, 2, 3, 4]
    first = make_trainer(graphed)
    begun = list(first.run(items[:70]))
    Checkpoints(tmp_path).save(first)
    again = make_trainer(graphed)
    Checkpoints(tmp_path).load(again)
    assert again.grown == 5
    rest = list(again.run(items[70:]))
    assert identical(comparable(begun + rest), comparable(slots))
