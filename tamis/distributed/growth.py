"""New classes that come up on some rank: all ranks grow in the same slot."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tamis.data import NO_SAMPLES, Samples
from tamis.distributed.corrections import gather_rows
from tamis.distributed.group import Ranks
from tamis.distributed.shard import Shard
from tamis.model_view import ModelView
from tamis.model_view.growth import SUMS, mean_normaliser
from tamis.training.growth import level_of


def check_validators(shards: Sequence[Shard], max_classes: int | None) -> None:
    """Refuse validators that let other classes in than the trainer does."""
    for shard in shards:
        numbers = shard.validator.numbers
        if numbers.max_classes != max_classes:
            raise ValueError(
                f"Validators take up to {numbers.max_classes} classes, the trainer {max_classes}:"
                " give both the same max_classes."
            )
        if numbers.open and not numbers.numbered:
            raise ValueError("Ranks that take new classes need labels that are numbers.")


def count_needed(ranks: Ranks, arrived: Sequence[Samples]) -> int:
    """Return how many classes the labels need that have arrived on any rank."""
    mine = max([0, *(1 + int(samples.labels.max()) for samples in arrived if len(samples))])
    return int(ranks.gather("classes", torch.tensor(mine, device=ranks.device)).max())


def shared_level(ranks: Ranks, view: ModelView, shards: Sequence[Shard]) -> float | None:
    """Return the level of logits, over the rows held on all ranks."""
    pools = [shard.buffer.pool() if len(shard.buffer) else NO_SAMPLES for shard in shards]
    none = torch.empty(0, SUMS, dtype=torch.float64)
    mine = torch.cat([none, *(level_of(view, pool)[None] for pool in pools)]).to(ranks.device)
    total = torch.zeros(SUMS, dtype=torch.float64)
    for sums in gather_rows(ranks, mine).cpu():  # one by one: ranks must not change the rounding
        total += sums
    return mean_normaliser(total)
