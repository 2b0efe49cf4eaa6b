"""Review on ranks: a decision is applied by all in one slot; suspects are a rank's own rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tamis.data import Samples, concat
from tamis.distributed import Ranks
from tamis.review import Corrections, LiveSuspects, find_suspects, previewer
from tamis.runs import Decision, Decisions, RunFiles, SuspectIndex
from tests.support.identical import identical
from tests.support.ranks.jobs import Job, Result, corrections, points, result_of, trainer_of
from tests.support.ranks.processes import together

CLASSES = ("cat", "dog", "fox")
DECIDED = 20


@dataclass(frozen=True)
class Reviewed:
    """What a rank came to, with the rows it held at the end and the suspects it named."""

    result: Result
    picks: list[Tensor]
    changed: list[int]
    held: Samples
    live: set[int]
    last: set[int]


def decide(path: Path, shards: int) -> None:
    """Relabel the rows with wrong labels, and drop others."""
    wrong, gone, labels = corrections(shards)
    decisions = Decisions(path)
    for row, label in zip(wrong.tolist(), labels.tolist(), strict=True):
        decisions.decide(Decision(str(row), "relabel", CLASSES[label]), sync=False)
    for row in gone.tolist():
        decisions.decide(Decision(str(row), "drop"), sync=False)


def play_reviewed(ranks: Ranks, job: Job, folder: Path, quiet: int) -> Reviewed:
    """Train on the points; the last rank makes decisions, which the others may read a slot later.

    The last shard has nothing in the first `quiet` slots.
    """
    trainer, picks, changed, losses = trainer_of(ranks, job), [], [], []
    own = folder / str(ranks.number)
    own.mkdir()
    followed = Corrections(folder / RunFiles.decisions, CLASSES)
    live = LiveSuspects(
        own, trainer, CLASSES, previewer((6,)), every=job.slots, decided=lambda: followed.decided
    )
    for arriving in zip(*(points(shard, job.slots) for shard in trainer.own), strict=True):
        present = [
            followed.correct(samples)
            for shard, samples in zip(trainer.own, arriving, strict=True)
            if shard < job.shards - 1 or trainer.slots >= quiet
        ]
        slot = trainer.step(*present, *[None] * (len(arriving) - len(present)))
        picks.append(slot.picked)
        losses.append(slot.loss)
        live.update(slot.number, concat(present) if present else None)
        if trainer.slots == DECIDED and ranks.number == ranks.size - 1:
            decide(followed.decisions.path, job.shards)
        changed.append(followed.apply(trainer))
    held = trainer.held()
    rows = [(held, [str(row) for row in held.ids.tolist()])]
    found = find_suspects(trainer.averaged, rows, CLASSES, held)
    return Reviewed(
        result_of(trainer, losses),
        picks,
        changed,
        held[torch.arange(len(held))],
        {suspect.row for suspect in SuspectIndex(own)},
        {suspect.row for suspect in found},
    )


@pytest.mark.parametrize("quiet", [0, DECIDED + 5])
def test_a_decision_reaches_the_rank_that_holds_the_row(tmp_path: Path, quiet: int) -> None:
    job = Job(slots=60, held=200)
    (tmp_path / "one").mkdir()
    one = play_reviewed(Ranks(), job, tmp_path / "one", quiet)
    (tmp_path / "two").mkdir()
    two = together(play_reviewed, 2, job, tmp_path / "two", quiet)
    wrong, gone, labels = corrections(job.shards)
    decided = torch.cat([wrong, gone])
    expected = int((decided < 1_000_000).sum() if quiet else len(decided)) - 1  # one is yet to come
    for rank in two:
        assert rank.changed == one.changed
        assert {at: count for at, count in enumerate(rank.changed, 1) if count} == {
            DECIDED: expected
        }
        assert all(map(torch.equal, rank.picks, one.picks))
        for suspects in (rank.live, rank.last):
            assert suspects
            assert suspects <= set(rank.held.ids.tolist())
        for name in ("chain", "weights", "average", "tracker"):
            assert identical(getattr(rank.result, name), getattr(one.result, name)), name
    held = concat([rank.held for rank in two])
    assert identical(held.columns(), one.held.columns())
    assert not torch.isin(held.ids, gone).any()
    right = dict(zip(wrong.tolist(), labels.tolist(), strict=True))
    now = dict(zip(held.ids.tolist(), held.labels.tolist(), strict=True))
    assert all(now[row] == label for row, label in right.items() if row in now)
