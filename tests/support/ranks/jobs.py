"""What ranks do in tests: functions that another process can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tamis import ITLM, OGRS, Alarm, Naive, Plausible, Samples, Sliding, Tracker
from tamis.distributed import RankCheckpoints, Ranks, RankTrainer
from tamis.models import start
from tamis.selectors import Selector
from tamis.selectors.plausible import Neighbours

SELECTORS: dict[str, Callable[[], Selector]] = {
    "naive": Naive,
    "itlm": ITLM,
    "ogrs": OGRS,
    "plausible": lambda: Plausible(neighbours=Neighbours(voters=256)),
}


@dataclass(frozen=True)
class Job:
    """A run, described so that every rank can set it up."""

    selector: str = "plausible"
    slots: int = 40
    shards: int = 2
    every: int = 1
    held: int = 100
    layers: str = "plain"
    settings: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    save_every: int = 0
    stop_at: int = 10**9
    new_from: int | None = None


@dataclass(frozen=True)
class Result:
    """What a rank came to."""

    chain: str
    weights: list[Tensor]
    average: list[Tensor]
    tracker: list[Tensor]
    losses: list[float | None]
    slots: int
    sent: dict[str, int]
    own: list[int]


def model_of(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 24), nn.ReLU(), nn.Linear(24, classes))


def mixing_model(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One whose passes change it, and draw random numbers."""
    norm, drop = nn.BatchNorm1d(24), nn.Dropout(0.3)
    return nn.Sequential(nn.Linear(shape[0], 24), norm, nn.ReLU(), drop, nn.Linear(24, classes))


def points(shard: int, slots: int, rows: int = 2) -> Iterator[Samples]:
    """Points of three classes, three in ten of their labels wrong; ids differ over shards."""
    generator = torch.Generator().manual_seed(100 + shard)
    for slot in range(slots):
        labels = torch.randint(3, (rows,), generator=generator)
        inputs = 2 * torch.eye(3)[labels].repeat(1, 2) + torch.randn(rows, 6, generator=generator)
        clean = torch.rand(rows, generator=generator) < 0.7
        given = torch.where(clean, labels, (labels + 1) % 3)
        yield Samples.of(inputs, given, 1_000_000 * shard + rows * slot, clean=clean)


def arrivals(shard: int, job: Job) -> Iterator[Samples]:
    """The points of a shard; from a slot on, one more class comes up, on the last shard first."""
    for slot, samples in enumerate(points(shard, job.slots)):
        late = job.shards - 1 - shard
        if job.new_from is None or slot < job.new_from + 3 * late:
            yield samples
            continue
        new = samples.labels == 0
        inputs = torch.where(new[:, None] & (samples.ids % 2 > 0)[:, None], -3.0, samples.inputs)
        yield replace(samples, inputs=inputs, labels=samples.labels + 3 * (inputs == -3).all(1))


def trainer_of(ranks: Ranks, job: Job) -> RankTrainer:
    factory = mixing_model if job.layers == "mixing" else model_of
    model = start(factory, (6,), 3, seed=ranks.number)  # the first rank's is what all get
    return RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        SELECTORS[job.selector](),
        buffer=lambda shard: Sliding(job.held),
        k=12,
        shards=job.shards,
        every=job.every,
        pool_size=64,
        window="average" if job.selector == "plausible" else 1,
        tracker=Tracker(3, 200.0) if job.new_from is None else Alarm(3, 200.0),
        max_classes=None if job.new_from is None else 5,
        **job.settings,
    )


def play(ranks: Ranks, job: Job) -> Result:
    """Train on the points, from the newest checkpoint on where there is a folder."""
    trainer, losses = trainer_of(ranks, job), []
    offsets: list[Any] = [None] * len(trainer.own)
    checkpoints = RankCheckpoints(job.folder) if job.folder else None
    if checkpoints:
        offsets = checkpoints.load(trainer)
    streams = [
        islice(arrivals(shard, job), offset or 0, None)
        for shard, offset in zip(trainer.own, offsets, strict=True)
    ]
    for slot in trainer.run(*streams):
        losses.append(slot.loss)
        if checkpoints and job.save_every and trainer.slots % job.save_every == 0:
            checkpoints.save(trainer, [trainer.slots] * len(trainer.own))
        if trainer.slots == job.stop_at:
            break
    return result_of(trainer, losses)


def play_corrected(ranks: Ranks, job: Job) -> tuple[Result, list[int], list[Samples]]:
    """Train on the points; after 20 slots the first rank corrects and removes rows of all."""
    trainer, losses, counts = trainer_of(ranks, job), [], []
    for slot in trainer.run(*(points(shard, job.slots) for shard in trainer.own)):
        losses.append(slot.loss)
        if trainer.slots == 20:
            wrong, gone, labels = corrections(job.shards)
            mine = slice(None) if ranks.number == 0 else slice(0, 0)
            counts.append(trainer.relabel(wrong[mine], labels[mine]))
            counts.append(trainer.relabel(wrong[mine], labels[mine]))
            counts.append(trainer.remove(gone[mine]))
            pools = [shard.buffer.pool() for shard in trainer.shards]
            rows = [pool[torch.arange(len(pool))] for pool in pools]
    return result_of(trainer, losses), counts, rows


def corrections(shards: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids of rows with wrong labels, of rows to be removed, and the labels of the former."""
    wrong, gone, labels = [], [], []
    for shard in range(shards):
        for samples in islice(points(shard, 20), 10, None):
            bad = ~samples.clean
            wrong.append(samples.ids[bad])
            labels.append((samples.labels[bad] - 1) % 3)
            gone.append(samples.ids[~bad][:1])
    return torch.cat(wrong), torch.cat([*gone, torch.tensor([77])]), torch.cat(labels)


def result_of(trainer: RankTrainer, losses: list[float | None]) -> Result:
    state = trainer.state_dict()
    return Result(
        trainer.chain,
        [value.clone() for value in state["model"].values()],
        [value.clone() for value in (state["average"]["average"] or {}).values()],
        list(state["tracker"].values()),
        losses,
        trainer.slots,
        dict(trainer.ranks.sent),
        trainer.own,
    )
