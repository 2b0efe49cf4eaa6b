"""One step over all ranks: the mean over all picks, whoever has them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from tamis import Naive, Picks, Samples, Sliding
from tamis.distributed import Ranks, RankTrainer
from tamis.models import start
from tamis.training.augment import Mixup
from tests.support.ranks.jobs import model_of, points
from tests.support.ranks.processes import together


class First:
    """Picks the first rows: nearly all lie in the first shard, or, by turns, all."""

    def select(self, pool, view, k, generator):
        few = k if pool.ids[0] % 3 else k // 2
        return Picks(torch.arange(few), weights=torch.linspace(0.5, 1.5, few))


class BothEnds:
    """Picks most rows from the first shard, and a quarter from the last."""

    def select(self, pool, view, k, generator):
        last = k // 4
        rows = torch.cat([torch.arange(k - last), torch.arange(len(pool) - last, len(pool))])
        return Picks(rows, weights=torch.linspace(0.5, 1.5, k))


def train(ranks: Ranks, every: int = 1) -> list[torch.Tensor]:
    model = start(model_of, (6,), 3, seed=0).double()
    trainer = RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        First(),
        buffer=lambda shard: Sliding(20),
        k=14,
        shards=2,
        every=every,
        pool_size=20,
    )
    own = [double(points(shard, 50)) for shard in trainer.own]
    slots = list(trainer.run(*own))
    assert len(slots) == 50 + (-50) % every  # that all have ended is found out in a meeting
    return [value.detach() for value in model.parameters()]


def double(stream):
    for samples in stream:
        yield Samples(samples.inputs.double(), *list(samples.columns().values())[1:])


@pytest.mark.parametrize("every", [1, 3])
def test_a_rank_without_picks_gives_zeros(every: int) -> None:
    one = train(Ranks(), every)
    for rank in together(train, 2, every):
        assert all(map(torch.equal, one, rank))


def test_the_mean_is_over_all_picks() -> None:
    """Against the sum written out: a mean for every rank would be off by far."""
    model = start(model_of, (6,), 3, seed=0).double()
    trainer = RankTrainer(
        Ranks(),
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        BothEnds(),
        buffer=lambda shard: Sliding(20),
        k=14,
        shards=2,
        pool_size=40,
    )
    twin = start(model_of, (6,), 3, seed=0).double()
    optimizer = torch.optim.SGD(twin.parameters(), 0.1)
    uneven = 0
    for items in zip(double(points(0, 30)), double(points(1, 30)), strict=True):
        slot = trainer.step(*items)
        pools = [shard.buffer.pool() for shard in trainer.shards]
        ids, inputs, labels = (
            torch.cat([getattr(pool, name) for pool in pools])
            for name in ("ids", "inputs", "labels")
        )
        picked = (slot.ids[:, None] == ids).nonzero()[:, 1]
        from_first = int((picked < len(pools[0])).sum())
        uneven += from_first not in (0, len(picked) - from_first, len(picked))
        inputs, labels = inputs[picked], labels[picked]
        weights = torch.linspace(0.5, 1.5, len(picked))
        loss = (cross_entropy(twin(inputs), labels, reduction="none") * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert uneven >= 25, "picks of one shard alone, or as many of each, show nothing"
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert (ours - theirs).abs().max() < 1e-14


def test_augmented_rows_stay_with_their_shard() -> None:
    one = mixed(Ranks())
    for rank in together(mixed, 2):
        assert all(map(torch.equal, one, rank))


def mixed(ranks: Ranks) -> list[torch.Tensor]:
    model = start(model_of, (6,), 3, seed=0)
    trainer = RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        First(),
        buffer=lambda shard: Sliding(20),
        k=14,
        shards=2,
        pool_size=20,
        augment=Mixup(),
    )
    for _ in trainer.run(*(points(shard, 20) for shard in trainer.own)):
        pass
    return [value.detach() for value in model.parameters()]


def test_a_diverged_step_is_skipped_by_all() -> None:
    for skipped, finite in together(make_non_finite, 2):
        assert (skipped, finite) == (1, True)


def make_non_finite(ranks: Ranks) -> tuple[int, bool]:
    """The criterion of one rank gives no number in one slot."""
    model = start(model_of, (6,), 3, seed=0)

    def criterion(logits, targets):
        losses = cross_entropy(logits, targets, reduction="none")
        diverges = ranks.number == 1 and trainer.slots == 5 and logits.requires_grad
        return losses * torch.nan if diverges else losses

    trainer = RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        Naive(),
        buffer=lambda shard: Sliding(20),
        k=24,
        pool_size=40,
        criterion=criterion,
    )
    for _ in trainer.run(points(ranks.number, 12)):
        pass
    return trainer.skipped_steps, all(bool(w.isfinite().all()) for w in model.parameters())
