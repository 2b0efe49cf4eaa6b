"""A run with rows on disk that is killed while it writes, and what must be there afterwards.

python -m tests.support.disk_kills FOLDER SLOTS CAPACITY CALLS
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tamis import Plausible, Reservoir, Samples, Trainer
from tamis.checkpoint import Checkpoints, block_files
from tamis.models import mlp, start
from tests.support.identical import identical

WIDTH, ROWS, EVERY = 600, 64, 3
"""Numbers of a row, rows of a slot, slots from one checkpoint to the next."""
CALLS = 20
"""Pieces that a checkpoint of such a run writes and syncs, about."""


class Survived(NamedTuple):
    """How often a run was killed, how often within a save, and what was lost."""

    kills: int
    in_save: int
    lost: int
    identical: bool


def inputs_of(ids: Tensor) -> Tensor:
    """Return inputs that follow from the ids, so that a row out of place is noticed."""
    return ((ids[:, None] * 7919 + torch.arange(WIDTH) * 31) % 1009).float() / 1009


def samples_of(slot: int) -> Samples:
    """Return the rows of a slot."""
    ids = torch.arange(slot * ROWS, (slot + 1) * ROWS)
    return Samples.of(inputs_of(ids), ids % 3, slot * ROWS)


def make_trainer(folder: Path | None, capacity: int) -> Trainer:
    """Return a trainer whose buffer changes at random places; without a folder, in memory."""
    model = start(mlp, (WIDTH,), 3, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return Trainer(
        model, optimizer, Plausible(), Reservoir(capacity, disk=folder), k=8, pool_size=64
    )


def train(folder: Path, slots: int, capacity: int) -> None:
    """Train to the end, or from the last checkpoint on; print each slot that was saved."""
    trainer, checkpoints = make_trainer(folder, capacity), Checkpoints(folder / "checkpoints")
    if checkpoints.generations():
        checkpoints.load(trainer)
    if trainer.held_count:
        held = trainer.held()
        print("right" if held.inputs.equal(inputs_of(held.ids)) else "wrong", trainer.slots)
    for slot in range(trainer.slots, slots):
        trainer.step(samples_of(slot))
        if trainer.slots % EVERY == 0 or trainer.slots == slots:
            print("saving", trainer.slots, flush=True)
            checkpoints.save(trainer)
            print("saved", trainer.slots, flush=True)


def lines_of(child: subprocess.Popen[str]) -> Iterator[list[str]]:
    """Yield what a process prints, in words."""
    assert child.stdout
    for line in child.stdout:
        yield line.split()


def dying(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """Return a function that kills its process, with -9, where no call is left."""

    def called(*values: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*values)

    return called


def die_in_a_save(calls: int) -> None:
    """Kill this process at one of the pieces that saves write and the syncs that end them."""
    left = [calls]
    block_files.checksums = dying(block_files.checksums, left)
    os.fsync = dying(os.fsync, left)


def kill_while_writing(folder: Path, kills: int, slots: int, capacity: int) -> Survived:
    """Kill -9 a run, every other time within a save, until it has ended."""
    words = [sys.executable, "-m", "tests.support.disk_kills", str(folder)]
    draw, saved, killed, in_save, lost = random.Random(0), 0, 0, 0, 0  # noqa: S311
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done, before = False, max(1, slots // EVERY // kills)  # saves from one kill to the next
    while not done:
        inside, wait = killed % 2 == 0, draw.randint(1, before)
        calls = draw.randint(1, CALLS * before) if inside and killed < kills else 0
        command = [*words, str(slots), str(capacity), str(calls)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
            for word, number in lines_of(child):
                if word in ("right", "wrong"):  # where it has gone on
                    lost += word == "wrong" or int(number) < saved
                saved = int(number) if word == "saved" else saved
                wait -= word == "saved"
                if killed < kills and not inside and wait <= 0:
                    child.kill()
        assert child.returncode in (0, -signal.SIGKILL), child.returncode
        done = child.returncode == 0
        killed += not done
        in_save += inside and not done
    return Survived(killed, in_save, lost, is_unbroken(folder, slots, capacity))


def is_unbroken(folder: Path, slots: int, capacity: int) -> bool:
    """Return whether the last checkpoint is that of a run in memory that nothing has stopped."""
    unbroken, broken = make_trainer(None, capacity), make_trainer(None, capacity)
    list(unbroken.run(samples_of(slot) for slot in range(slots)))
    Checkpoints(folder / "checkpoints").load(broken)
    return identical(broken.state_dict(), unbroken.state_dict())


if __name__ == "__main__":
    torch.set_num_threads(1)
    total, size, last_call = map(int, sys.argv[2:])
    die_in_a_save(last_call)
    train(Path(sys.argv[1]), total, size)
