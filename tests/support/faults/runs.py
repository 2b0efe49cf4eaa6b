"""The run that faults are put to: small, quick, and with every kind of memory in it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tamis import Alarm, Execution, Plausible, Samples, Slot, Trainer, Validator
from tamis.buffers import BalancedReservoir
from tamis.checkpoint import Checkpoints
from tamis.models import start
from tamis.selectors.plausible import Neighbours
from tests.support.identical import comparable

SLOTS, SAVE_EVERY, ROWS = 30, 2, 5
ODD = (3, 21)


class Chain:
    """A checksum over all slots so far: the same only if every pick of every slot was."""

    def __init__(self) -> None:
        self.sum = ""

    def update(self, slot: Slot) -> None:
        self.sum = checksum([self.sum, *comparable([slot])])

    def state_dict(self) -> dict[str, str]:
        return {"sum": self.sum}

    def load_state_dict(self, state: dict[str, str]) -> None:
        self.sum = state["sum"]


def checksum(tree: Any) -> str:
    """Sum up tensors, numbers and text, bit for bit."""
    digest = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, Tensor):
            digest.update(f"{part.dtype}{tuple(part.shape)}".encode())
            digest.update(part.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
        elif isinstance(part, dict):
            for key, value in part.items():
                add(key)
                add(value)
        elif isinstance(part, list | tuple):
            digest.update(b"[")
            for value in part:
                add(value)
        else:
            digest.update(repr(part).encode())

    add(tree)
    return digest.hexdigest()


def rng_of(seed: int) -> random.Random:
    """Draw what is to fail, and when."""
    return random.Random(seed)  # noqa: S311 (no secret depends on it)


def model_of(*_: Any) -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3)
    )


def make_run(seed: int = 0) -> Trainer:
    torch.manual_seed(seed)  # which dropout draws from
    model = start(model_of, (4,), 3, seed)
    return Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        Plausible(neighbours=Neighbours(voters=64)),
        BalancedReservoir(40),
        k=8,
        warm_up=2,
        window=3,
        execution=Execution(refresh=20),
        tracker=Alarm(3, half_life=40),
        validator=Validator(on_bad="skip"),
        seed=seed,
    )


def make_stream(seed: int = 0, slots: int = SLOTS) -> list[Samples]:
    """Make up rows whose classes come in waves, and two chunks that no model can take."""
    generator = torch.Generator().manual_seed(seed)
    time = torch.linspace(0, 6, slots * ROWS)
    wave = torch.stack([time.cos() + 1.1, time.sin() + 1.1, torch.full_like(time, 0.5)], dim=1)
    labels = torch.multinomial(wave, 1, generator=generator)[:, 0]
    inputs = 2 * torch.eye(3, 4)[labels] + torch.randn(len(labels), 4, generator=generator)
    clean = torch.rand(len(labels), generator=generator) < 0.7
    rows = Samples.of(inputs, torch.where(clean, labels, (labels + 1) % 3), clean=clean)
    chunks = [rows[slice(at, at + ROWS)] for at in range(0, len(rows), ROWS)]
    for odd in ODD:
        if odd < slots:
            chunks[odd] = replace(chunks[odd], inputs=chunks[odd].inputs[:, :3])
    return chunks


def play(trainer: Trainer, chain: Chain, stream: list[Samples]) -> Iterator[Slot]:
    """Go on from where the trainer is."""
    for item in stream[trainer.slots :]:
        slot = trainer.step(item)
        chain.update(slot)
        yield slot


def result(trainer: Trainer, chain: Chain) -> str:
    """Sum up all slots, and all that is remembered at the end."""
    return checksum([chain.sum, trainer.state_dict()])


def unbroken(seed: int = 0) -> str:
    trainer, chain = make_run(seed), Chain()
    for _ in play(trainer, chain, make_stream(seed)):
        pass
    return result(trainer, chain)


def work(folder: Path, seed: int = 0) -> str:
    """Do the run with checkpoints, or go on with it."""
    trainer, chain = make_run(seed), Chain()
    checkpoints = Checkpoints(folder)
    if checkpoints.generations():
        checkpoints.load(trainer, {"chain": chain})
    for _ in play(trainer, chain, make_stream(seed)):
        if trainer.slots % SAVE_EVERY == 0:
            checkpoints.save(trainer, trainer.slots, {"chain": chain})
    return result(trainer, chain)
