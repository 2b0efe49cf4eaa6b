"""What the commands that train need where rows are on many ranks."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn

from tamis.buffers import BUFFERS, Buffer, PuriDivER
from tamis.cli.building import choose
from tamis.distributed import RankCheckpoints, RankLostError, Ranks, RankTrainer
from tamis.distributed.lead import LeadCheckpoints, LeadTrainer
from tamis.distributed.member import Member
from tamis.distributed.orders import Orders
from tamis.distributed.pool import owners
from tamis.distributed.reading import QueuedRejects, ShardReader
from tamis.distributed.wire import Message
from tamis.errors import TamisError, UsageError
from tamis.noise import Alarm
from tamis.runs import RunFiles
from tamis.selectors import Selector
from tamis.selectors.protocol import preferred_warm_up
from tamis.sources import Rejects, Validator
from tamis.training.augment import Augment
from tamis.training.folder import has_checkpoint
from tamis.training.positions import Positioned

POOL_SIZE = 1024
"""Rows that a selector sees, over all ranks, where no option gives another number."""


class NotOnThisRankError(TamisError):
    """What went wrong before training began, on some rank."""


class Crew:
    """The ranks of a run, and the shards that are this rank's.

    A run that is resumed has the shards that it was begun with, whatever the number of ranks.
    """

    def __init__(self, options: Namespace, ranks: Ranks) -> None:
        self.ranks = ranks
        self.orders = Orders(ranks)
        folder = options.out / RunFiles.checkpoints
        saved = RankCheckpoints(folder).shards() if options.resume else None
        if options.resume and saved is None and has_checkpoint(options.out):
            raise UsageError(f"{options.out} was not made by workers: resume it without --workers.")
        self.shards = saved or options.shards or ranks.size
        self.resumed = saved is not None
        self.folder = folder
        self.rejects = [QueuedRejects() for _ in range(self.shards)]
        self._lead: LeadTrainer | None = None

    @property
    def first(self) -> bool:
        """Whether this rank owns the run."""
        return self.ranks.number == 0

    @property
    def own(self) -> list[int]:
        """The shards of this rank."""
        ranks = owners(self.shards, self.ranks.size)
        found: list[int] = (ranks == self.ranks.number).nonzero()[:, 0].tolist()
        return found

    def saved_offset(self) -> Any:
        """Return the offset of the first shard in the newest checkpoint."""
        return RankCheckpoints(self.folder).read_offset()

    def build(
        self,
        options: Namespace,
        model: nn.Module,
        selector: Selector,
        classes: int,
        validator: Validator,
        optimizer: torch.optim.Optimizer | None = None,
        augment: Augment | None = None,
        waiting: object = None,
    ) -> RankTrainer:
        """Build the trainer of this rank, as `build_trainer` builds that of one process."""
        kind = choose("buffer", options.buffer, BUFFERS)
        disk = {"disk": options.out} if options.on_disk else {}
        buffers: list[Buffer] = []

        def buffer(shard: int) -> Buffer:
            buffers.append(kind(max(1, options.capacity // self.shards), **disk))
            return buffers[-1]

        warm_up = preferred_warm_up(selector) if options.warm_up is None else options.warm_up
        try:
            trainer = RankTrainer(
                self.ranks,
                model,
                optimizer or torch.optim.SGD(model.parameters(), options.rate),
                selector,
                buffer=buffer,
                k=options.k,
                shards=self.shards,
                pool_size=options.pool_size or POOL_SIZE,
                augment=augment,
                validator=lambda shard: Validator(classes, "skip", rejects=self.rejects[shard]),
                classes=classes,
                warm_up=warm_up,
                window=options.window,
                ema=options.ema,
                tracker=Alarm(classes),
                seed=options.seed,
            )
        except (ValueError, RuntimeError, AssertionError) as error:
            raise UsageError(str(error).splitlines()[0]) from None
        for one in buffers:
            if isinstance(one, PuriDivER):
                one.view = trainer.averaged
        return trainer

    def member(
        self,
        trainer: RankTrainer,
        streams: Sequence[Positioned],
        settings: dict[str, Any],
        live: bool,
    ) -> Member:
        """Return this rank of the run; `streams` are those of the shards here."""
        pairs = zip(trainer.own, streams, strict=True)
        readers = [ShardReader(stream, self.rejects[shard], live) for shard, stream in pairs]
        return Member(self.orders, trainer, readers, RankCheckpoints(self.folder, settings))

    def lead(self, member: Member, rejects: Rejects) -> LeadTrainer:
        """Return what the first rank trains with."""
        validator = Validator(member.trainer.classes, "skip", rejects=rejects)
        self._lead = LeadTrainer(member, validator)
        return self._lead

    def checkpoints(self) -> LeadCheckpoints | None:
        """Return the checkpoints of the run, once it has a lead."""
        return LeadCheckpoints(self._lead) if self._lead else None

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Report on the first rank what goes wrong on any before training begins."""
        trouble: Exception | None = None
        try:
            yield
        except (TamisError, OSError) as error:
            trouble = error
        found = self.orders.answer(Message(trouble and str(trouble), {}))
        if trouble:
            raise trouble
        for rank, message in enumerate(found):
            if message.content:
                raise NotOnThisRankError(f"On rank {rank}: {message.content}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(RankLostError):
            if self._lead:
                self._lead.close()
            elif self.first:
                self.orders.give("end")
