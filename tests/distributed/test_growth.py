"""A class that comes up on one rank: all ranks grow at once, and go on as one process would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tamis import Naive, Sliding, Validator
from tamis.distributed import Ranks, RankTrainer
from tests.distributed.test_saving import assert_same_end
from tests.support.identical import identical
from tests.support.ranks.jobs import (
    Job,
    Result,
    corrections,
    play,
    points,
    result_of,
    trainer_of,
)
from tests.support.ranks.processes import together

JOB = Job("plausible", slots=40, new_from=17)


@pytest.fixture(scope="module")
def unbroken() -> Result:
    torch.set_num_threads(1)
    return play(Ranks(), JOB)


def test_two_ranks_grow_as_one_process_does(unbroken: Result) -> None:
    assert unbroken.weights[-1].shape == (4,)
    for rank in together(play, 2, JOB):
        assert_same_end(unbroken, rank)
        assert identical(rank.losses, unbroken.losses)


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (1, 2)])
@pytest.mark.parametrize("stop", [17, 21])
def test_resumed_across_the_growth(
    before: int, after: int, stop: int, unbroken: Result, tmp_path: Path
) -> None:
    """Stopped after a checkpoint from before the class came up, and from after it."""
    job = replace(JOB, folder=tmp_path, save_every=8 if stop == 17 else 10, stop_at=stop)
    together(play, before, job)
    for rank in together(play, after, replace(job, stop_at=10**9)):
        assert_same_end(unbroken, rank)


def test_between_meetings(tmp_path: Path) -> None:
    job = replace(JOB, every=3)
    one = play(Ranks(), job)
    assert one.weights[-1].shape == (4,)
    for rank in together(play, 2, job):
        assert_same_end(one, rank)


def name_a_class(ranks: Ranks, job: Job) -> Result:
    """Train; then the first rank names a class that no rank has seen."""
    trainer = trainer_of(ranks, job)
    for items in zip(*(points(shard, 20) for shard in trainer.own), strict=True):
        trainer.step(*items)
    wrong, _, labels = corrections(job.shards)
    mine = slice(None) if ranks.number == 0 else slice(0, 0)
    trainer.relabel(wrong[mine], torch.full_like(labels[mine], 4))
    assert trainer.classes == 5
    trainer.step(*[None] * len(trainer.own))
    return result_of(trainer, [])


def test_a_correction_on_one_rank_names_a_class_on_all() -> None:
    one = name_a_class(Ranks(), JOB)
    for rank in together(name_a_class, 2, JOB):
        assert_same_end(one, rank)


def test_validators_must_let_in_what_the_trainer_does() -> None:
    def make(validator: Validator, max_classes: int | None) -> RankTrainer:
        model = nn.Linear(2, 3)
        return RankTrainer(
            Ranks(), model, torch.optim.SGD(model.parameters(), 0.1), Naive(),
            buffer=lambda shard: Sliding(10), validator=lambda shard: validator,
            max_classes=max_classes,
        )  # fmt: skip

    with pytest.raises(ValueError, match="give both the same max_classes"):
        make(Validator(3, max_classes=4), None)
    with pytest.raises(ValueError, match="labels that are numbers"):
        make(Validator(["a", "b", "c"], max_classes=4), 4)
    make(Validator(3, max_classes=4), 4)
