"""Two ranks pick what one rank picks, and one rank what a plain trainer does, bit for bit."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import Tensor

from tamis import ModelView, Sliding, Tracker, Trainer, Validator
from tamis.data import concat
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


FROM_SHARDS = [kind for kind in ALL if kind is not PaperOGRS]  # which walks through the inputs


@pytest.mark.parametrize("selector", FROM_SHARDS, ids=lambda selector: selector.__name__)
def test_every_selector_picks_from_tickets_as_from_inputs(selector: type) -> None:
    trainer = trainer_of(Ranks(), Job("plausible"))
    same = []

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
            same.append(torch.equal(picks.rows, beside.rows))
            return picks

    rule, trainer.selector = selector(), Beside()
    slots = list(trainer.run(points(0, 12), points(1, 12)))
    assert same == [True] * 12
    assert all(slot.loss is not None for slot in slots[1:])
    ids = torch.cat([slot.ids for slot in slots])
    assert {bool(part) for part in (ids >= 1_000_000)} == {True, False}


@pytest.mark.parametrize("selector", [OGRS(space="inputs"), PaperOGRS()])
def test_inputs_are_not_to_be_looked_at(selector: Selector) -> None:
    trainer = trainer_of(Ranks(), Job())
    trainer.selector = selector
    with pytest.raises(TypeError, match="use feature space"):
        list(trainer.run(points(0, 3), points(1, 3)))


def test_pairs_are_numbered_apart() -> None:
    for held in ([number_pairs(Ranks())], together(number_pairs, 2)):
        numbers = torch.cat(held)
        assert sorted(numbers.tolist()) == list(range(16))


def number_pairs(ranks: Ranks) -> Tensor:
    """Train on pairs, and return the ids of the rows held here."""
    trainer = trainer_of(ranks, Job("naive"))
    streams = [
        ((samples.inputs, samples.labels) for samples in points(shard, 4)) for shard in trainer.own
    ]
    picked = torch.cat([slot.ids for slot in trainer.run(*streams)])
    assert {number % 2 for number in picked.tolist()} == {0, 1}
    return trainer.held().ids


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
    slots = []
    for slot in trainer.run(*streams):
        slots.append(slot)
        if slot.number % 4 == 1:  # a meeting: the rows of all slots up to the one before are in
            assert tracker.rows >= 2 * 2 * min(18, slot.number - 4)
    assert len(slots) == 28  # it ends at a meeting
    assert tracker.rows == slots[-1].seen == 2 * 2 * 18
    picked = Counter(number for slot in slots for number in slot.ids.tolist())
    held = concat([shard.buffer.pool() for shard in trainer.shards])
    uses = dict(zip(held.ids.tolist(), held.uses.tolist(), strict=True))
    assert uses == {number: picked[number] for number in uses}
    assert sum(uses.values()) == picked.total()


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
