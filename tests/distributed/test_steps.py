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


class Uneven:
    """Picks three rows of the first shard for each of the second, weighed by their ids."""

    def select(self, pool, view, k, generator):
        first, few = pool.ids < 1_000_000, max(1, k // 4)
        rows = torch.cat([first.nonzero()[: k - few, 0], (~first).nonzero()[:few, 0]])
        return Picks(rows, weights=weights_of(pool.ids[rows]))


def weights_of(ids: torch.Tensor) -> torch.Tensor:
    return 0.5 + (ids % 7) / 7


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


@pytest.mark.parametrize("every", [1, 3])
def test_the_mean_is_over_all_picks_of_all_ranks(every: int) -> None:
    """Against the sum written out: a mean for every rank would be off by far."""
    (slots, weights), (others, same) = together(train_unevenly, 2, every)
    twin = start(model_of, (6,), 3, seed=0).double()
    optimizer = torch.optim.SGD(twin.parameters(), 0.1)
    arrived = [samples for shard in range(2) for samples in double(points(shard, 30))]
    rows = {
        number: (inputs, label)
        for samples in arrived
        for number, inputs, label in zip(
            samples.ids.tolist(), samples.inputs, samples.labels, strict=True
        )
    }
    uneven = 0
    for (ids, reported), (other_ids, also) in zip(slots, others, strict=True):
        picked = sorted({*ids, *other_ids})  # between meetings each rank reports its own picks
        from_first = sum(number < 1_000_000 for number in picked)
        uneven += from_first not in (0, len(picked) - from_first, len(picked))
        inputs, labels = (torch.stack(part) for part in zip(*map(rows.get, picked), strict=True))
        losses = cross_entropy(twin(inputs), labels, reduction="none")
        loss = (losses * weights_of(torch.tensor(picked))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert reported == also == pytest.approx(loss.item(), rel=1e-6)
    assert uneven >= 25, "picks of one shard alone, or as many of each, show nothing"
    for one, two, ours in zip(weights, same, twin.parameters(), strict=True):
        assert torch.equal(one, two)
        assert (one - ours).abs().max() < 1e-14


def train_unevenly(ranks: Ranks, every: int) -> tuple[list[tuple[list[int], float]], list]:
    """Return the picks and the loss that every slot reports here, and the weights at the end."""
    model = start(model_of, (6,), 3, seed=0).double()
    trainer = RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        Uneven(),
        buffer=lambda shard: Sliding(20),
        k=14,
        shards=2,
        every=every,
        pool_size=40,
    )
    slots = [
        (slot.ids.tolist(), slot.loss)
        for slot in trainer.run(*(double(points(shard, 30)) for shard in trainer.own))
    ]
    return slots, [value.detach() for value in model.parameters()]


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
