"""Bits that flip and files that are cut short: noticed, and the generation before is taken."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

from tamis import Trainer
from tamis.checkpoint import Checkpoints
from tests.support.faults.points import FILES
from tests.support.faults.row import Row
from tests.support.faults.runs import Chain, make_run, make_stream, play, rng_of

Change = Callable[[bytes, random.Random], bytes]


def two_generations(folder: Path) -> Trainer:
    """Save a run at slots 4 and 8, and return it."""
    trainer, chain, checkpoints = make_run(), Chain(), Checkpoints(folder)
    for slot in play(trainer, chain, make_stream(slots=8)):
        if slot.number in (3, 7):
            checkpoints.save(trainer, trainer.slots, {"chain": chain})
    return trainer


def flip(content: bytes, rng: random.Random) -> bytes:
    corrupted = bytearray(content)
    corrupted[rng.randrange(len(corrupted))] ^= 1 << rng.randrange(8)
    return bytes(corrupted)


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def damage_and_load(folder: Path, trials: int, name: str, change: Change, seed: int = 0) -> Row:
    """Corrupt a file of the newest generation, load, and restore it."""
    trainer, rng, noticed = two_generations(folder), rng_of(seed), 0
    for trial in range(trials):
        path = folder / "00000002" / FILES[trial % len(FILES)]
        content = path.read_bytes()
        corrupted = change(content, rng)
        assert corrupted != content, "the fault must have been put in"
        path.write_bytes(corrupted)
        noticed += falls_back(folder, trainer)
        path.write_bytes(content)
    assert Checkpoints(folder).load(trainer).generation == 2, "restored, it is good again"
    return Row(
        name,
        trials,
        noticed,
        f"{noticed} of {trials} noticed, previous generation loaded",
        "all",
        noticed == trials,
    )


def falls_back(folder: Path, trainer: Trainer) -> bool:
    """Return whether the damage is reported, and the generation before it restored."""
    checkpoints = Checkpoints(folder)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        restored = checkpoints.load(trainer)
    noticed = len(warned) == 1 and list(checkpoints.damaged) == [2]
    return noticed and restored == (1, 4, 4) and trainer.slots == 4


def bit_flips(folder: Path, trials: int) -> Row:
    return damage_and_load(folder, trials, "bit flips in a checkpoint", flip)


def truncations(folder: Path, trials: int) -> Row:
    return damage_and_load(folder, trials, "truncations of a checkpoint", cut)
