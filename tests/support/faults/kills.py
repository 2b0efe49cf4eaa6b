"""kill -9 of a real process that trains and saves, and what comes after it."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.faults.nursery import Nursery
from tests.support.faults.points import LOAD, SAVE, SLOT
from tests.support.faults.row import Row
from tests.support.faults.runs import SAVE_EVERY, SLOTS, rng_of, unbroken

SEEDS = 5


@cache
def wanted(seed: int) -> str:
    return unbroken(seed)


def finished(nursery: Nursery, folder: Path, seed: int) -> bool:
    """Let the run go on to its end, and compare."""
    if nursery.start(folder, seed).wait() != 0:
        return False
    return (folder / "result").read_text() == wanted(seed)


def time_a_run(nursery: Nursery, folder: Path) -> float:
    """Measure how long an unbroken run takes, so that kills fall anywhere within."""
    folder.mkdir()
    wanted(0)
    started = time.monotonic()
    assert finished(nursery, folder, 0), "a run with checkpoints must be the run without"
    return time.monotonic() - started


def kill_at_random(folder: Path, trials: int, seed: int = 0) -> Row:
    """Kill at any moment, every third run once more after it has gone on; then let it finish."""
    rng, same, kills = rng_of(seed), 0, 0
    with Nursery() as nursery:
        length = time_a_run(nursery, folder / "timing")
        for trial in range(trials):
            place = folder / f"random-{trial}"
            place.mkdir()
            left = 2 if trial % 3 == 2 else 1
            while left:
                child = nursery.start(place, trial % SEEDS)
                time.sleep(rng.uniform(0, length))
                child.kill()
                if child.wait() == -signal.SIGKILL:
                    left, kills = left - 1, kills + 1
                else:  # it was done before, so that nothing was tried
                    shutil.rmtree(place)
                    place.mkdir()
                    left = 2 if trial % 3 == 2 else 1
            same += finished(nursery, place, trial % SEEDS)
            shutil.rmtree(place)
    return Row(
        "kill -9 at random moments",
        trials,
        same,
        f"{kills} kills, {same} of {trials} runs bit-identical to the unbroken one",
        "all",
        same == trials,
    )


def kill_at_points(
    folder: Path, seeds: int = SEEDS, points: Sequence[str] = (*SLOT, *SAVE, *LOAD)
) -> Row:
    """Kill at each named point, at a time that the seed chooses; a kill that did not come fails."""
    trials, failed = 0, []
    with Nursery() as nursery:
        for seed in range(seeds):
            rng = rng_of(seed)
            for name in points:
                trials += 1
                place = folder / f"point-{trials}"
                place.mkdir()
                if not die_and_finish(nursery, place, seed, name, rng):
                    failed.append(f"{name} ({seed})")
                shutil.rmtree(place)
    detail = f"; not {', '.join(failed)}" if failed else ""
    return Row(
        "kill at each named point of slot, save and load",
        trials,
        trials - len(failed),
        f"{len(points)} points x {seeds} seeds, {trials - len(failed)} bit-identical{detail}",
        "all",
        not failed,
    )


def die_and_finish(
    nursery: Nursery, folder: Path, seed: int, name: str, rng: random.Random
) -> bool:
    """Return whether the process died at the point, and the run came to the same end."""
    nth = rng.randint(1, SLOTS - 5 if name in SLOT else SLOTS // SAVE_EVERY - 3)
    if name in LOAD:
        first = nursery.start(folder, seed, "before select", rng.randint(10, SLOTS - 5))
        if first.wait() != -signal.SIGKILL:
            return False
        nth = 1
    fired = nursery.start(folder, seed, name, nth).wait() == -signal.SIGKILL
    return fired and finished(nursery, folder, seed)
