"""Two ranks pick what one rank picks, and one rank what a plain trainer does, bit for bit."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import Tensor

from tamis import ModelView, Sliding, Tracker, Trainer, Validator
from tamis.distributed import Ranks, RankTrainer
from tamis.models import start
from tamis.selectors import OGRS, PaperOGRS, Selector
from tamis.selectors import SELECTORS as ALL
from tests.support.identical import identical
from tests.support.ranks.jobs import (
    SELECTORS,
    Job,
    Result,
    model_of,
    play,
    points,
    result_of,
    trainer_of,
)
from tests.support.ranks.processes import together


def assert_same(one: Result, other: Result) -> None:
    assert one.chain == other.chain
    for name in ("weights", "average", "tracker", "losses", "slots"):
        assert identical(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize("selector", SELECTORS)
def test_two_ranks_pick_what_one_picks(selector: str) -> None:
    job = Job(selector, slots=100)
    one = play(Ranks(), job)
    assert one.slots == 100
    for rank in together(play, 2, job):
        assert_same(one, rank)


@pytest.mark.parametrize(
    "job",
    [
        Job("plausible", every=4),
        Job("ogrs", every=7, settings={"warm_up": 10}),
        Job("plausible", shards=5),
        Job("itlm", layers="mixing", shards=3),
    ],
    ids=["meeting seldom", "seldom, warm-up", "five shards", "batch norm and dropout"],
)
def test_who_holds_a_shard_changes_nothing(job: Job) -> None:
    one = play(Ranks(), job)
    ranks = together(play, 2, job)
    assert [rank.own for rank in ranks] == [
        list(range((job.shards + 1) // 2)), list(range((job.shards + 1) // 2, job.shards)),
    ]  # fmt: skip
    for rank in ranks:
        assert_same(one, replace(rank, losses=one.losses) if job.every > 1 else rank)


@pytest.mark.parametrize("selector", SELECTORS)
def test_one_shard_on_one_rank_is_a_plain_trainer(selector: str) -> None:
    job = Job(selector, shards=1, held=60)
    ours = trainer_of(Ranks(), job)
    model = start(model_of, (6,), 3, seed=0)
    plain = Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        SELECTORS[selector](),
        Sliding(60),
        k=12,
        window=1 if ours.window else "average",
        validator=Validator(3),
        tracker=Tracker(3, 200.0),
    )
    before = None
    for slot, other in zip(ours.run(points(0, 60)), plain.run(points(0, 60)), strict=True):
        assert torch.equal(slot.picked, other.picked)
        found, expected = slot.read(), other.read()
        assert found == expected | {
            "agreement": before
        }  # predicted while ranks met: reported later
        before = expected["agreement"]
        assert (slot.seen, slot.held) == (other.seen, other.held)
    assert all(map(torch.equal, ours.model.parameters(), model.parameters()))
    assert identical(ours.tracker.state_dict(), plain.tracker.state_dict())


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_pool_of_tickets_is_picked_from_like_one_of_inputs(selector: str) -> None:
    trainer = trainer_of(Ranks(), Job(selector))
    seen = []

    class Beside:
        """Picks from tickets, and beside it from the inputs themselves, all in one place."""

        def select(self, pool, view, k, generator):
            inputs = torch.cat(
                [
                    trainer.pool.inputs(shard, where)
                    for shard, where in trainer.pool.parts(pool.inputs[:, 0])
                ]
            )
            plain = ModelView(view.model, view.memory)
            copied = torch.Generator().set_state(generator.get_state())
            beside = deepcopy(rule).select(replace(pool, inputs=inputs), plain, k, copied)
            picks = rule.select(pool, view, k, generator)
            seen.append(torch.equal(picks.rows, beside.rows))
            return picks

    rule, trainer.selector = trainer.selector, Beside()
    list(trainer.run(points(0, 60), points(1, 60)))
    assert seen == [True] * 60


FROM_SHARDS = [kind for kind in ALL if kind is not PaperOGRS]  # which walks through the inputs


@pytest.mark.parametrize("selector", FROM_SHARDS, ids=lambda selector: selector.__name__)
def test_every_selector_can_pick_from_shards(selector: type) -> None:
    trainer = trainer_of(Ranks(), Job())
    trainer.selector = selector()
    slots = list(trainer.run(points(0, 12), points(1, 12)))
    ids = torch.cat([slot.ids for slot in slots])
    assert {bool(part) for part in (ids >= 1_000_000)} == {True, False}
    assert all(slot.loss is not None for slot in slots[1:])


@pytest.mark.parametrize("selector", [OGRS(space="inputs"), PaperOGRS()])
def test_inputs_are_not_to_be_looked_at(selector: Selector) -> None:
    trainer = trainer_of(Ranks(), Job())
    trainer.selector = selector
    with pytest.raises(TypeError, match="use feature space"):
        list(trainer.run(points(0, 3), points(1, 3)))


def test_pairs_are_numbered_apart() -> None:
    trainer = trainer_of(Ranks(), Job("naive"))
    streams = [
        ((samples.inputs, samples.labels) for samples in points(shard, 4)) for shard in range(2)
    ]
    ids = torch.cat([slot.ids for slot in trainer.run(*streams)])
    assert set(ids.tolist()) <= set(range(16))
    assert {number % 2 for number in ids.tolist()} == {0, 1}
    held = trainer.held().ids
    assert len(held.unique()) == len(held) == 16


def test_streams_that_end_apart_and_one_that_never_began() -> None:
    """Ranks go on until the last stream has ended; a rank with nothing takes part."""
    one = uneven(Ranks())
    for rank in together(uneven, 3):
        assert_same(one, rank)
    assert one.slots == 40


def uneven(ranks: Ranks) -> Result:
    job = Job("plausible", shards=3)
    trainer = trainer_of(ranks, job)
    streams = [points(0, 40), islice(idle(points(1, 30)), 12), iter(())]
    losses = [slot.loss for slot in trainer.run(*(streams[shard] for shard in trainer.own))]
    return result_of(trainer, losses)


def idle(stream):
    """Nothing in every other slot."""
    for samples in stream:
        yield samples
        yield None


def test_between_meetings_uses_are_exact_and_the_tracker_gets_all_rows() -> None:
    """A row that arrives between two meetings is announced in one, and sent in the next."""

    class Counting(Tracker):
        rows = 0

        def update(self, probabilities: Tensor, labels: Tensor) -> None:
            self.rows += len(labels)
            super().update(probabilities, labels)

    trainer = trainer_of(Ranks(), Job("naive", every=4))
    trainer.tracker = tracker = Counting(3, 200.0)
    streams = [[*points(shard, 18), *[None] * 9] for shard in range(2)]
    slots = list(trainer.run(*streams))
    assert len(slots) % 4 == 0  # it ends at a meeting
    assert tracker.rows == slots[-1].seen == 2 * 2 * 18
    uses = sum(int(shard.buffer.pool().uses.sum()) for shard in trainer.shards)
    assert uses == sum(len(slot.ids) for slot in slots)


def test_more_ranks_than_shards() -> None:
    job = Job("ogrs", slots=20)
    one = play(Ranks(), job)
    ranks = together(play, 3, job)
    assert [rank.own for rank in ranks] == [[0], [1], []]
    assert all(rank.slots == one.slots for rank in ranks)
    # Three vectors are added up in an order of the backend's own; two, and zeros, in any.
    assert {rank.chain for rank in ranks} == {one.chain}


def test_what_does_not_fit_is_refused() -> None:
    trainer = trainer_of(Ranks(), Job())
    with pytest.raises(ValueError, match=r"Rank 0 has shards \[0, 1\], and got 1"):
        next(trainer.run(points(0, 3)))
    with pytest.raises(ValueError, match="at least 1"):
        trainer_of(Ranks(), Job(every=0))
    model = model_of((6,), 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'refresh'"):
        RankTrainer(
            Ranks(), model, torch.optim.SGD(model.parameters()), OGRS(), buffer=Sliding, refresh=3
        )
