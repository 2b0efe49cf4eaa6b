"""What crosses between ranks, and what happens when one is gone."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

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
    # How many of the candidates are whose is random: they are padded to the most.
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
                trainer._extend_chain(torch.tensor([1]))
    except RanksDifferError as error:
        return type(error).__name__
    return "not noticed"


def test_a_rank_that_is_killed_is_noticed(tmp_path: Path) -> None:
    """Its connections close."""
    assert together(lose, 2, signal.SIGKILL, tmp_path) == [True, None]


@pytest.mark.slow
def test_a_rank_that_does_not_answer_is_noticed(tmp_path: Path) -> None:
    """It is waited for as long as the process group allows."""
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
            trainer.step(next(points(0, 1)))
    except RankLostError:
        if how == signal.SIGSTOP:
            os.kill(int(pid.read_text()), signal.SIGCONT)
        return True
