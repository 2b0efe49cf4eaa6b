"""Fairness as a constraint: a small group of blurred digits, which a search for low losses skips.

A share of the digits is faint and noisy. Their losses are higher, right labels or not, so picks
leave them out. One constraint a group, each with a multiplier, brings their share back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from tamis.buffers import Growing
from tamis.data import Slot
from tamis.models import mlp, start
from tamis.monitoring import Monitor
from tamis.selectors import OGRS, Naive, Selector
from tamis.streams import Constant, Replay, Symmetric, digits
from tamis.training import Trainer


@dataclass(frozen=True)
class Settings:
    """The same for every method."""

    group_share: float = 0.2
    contrast: float = 0.35
    blur: float = 0.2
    clean_ratio: float = 0.6
    fair_within: float = 0.0
    k: int = 32
    warm_up: int = 200
    slots: int = 2000
    rate: float = 0.3


@dataclass(frozen=True)
class Result:
    """Share of the small group among the picks and in the pool, and how the model came out."""

    method: str
    seed: int
    share: float
    held: float
    accuracy: float
    group_accuracy: float
    purity: float

    @property
    def gap(self) -> float:
        """How far the share of picks is from the share held."""
        return abs(self.share - self.held)


def methods(settings: Settings) -> dict[str, Selector]:
    """Naive picks show what fair shares are; OGRS without and with the constraint."""
    return {
        "naive": Naive(),
        "OGRS": OGRS(),
        "OGRS, fair": replace(OGRS(), fair_within=settings.fair_within),
    }


def dim(inputs: Tensor, rows: Tensor, settings: Settings, generator: Generator) -> Tensor:
    """Make these rows faint and noisy."""
    noise = settings.blur * torch.randn(inputs.shape, generator=generator)
    faint = (settings.contrast * inputs + noise).clamp(0, 1)
    return torch.where(rows[:, None, None], faint, inputs)


def run_method(
    settings: Settings, name: str, seed: int, progress: Callable[[Slot], None]
) -> Result:
    """Train one method on the two groups."""
    data, generator = digits(), Generator().manual_seed(seed)
    small, test_small = (
        torch.rand(len(labels), generator=generator) < settings.group_share
        for labels in (data.labels, data.test_labels)
    )
    inputs = dim(data.inputs, small, settings, generator)
    test_inputs = dim(data.test_inputs, test_small, settings, generator)
    stream = Replay(
        inputs, data.labels, Symmetric(10), Constant(settings.clean_ratio), slots=1,
        rows_per_slot=len(data.labels), seed=seed, groups=small.long(),
    )  # fmt: skip
    held = next(iter(stream))
    model = start(mlp, data.input_shape, 10, seed)
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), settings.rate), methods(settings)[name],
        Growing(len(data.labels)), k=settings.k, warm_up=settings.warm_up, seed=seed,
    )  # fmt: skip
    monitor, picked, in_group = Monitor(), 0, 0.0
    groups = held.groups if held.groups is not None else small
    for number in range(settings.slots):
        slot = trainer.step(held if number == 0 else None)
        monitor.update(slot)
        if not slot.warm_up:
            picked += len(slot.ids)
            in_group += groups[slot.ids].sum().item()
        progress(slot)
    return Result(
        name,
        seed,
        in_group / max(1, picked),
        groups.float().mean().item(),
        trainer.accuracy(test_inputs, data.test_labels).ema or 0.0,
        trainer.accuracy(test_inputs[test_small], data.test_labels[test_small]).ema or 0.0,
        monitor.purity or 0.0,
    )
