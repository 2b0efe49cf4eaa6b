"""Corrected labels cross ranks: two ranks go on as one does, and one as a plain trainer does."""

from __future__ import annotations

import pytest
import torch

from tamis import Sliding, Tracker, Trainer, Validator
from tamis.distributed import Ranks
from tamis.models import start
from tests.support.identical import identical
from tests.support.ranks.jobs import (
    SELECTORS,
    Job,
    corrections,
    model_of,
    play,
    play_corrected,
    points,
    trainer_of,
)
from tests.support.ranks.processes import together


@pytest.mark.parametrize(
    "job", [Job("plausible"), Job("plausible", every=4), Job("itlm", shards=3)], ids=str
)
def test_two_ranks_correct_what_one_corrects(job: Job) -> None:
    one, counts, rows = play_corrected(Ranks(), job)
    wrong, gone, _ = corrections(job.shards)
    assert counts == [len(wrong), 0, len(gone) - 1]
    held = torch.cat([part.ids for part in rows])
    assert not torch.isin(held, gone).any()
    assert all(part.clean[torch.isin(part.ids, wrong)].all() for part in rows)
    two = together(play_corrected, 2, job)
    for other, others, _ in two:
        assert others == counts
        assert other.chain == one.chain
        for name in ("weights", "average", "tracker"):
            assert identical(getattr(one, name), getattr(other, name)), name
    there = [part for _, _, parts in two for part in parts]
    assert all(torch.equal(a.labels, b.labels) for a, b in zip(rows, there, strict=True))
    assert one.chain != play(Ranks(), job).chain


@pytest.mark.parametrize("selector", SELECTORS)
def test_one_rank_corrects_what_a_plain_trainer_corrects(selector: str) -> None:
    ours = trainer_of(Ranks(), Job(selector, shards=1, held=60))
    model = start(model_of, (6,), 3, seed=0)
    plain = Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        SELECTORS[selector](),
        Sliding(60),
        k=12,
        validator=Validator(3),
        tracker=Tracker(3, 200.0),
    )
    wrong, gone, labels = corrections(1)
    for slot, other in zip(ours.run(points(0, 40)), plain.run(points(0, 40)), strict=True):
        assert torch.equal(slot.picked, other.picked)
        if slot.number == 30:  # the plain trainer's tracker has seen one more slot
            assert ours.relabel(wrong, labels) == plain.relabel(wrong, labels) > 0
            assert ours.remove(gone) == plain.remove(gone) > 0
    held = ours.shards[0].buffer.pool(), plain.buffer.pool()
    assert torch.equal(held[0].labels, held[1].labels)
    assert identical(ours.state_dict()["selector"], plain.state_dict()["selector"])


def test_labels_that_are_no_class_are_refused() -> None:
    trainer = trainer_of(Ranks(), Job())
    with pytest.raises(ValueError, match="below 3"):
        trainer.relabel(torch.tensor([1]), torch.tensor([3]))
