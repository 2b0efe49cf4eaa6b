"""Checkpoints of a job of many ranks: shards side by side, and one part that all have in common."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from tamis.checkpoint import Checkpoints, DamagedFileError, NotSavedError, RefusedError
from tamis.checkpoint.manifest import read_manifest
from tamis.distributed.group import Ranks
from tamis.distributed.trainer import RankTrainer

KEPT = 2
"""Slots kept: should the newest turn out damaged, there is one before it."""
COMMON = "common"
NEVER = -1


class RankCheckpoints:
    """Saves a job to a folder that all its ranks see, and restores it on any number of them.

    A checkpoint is a folder named by its slot. Every shard is in a folder of its own, written by
    the rank that holds it; once all of them are safe, the first rank writes what is common to all.
    Only then does the checkpoint exist: what was half written when a job died is ignored. Each
    part is a generation of `Checkpoints`, complete or absent, with its checksums.

        checkpoints = RankCheckpoints(Path("run/checkpoints"))
        trainer = RankTrainer(..., shards=checkpoints.shards() or ranks.size)
        offsets = checkpoints.load(trainer)
        for slot in trainer.run(*map(read, trainer.own, offsets)):
            if slot.number % 1000 == 999:
                checkpoints.save(trainer, [...])
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = Path(folder)
        self.settings = dict(settings or {})

    def shards(self) -> int | None:
        """Return the number of shards of the newest checkpoint; None where there is none."""
        for slot in reversed(self.slots()):
            with suppress(DamagedFileError):
                return int(read_manifest(self._newest(slot)).settings["shards"])
        return None

    def slots(self) -> list[int]:
        """List the slots that there are checkpoints of, oldest first, damaged or not."""
        return [slot for slot in self._started() if self._part(slot, COMMON).generations()]

    def save(
        self,
        trainer: RankTrainer,
        offsets: Sequence[Any] | None = None,
        others: Mapping[str, object] | None = None,
    ) -> None:
        """Save a checkpoint; every rank calls it after the same slot, and returns once it is safe.

        `offsets` are JSON: where the source of each shard here goes on. `others` are further parts,
        by name, that the first rank saves. All ranks raise `NotSavedError` where one of them could
        not write.
        """
        offsets = [None] * len(trainer.own) if offsets is None else offsets
        slot, ranks, trouble = trainer.slots, trainer.ranks, None
        try:
            if not trainer.sound:
                raise NotSavedError(
                    "The last step was skipped: the checkpoint from before it is kept."
                )
            for shard, offset in zip(trainer.shards, offsets, strict=True):
                self._part(slot, f"shard-{shard.number}").save(shard, offset)
        except NotSavedError as error:
            trouble = error
        if ranks.all_true(trouble is None):
            try:
                if ranks.number == 0:
                    self._part(slot, COMMON).save(trainer, others=others)
            except NotSavedError as error:
                trouble = error
        if not ranks.all_true(trouble is None):
            raise trouble or NotSavedError(
                "Another rank could not write its part of the checkpoint."
            )
        if ranks.number == 0:
            self._tidy(self.slots()[-KEPT:])

    def load(
        self,
        trainer: RankTrainer,
        allow_mismatch: bool = False,
        others: Mapping[str, object] | None = None,
    ) -> list[Any]:
        """Restore the newest checkpoint that every rank can read, and return its offsets.

        Every rank calls it, the first one with the `others` that it has saved. Where there is no
        checkpoint at all, each shard's offset is None.
        """
        ranks, slots, trouble = trainer.ranks, self._agreed(trainer.ranks), None
        for slot in slots:
            try:
                offsets = self._restore(slot, trainer, allow_mismatch, others)
                trouble = None
            except RefusedError as error:
                trouble = error
            if ranks.all_true(trouble is None):
                if ranks.number == 0:
                    self._tidy([older for older in self.slots() if older <= slot])
                return offsets
        if slots:
            raise trouble or RefusedError("Another rank could not read its part of any checkpoint.")
        return [None] * len(trainer.own)

    def clear(self) -> None:
        """Remove all checkpoints; one rank calls it."""
        self._tidy(())

    def read_offset(self) -> Any:
        """Return the offset of the first shard in the newest checkpoint; None where none is."""
        for slot in reversed(self.slots()):
            return self._part(slot, "shard-0").read_offset()
        return None

    def _restore(
        self,
        slot: int,
        trainer: RankTrainer,
        allow_mismatch: bool,
        others: Mapping[str, object] | None,
    ) -> list[Any]:
        self._part(slot, COMMON).load(trainer, others, allow_mismatch)
        parts = [(shard, self._part(slot, f"shard-{shard.number}")) for shard in trainer.shards]
        return [part.load(shard, allow_mismatch=allow_mismatch).offset for shard, part in parts]

    def _agreed(self, ranks: Ranks) -> list[int]:
        """List the slots that the first rank finds, newest first."""
        found = torch.full((2 * KEPT,), NEVER, device=ranks.device)
        slots = self.slots()[: -len(found) - 1 : -1]
        found[: len(slots)] = torch.tensor(slots, dtype=torch.long)
        ranks.share([found])
        return [slot for slot in found.tolist() if slot != NEVER]

    def _started(self) -> list[int]:
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(int(path.name) for path in paths if path.name.isdecimal())

    def _part(self, slot: int, name: str) -> Checkpoints:
        return Checkpoints(self.folder / f"{slot:012d}" / name, self.settings)

    def _newest(self, slot: int) -> Path:
        part = self._part(slot, COMMON)
        return part.folder / f"{part.generations()[-1]:08d}"

    def _tidy(self, kept: Sequence[int]) -> None:
        """Remove all others: the common part first, so that no half of one is ever taken."""
        for slot in set(self._started()) - set(kept):
            with suppress(OSError):  # the next save tries again
                self._part(slot, COMMON).clear()
                shutil.rmtree(self.folder / f"{slot:012d}")
