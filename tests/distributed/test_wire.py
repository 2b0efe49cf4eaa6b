"""What crosses between ranks, and what happens when one is gone."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest
import torch

from tamis.distributed import RankLostError, Ranks, RanksDifferError
from tests.support.ranks.jobs import Job, play, points, trainer_of
from tests.support.ranks.processes import together


def test_bytes_do_not_depend_on_what_is_held() -> None:
    small, large = (
        together(play, 2, Job("plausible", slots=40, held=held))[0].sent for held in (64, 640)
    )
    assert small["pool"] == large["pool"] > 0
    assert small["gradients"] == large["gradients"] > 0
    # How many of the candidates are whose is a matter of chance: they are padded to the most.
    assert small["views"] == pytest.approx(large["views"], rel=0.05)


def test_meeting_seldom_sends_less() -> None:
    often, seldom = (
        together(play, 2, Job("ogrs", slots=40, every=every))[0].sent for every in (1, 8)
    )
    assert seldom["pool"] + seldom["views"] < 0.2 * (often["pool"] + often["views"])
    assert seldom["gradients"] == often["gradients"]


def test_one_rank_sends_nothing() -> None:
    assert play(Ranks(), Job("plausible", slots=5)).sent == {}


def test_ranks_that_differ_are_stopped() -> None:
    assert together(differ, 2) == ["RanksDifferError", "RanksDifferError"]


def differ(ranks: Ranks) -> str:
    trainer = trainer_of(ranks, Job("naive"))
    try:
        for slot in trainer.run(points(ranks.number, 30)):
            if slot.number == 10 and ranks.number == 1:
                trainer._seal(torch.tensor([1]))
    except RanksDifferError as error:
        return type(error).__name__
    return "not noticed"


@pytest.mark.parametrize(("number", "within"), [(signal.SIGKILL, 5), (signal.SIGSTOP, 8)])
def test_a_rank_that_is_gone_is_noticed(number: signal.Signals, within: float) -> None:
    """Killed: its connections close. Stopped: it does not answer for so long."""
    seconds, died = together(lose, 2, int(number), timeout=4)
    assert died is None
    assert 0 < seconds < within


def lose(ranks: Ranks, number: int) -> float | None:
    trainer = trainer_of(ranks, replace(Job("naive"), slots=10**6))
    for slot in trainer.run(points(ranks.number, 10**6)):
        if slot.number == 20:
            break
    if ranks.number == 1:
        if number == signal.SIGSTOP:
            revive_later()
        os.kill(os.getpid(), number)
        os._exit(0)
    started = time.monotonic()
    try:
        while True:
            trainer.step(next(points(0, 1)))
    except RankLostError:
        return time.monotonic() - started


def revive_later() -> None:
    """Let a child wake this process up, for the test to end."""
    parent = os.getpid()
    if os.fork() == 0:
        time.sleep(6)
        os.kill(parent, signal.SIGCONT)
        os._exit(0)
