"""Whether labels carry information is judged on ranks as on one machine, by Cohen's kappa."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from tamis import Monitor, Naive, Samples, Sliding
from tamis.distributed import Ranks, RankTrainer
from tamis.models import logistic, start
from tamis.monitoring.collapse import NO_INFORMATION
from tests.support.ranks.processes import together

ROWS, SLOTS = 40, 120


def rare(shard: int, informative: bool) -> Iterator[Samples]:
    """3 in 100 rows are of the second class, and a fifth of all labels are wrong."""
    generator = torch.Generator().manual_seed(shard)
    for slot in range(SLOTS):
        classes = torch.rand(ROWS, generator=generator) < 0.03
        inputs = torch.randn(ROWS, 4, generator=generator)
        inputs += 4 * classes[:, None] if informative else 0
        labels = (classes ^ (torch.rand(ROWS, generator=generator) < 0.2)).long()
        yield Samples.of(inputs, labels, ROWS * (SLOTS * shard + slot))


def judge(ranks: Ranks, informative: bool, every: int = 1) -> tuple[bool, float, list[int]]:
    """Return whether the labels are found to be without information, the lead, and the counts."""
    model = start(logistic, (4,), 2, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = RankTrainer(
        ranks, model, optimizer, Naive(), buffer=lambda shard: Sliding(500), shards=2, every=every
    )
    monitor, counted = Monitor(patience=5), torch.zeros(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for slot in trainer.run(*(rare(shard, informative) for shard in trainer.own)):
            monitor.update(slot)
            if slot.class_arrived is not None and slot.class_predicted is not None:
                counted += torch.stack([slot.class_arrived, slot.class_predicted])
    lead = monitor._predictions.lead()
    return NO_INFORMATION in monitor.warnings, lead, counted.flatten().long().tolist()


@pytest.mark.parametrize(("informative", "every"), [(True, 1), (False, 1), (True, 4)])
def test_a_rare_class_that_is_learned_is_information(informative: bool, every: int) -> None:
    without_information, _, counted = judge(Ranks(), informative, every)
    assert without_information == (not informative)
    arrived, predicted = sum(counted[:2]), sum(counted[2:])
    last = 2 * ROWS * every  # predicted while the ranks meet, and counted in the next meeting
    assert 2 * ROWS * SLOTS - last <= arrived == predicted <= 2 * ROWS * SLOTS
    assert 0.2 < counted[1] / arrived < 0.24


@pytest.mark.slow
def test_two_ranks_judge_as_one() -> None:
    one = judge(Ranks(), True, 3)
    assert together(judge, 2, True, 3) == [one, one]
