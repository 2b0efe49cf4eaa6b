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
from tests.support.faults.runs import Chain, chance_of, make_run, make_stream, play

Spoil = Callable[[bytes, random.Random], bytes]


def two_generations(folder: Path) -> Trainer:
    """Save a run at slots 4 and 8, and return it."""
    trainer, chain, checkpoints = make_run(), Chain(), Checkpoints(folder)
    for slot in play(trainer, chain, make_stream(slots=8)):
        if slot.number in (3, 7):
            checkpoints.save(trainer, trainer.slots, {"chain": chain})
    return trainer


def flip(content: bytes, chance: random.Random) -> bytes:
    spoilt = bytearray(content)
    spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def spoil(folder: Path, trials: int, name: str, change: Spoil, seed: int = 0) -> Row:
    """Spoil a file of the newest generation, load, and mend it again."""
    trainer, chance, noticed = two_generations(folder), chance_of(seed), 0
    for trial in range(trials):
        path = folder / "00000002" / FILES[trial % len(FILES)]
        content = path.read_bytes()
        spoilt = change(content, chance)
        assert spoilt != content, "the fault must have been put in"
        path.write_bytes(spoilt)
        noticed += falls_back(folder, trainer)
        path.write_bytes(content)
    assert Checkpoints(folder).load(trainer).generation == 2, "mended, it is good again"
    return Row(
        name,
        trials,
        noticed,
        f"{noticed} of {trials} noticed, previous generation loaded",
        "all",
        noticed == trials,
    )


def falls_back(folder: Path, trainer: Trainer) -> bool:
    """Say whether the damage is told, and the generation before it brought back."""
    checkpoints = Checkpoints(folder)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        restored = checkpoints.load(trainer)
    noticed = len(told) == 1 and list(checkpoints.damaged) == [2]
    return noticed and restored == (1, 4, 4) and trainer.slots == 4


def bit_flips(folder: Path, trials: int) -> Row:
    return spoil(folder, trials, "bit flips in a checkpoint", flip)


def truncations(folder: Path, trials: int) -> Row:
    return spoil(folder, trials, "truncations of a checkpoint", cut)
