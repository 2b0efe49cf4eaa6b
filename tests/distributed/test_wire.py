"""What crosses between ranks, and what happens when one is gone."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from tamis.distributed import RankLostError, Ranks, RanksDifferError
from tests.support.ranks.jobs import Job, play, points, trainer_of
from tests.support.ranks.processes import together
from tests.support.wait import END

LOOKING = ("itlm", "plausible")
"""Selectors that ask the owners of rows: for a number of each in the pool, or for features."""


def test_bytes_do_not_depend_on_what_is_held() -> None:
    (few, many), (_, sent_many) = together(send_with, 2, (64, 32_000))
    for selector in LOOKING:
        small, large = few[selector], many[selector]
        assert small["pool"] == large["pool"] > 0
        assert small["gradients"] == large["gradients"] > 0
        # How many of the candidates are whose is random: they are padded to the most.
        assert small["views"] == pytest.approx(large["views"], rel=0.1)
    assert sent_many == many


def send_with(ranks: Ranks, sizes: tuple[int, ...]) -> list[dict[str, Counter[str]]]:
    """Return the bytes of 20 slots by selector, for each number of rows held from the start."""
    return [{name: sent_in(ranks, name, rows) for name in LOOKING} for rows in sizes]


def sent_in(ranks: Ranks, selector: str, rows: int) -> Counter[str]:
    trainer = trainer_of(ranks, Job(selector, held=rows))
    trainer.step(next(points(ranks.number, 1, rows)))
    for _ in range(3):  # predictions of the rows that arrived cross in later meetings
        slot = trainer.step(None)
    assert slot.held == 2 * rows
    before = Counter(ranks.sent)
    for samples in points(ranks.number, 20):
        trainer.step(samples)
    return Counter(ranks.sent) - before


def test_meeting_seldom_sends_less() -> None:
    often, seldom = (
        together(play, 2, Job("ogrs", slots=40, every=every))[0].sent for every in (1, 8)
    )
    assert seldom["pool"] + seldom["views"] < 0.2 * (often["pool"] + often["views"])
    assert seldom["gradients"] == often["gradients"]


def test_one_rank_sends_nothing() -> None:
    assert play(Ranks(), Job("plausible", slots=5)).sent == {}


@pytest.mark.parametrize("selector", ["naive", "plausible"])
def test_ranks_that_differ_are_stopped(selector: str) -> None:
    assert together(differ, 2, Job(selector)) == [("RanksDifferError", 10)] * 2


def test_ranks_that_differ_are_stopped_in_the_next_meeting() -> None:
    assert (
        together(differ, 2, Job("naive", every=4)) == [("RanksDifferError", 16)] * 2
    )  # they meet in slots 13 and 17


def differ(ranks: Ranks, job: Job) -> tuple[str, int]:
    """Train until ranks are stopped; from slot 10 on the random numbers of one are its own."""
    trainer = trainer_of(ranks, job)
    try:
        for _ in trainer.run(points(ranks.number, 30)):
            if trainer.slots == 9 and ranks.number == 1:
                trainer.generator.manual_seed(1)
    except (RanksDifferError, RankLostError) as error:
        return type(error).__name__, trainer.slots
    return "not noticed", trainer.slots


def test_a_rank_that_is_killed_is_noticed(tmp_path: Path) -> None:
    """Its connections close: nobody waits for `timeout`, which is longer than this test may be."""
    assert together(lose, 2, signal.SIGKILL, tmp_path, timeout=10 * END) == [True, None]


@pytest.mark.slow
def test_a_rank_that_does_not_answer_is_noticed(tmp_path: Path) -> None:
    """It is waited for as long as `Ranks.join` allows, and no longer."""
    assert together(lose, 2, signal.SIGSTOP, tmp_path, timeout=10) == [True, None]


def lose(ranks: Ranks, how: signal.Signals, folder: Path) -> bool | None:
    """Train until the second rank is gone, and return whether the first has noticed."""
    trainer = trainer_of(ranks, replace(Job("naive"), slots=10**6))
    for slot in trainer.run(points(ranks.number, 10**6)):
        if slot.number == 20:
            break
    pid = folder / "pid"
    if ranks.number == 1:
        pid.write_text(str(os.getpid()))
        os.kill(os.getpid(), how)
        os._exit(0)  # where it was stopped, and goes on
    try:
        while True:
            started = monotonic()
            trainer.step(next(points(0, 1)))
    except RankLostError:
        if how == signal.SIGSTOP:
            assert monotonic() - started > 9
            os.kill(int(pid.read_text()), signal.SIGCONT)
        return True
