"""Disks that are full, fail or may only be read, while a checkpoint is written."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tamis.checkpoint import Checkpoints, NotSavedError
from tests.support.faults.row import Row
from tests.support.faults.runs import (
    Chain,
    make_run,
    make_stream,
    play,
    result,
    rng_of,
    unbroken,
)

Fault = Callable[[Path], AbstractContextManager[list[str]]]
MOUNT, UNMOUNT = (shutil.which(name) or "" for name in ("mount", "umount"))
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
CALLS = {"fsync": (os, 6), "mkdir": (Path, 1), "rename": (Path, 1), "open": (Path, 4)}
"""Calls that a save makes of the system, and how many."""


@contextmanager
def failing(name: str, nth: int, number: int) -> Iterator[list[str]]:
    """Make the nth call of a kind fail, and record it in the list."""
    owner, _ = CALLS[name]
    original: Callable[..., Any] = getattr(owner, name)
    left, fired = nth, []

    def wrapped(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            fired.append(name)
            raise OSError(number, os.strerror(number))
        return original(*given, **named)

    with patch.object(owner, name, wrapped):
        yield fired


@contextmanager
def small_files(most: int) -> Iterator[list[str]]:
    """Make the system itself refuse what goes beyond so many bytes, half of a piece written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield ["limit"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def real_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Mount a disk in memory that holds two generations and a little more."""
    folder.mkdir(exist_ok=True)
    size = f"size={kilobytes}k"
    subprocess.run([MOUNT, "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run([UNMOUNT, str(folder)], check=True)


def can_mount(folder: Path) -> bool:
    if os.geteuid() or not MOUNT:
        return False
    try:
        with real_disk(folder / "try", 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def fill(folder: Path) -> None:
    """Leave no room but a little."""
    with (folder / "filler").open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(bytes(4096)):
                pass
        file.truncate(max(0, file.tell() - 8192))


def remount(folder: Path, how: str) -> None:
    subprocess.run([MOUNT, "-o", f"remount,{how}", str(folder)], check=True)


def withstands(folder: Path, fault: Fault, wanted: str) -> bool:
    """Save twice, save into the fault, go on, save again: nothing is lost, and nothing changed."""
    trainer, chain, checkpoints = make_run(), Chain(), Checkpoints(folder / "checkpoints")
    kept = False
    for slot in play(trainer, chain, make_stream()):
        if slot.number in (3, 7, 15):
            checkpoints.save(trainer, trainer.slots, {"chain": chain})
        if slot.number == 11:
            before = checkpoints.generations()
            with fault(folder) as fired:
                try:
                    checkpoints.save(trainer, trainer.slots, {"chain": chain})
                except NotSavedError:
                    kept = bool(fired) and set(before) <= set(checkpoints.generations())
            shutil.copytree(checkpoints.folder, folder.with_name(f"{folder.name}-then"))
    same = result(trainer, chain) == wanted
    then, now = (
        Checkpoints(place).load(make_run(), {"chain": Chain()}).slot
        for place in (folder.with_name(f"{folder.name}-then"), checkpoints.folder)
    )
    # Where only the last sync failed, the new generation may be there, and be complete.
    return kept and then in (8, 12) and now == 16 and same and checkpoints.failed == 1


def injected(trial: int, rng: random.Random) -> Fault:
    """Choose a call and an error by the trial's number, so that all come to their turn."""
    if trial % 4 == 3:
        most = rng.randrange(1, 6_000)
        return lambda folder: small_files(most)
    name = list(CALLS)[trial % len(CALLS)]
    nth, number = rng.randint(1, CALLS[name][1]), ERRORS[trial % len(ERRORS)]
    return lambda folder: failing(name, nth, number)


@contextmanager
def filled(folder: Path) -> Iterator[list[str]]:
    fill(folder)
    yield ["full"]
    (folder / "filler").unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[list[str]]:
    remount(folder, "ro")
    yield ["read-only"]
    remount(folder, "rw")


def failing_disks(folder: Path, trials: int, seed: int = 0) -> Row:
    """Make the disk fail in all ways; one trial in five is a real one that is full or read-only."""
    rng, good, real, wanted = rng_of(seed), 0, 0, unbroken()
    mounting = can_mount(folder)
    for trial in range(trials):
        place = folder / f"disk-{trial}"
        with ExitStack() as stack:
            fault = injected(trial, rng)
            place.mkdir()
            if mounting and trial % 5 == 4:
                stack.enter_context(real_disk(place, 1200))
                fault, real = (filled, read_only)[real % 2], real + 1
            good += withstands(place, fault, wanted)
    return Row(
        "disk full, EIO, read-only folder while saving",
        trials,
        good,
        f"0 generations lost and training went on in {good} of {trials} trials ({real} on real"
        " full or read-only disks)",
        "all",
        good == trials,
    )
