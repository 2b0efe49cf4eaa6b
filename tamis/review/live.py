"""Suspects while a run is in progress: new rows are scored, and the worst are kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tamis.checkpoint import pack_texts, unpack_texts
from tamis.data import Samples, concat
from tamis.review.files import write_review_files
from tamis.review.previews import Previewer
from tamis.review.protocol import ReviewedTrainer
from tamis.review.queue import ReviewQueue
from tamis.review.records import TableRows
from tamis.review.scorer import LabelScorer
from tamis.runs import Suspect

MOST_HELD = 2048
"""Rows held that new rows are compared with, at the most."""
MOST_COMPARED = 200
"""Suspects with neighbours while a run is in progress: the next round has others."""
MOST_A_SLOT = 20
"""Rows of a slot that are scored, so that the rows in memory stay bounded."""
CPU = torch.device("cpu")


class Waiting(NamedTuple):
    """Rows, their ids as text, and the slots that they arrived in."""

    samples: Samples
    ids: list[str]
    slots: list[int]


class LiveSuspects:
    """Keeps suspects.jsonl of a running trainer up to date.

    Call `update` once a slot with the rows that arrived. Every `every` slots, and first after a
    quarter and a half of them, the rows that arrived since are scored, and those in the queue are
    scored again: as labels are corrected and the model learns, some are suspects no longer. What
    is decided leaves the queue. Only the inputs of rows that are in the queue, or wait for their
    score, are in memory.

        live = LiveSuspects(folder, trainer, classes, previewer(shape))
        for samples, ids in rows:
            live.update(trainer.step(samples).number, samples, ids)

    Parameters
    ----------
    folder: folder of the run
    trainer: the trainer whose rows and model are used
    classes: names of the classes
    preview: makes the preview of a row
    queue: holds the worst suspects
    every: slots from one round to the next
    decided: returns the ids of all rows whose label is decided
    givers: returns who gave the labels of rows, by name
    table: cells of rows as they were written, in place of previews
    """

    def __init__(
        self,
        folder: Path,
        trainer: ReviewedTrainer,
        classes: Sequence[str],
        preview: Previewer,
        *,
        queue: ReviewQueue | None = None,
        every: int = 1000,
        decided: Callable[[], set[str]] = set,
        givers: Callable[[Sequence[int]], list[str]] | None = None,
        table: TableRows | None = None,
    ) -> None:
        self.folder = folder
        self.trainer = trainer
        self.classes = classes
        self.preview = preview
        self.queue = queue or ReviewQueue()
        self.every = every
        self.decided = decided
        self.givers = givers
        self.table = table
        self._waiting: list[Waiting] = []
        self._generator = torch.Generator().manual_seed(0)

    def update(self, slot: int, samples: Samples | None, ids: Sequence[str] | None = None) -> None:
        """Remember the rows that arrived in a slot, and score them when it is time."""
        if samples is not None and len(samples):
            samples = samples[slice(MOST_A_SLOT)]
            named = list(ids or map(str, samples.ids.tolist()))[:MOST_A_SLOT]
            self._waiting.append(Waiting(samples, named, [slot] * len(named)))
        done = slot + 1
        if done % self.every == 0 or done in (self.every // 4, self.every // 2):
            self.rescore(slot)

    def forget(self, numbers: Collection[int]) -> None:
        """Forget rows whose labels have changed, or are gone."""
        gone = set(numbers)
        if not gone:
            return
        for at, part in enumerate(self._waiting):
            rows = part.samples.ids.tolist()
            kept = [place for place, row in enumerate(rows) if row not in gone]
            if len(kept) < len(rows):
                for place in set(range(len(rows))) - set(kept):
                    self.queue.remove(part.ids[place])
                samples = part.samples[torch.tensor(kept, dtype=torch.long)]
                ids, slots = [part.ids[place] for place in kept], [part.slots[p] for p in kept]
                self._waiting[at] = Waiting(samples, ids, slots)
        self._waiting = [part for part in self._waiting if len(part.samples)]

    def rescore(self, slot: int) -> None:
        """Score the rows that wait and those in the queue, and write the suspects."""
        self.queue.set_decided(self.decided())
        if not self._waiting or not self.trainer.held_count:
            return
        held = self.trainer.held()
        held = held[
            torch.randperm(len(held), generator=self._generator)[:MOST_HELD].to(held.ids.device)
        ]
        rows, ids, slots = self._all()
        newest = {name: at for at, name in enumerate(ids)}  # a row may have arrived twice
        scores = self._scores(rows, held)
        found = []
        for name, at in newest.items():
            if at not in scores:
                self.queue.remove(name)
                continue
            score, suggested = scores[at][0], self.classes[scores[at][1]]
            if name in self.queue:
                self.queue.rescore(name, score, suggested)
            else:
                given = self.classes[int(rows.labels[at])]
                found.append(Suspect(name, given, suggested, score, int(rows.ids[at]), slots[at]))
        if self.givers:
            named = self.givers([suspect.row or 0 for suspect in found])
            found = [replace(one, annotator=who) for one, who in zip(found, named, strict=True)]
        self.queue.update(found, slot)
        kept = [at for name, at in newest.items() if name in self.queue]
        self._waiting = []
        if kept:
            left = rows[torch.tensor(kept)]
            self._waiting.append(
                Waiting(left, [ids[at] for at in kept], [slots[at] for at in kept])
            )
        write_review_files(
            self.folder,
            self.queue.ranked(),
            [(rows, ids)],
            self.classes,
            preview=self.preview,
            view=self.trainer.averaged,
            held=held,
            table=self.table,
            most_compared=MOST_COMPARED,
        )

    def numbers(self) -> list[int]:
        """Return the numbers of the rows that wait, and of those in the queue."""
        return [row for part in self._waiting for row in part.samples.ids.tolist()]

    def state_dict(self) -> dict[str, Any]:
        """Return the queue, the rows that wait, and the state of the generator."""
        waiting = self._all() if self._waiting else None
        return {
            "queue": self.queue.state_dict(),
            "waiting": waiting
            and {
                "rows": waiting.samples.columns(),
                "ids": pack_texts(waiting.ids),
                "slots": torch.tensor(waiting.slots),
            },
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.queue.load_state_dict(state["queue"])
        self._generator.set_state(state["generator"])
        self._waiting = []
        if waiting := state["waiting"]:
            samples = Samples(**waiting["rows"])
            ids, slots = unpack_texts(waiting["ids"]), waiting["slots"].tolist()
            self._waiting = [Waiting(samples, ids, slots)]

    def _scores(self, rows: Samples, held: Samples) -> dict[int, tuple[float, int]]:
        """Return the score and the likeliest other class of every suspect, by its place."""
        scorer, rows = LabelScorer(self.trainer.averaged, held), rows.to(self.trainer.device)
        candidates = scorer.candidates(rows)
        scores, others = scorer.scores(rows[candidates])
        columns = (candidates.tolist(), scores.tolist(), others.tolist())
        return {
            at: (score, other)
            for at, score, other in zip(*columns, strict=True)
            if score > scorer.threshold
        }

    def _all(self) -> Waiting:
        return Waiting(
            concat([part.samples.to(CPU) for part in self._waiting]),
            [name for part in self._waiting for name in part.ids],
            [slot for part in self._waiting for slot in part.slots],
        )
