"""Losses that are no numbers and gradients that explode, in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from tamis import DivergedError, Naive, Samples, Sliding, Trainer
from tamis.checkpoint import Checkpoints, NotSavedError
from tamis.losses import cross_entropy
from tamis.models import start
from tamis.optim import CAdam
from tests.support.faults.row import Row
from tests.support.faults.runs import make_stream, model_of

OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, weight_decay=1e-3),
    "Adam": torch.optim.Adam,
    "CAdam": CAdam,
}
WAYS = ("nan", "inf", "steep", "overflow")
SLOTS, PATIENCE = 30, 5


class Faulty(nn.Module):
    """A model and its loss, which go wrong on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = model_of()
        self.way = ""

    def forward(self, inputs: Tensor) -> Tensor:
        wrong = self.way == "overflow" and self.training
        out: Tensor = self.inner(inputs * 1e38 if wrong else inputs)
        return out

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        factor = {"nan": torch.nan, "inf": torch.inf, "steep": 1e25}.get(self.way, 1.0)
        losses = cross_entropy(logits, targets)
        return losses * factor if logits.requires_grad else losses


def make_trainer(name: str) -> tuple[Trainer, Faulty]:
    model = start(lambda *_: Faulty(), (4,), 3, 0)
    assert isinstance(model, Faulty)
    optimizer = OPTIMIZERS[name](model.parameters())
    return Trainer(
        model, optimizer, Naive(), Sliding(60), k=8, criterion=model.criterion, patience=PATIENCE
    ), model


def all_finite(trainer: Trainer) -> bool:
    """Look at weights, buffers, their average and what the optimiser remembers."""
    memory = [value for part in trainer.optimizer.state.values() for value in part.values()]
    average = trainer.average.states(trainer.model)[0].values() if trainer.average else []
    tensors = [*trainer.model.state_dict().values(), *average, *memory]
    return all(torch.as_tensor(tensor).isfinite().all() for tensor in tensors)


def good_items() -> list[Samples]:
    return [item for item in make_stream(slots=SLOTS) if item.inputs.shape[1] == 4]


def now_and_then(name: str, way: str) -> bool:
    """Three steps go wrong: they are skipped and counted, and all goes on."""
    trainer, model = make_trainer(name)
    for item in good_items():
        wrong = trainer.slots in (10, 11, 20)
        model.way = way if wrong else ""
        before = [weight.clone() for weight in model.parameters()]
        slot = trainer.step(item)
        stayed = all(map(torch.equal, before, model.parameters()))
        if (stayed, slot.loss is None, trainer.sound) != (wrong, wrong, not wrong):
            return False
        if not all_finite(trainer):
            return False
    return trainer.skipped_steps == 3


def for_good(name: str, way: str, folder: Path) -> bool:
    """From some slot on all steps go wrong: it stops, and the checkpoint is from before."""
    (trainer, model), checkpoints, bad = make_trainer(name), Checkpoints(folder), 15
    stopped = False
    for item in good_items():
        model.way = way if trainer.slots >= bad else ""
        try:
            trainer.step(item)
            checkpoints.save(trainer, trainer.slots)
        except NotSavedError:
            assert trainer.slots > bad
        except DivergedError:
            stopped = trainer.slots == bad + PATIENCE - 1
            break
    again, model = make_trainer(name)
    restored = Checkpoints(folder).load(again)
    slot = again.step(good_items()[bad])
    return stopped and restored.slot == bad and slot.loss is not None and all_finite(again)


def non_finite_steps(folder: Path) -> Row:
    good, trials = 0, 0
    for name in OPTIMIZERS:
        for way in WAYS:
            place = folder / f"{name}-{way}"
            good += now_and_then(name, way) + for_good(name, way, place)
            trials += 2
    return Row(
        "NaN or infinite loss, exploding gradient, overflow in the model, mid-run",
        trials,
        good,
        f"{good} of {trials}: skipped and counted, all finite; after {PATIENCE} in a row it stops"
        " with the checkpoint from before",
        "all",
        good == trials,
    )
