"""Suspects while a run goes on: those that arrive are looked at, and the worst kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tamis.checkpoint import pack_texts, unpack_texts
from tamis.data import Samples, concat
from tamis.review.files import write_review_files
from tamis.review.previews import Previewer
from tamis.review.protocol import ReviewedTrainer
from tamis.review.queue import Queue
from tamis.review.suspects import LabelScorer, Suspect

ASKED = 2048
"""Rows held that are asked about suspects, at the most."""
NEAR = 200
"""Suspects whose neighbours are looked for while a run goes on: the next look brings others."""
MOST_A_SLOT = 20
"""Rows of a slot that are looked at while a run goes on: what is noted stays bounded."""
BELIEVED = (0.0, 0)
"""Score of a row that nobody needs to be asked about, and no class."""
HERE = torch.device("cpu")


class Waiting(NamedTuple):
    """Rows with their names, and the slots that they came in."""

    samples: Samples
    names: list[str]
    came: list[int]


class LiveSuspects:
    """Keeps suspects.jsonl of a running trainer fresh: the worst of late, each scored anew.

    Call `see` once a slot, with the rows that arrived. Every `every` slots, the first times after a
    quarter and a half of them, those that have come since are judged, and so are those in the
    queue: as labels are corrected and the model learns, some are believed and leave, others go up.
    What is `settled` leaves for good. The inputs of what is in the queue or waits to be looked at
    are kept, and no others.

        lookout = LiveSuspects(folder, trainer, classes, previewer(shape))
        for samples, names in rows:
            lookout.update(trainer.step(samples).number, samples, names)
    """

    def __init__(
        self,
        folder: Path,
        trainer: ReviewedTrainer,
        classes: Sequence[str],
        show: Previewer,
        queue: Queue | None = None,
        every: int = 1000,
        settled: Callable[[], set[str]] = set,
    ) -> None:
        self.folder = folder
        self.trainer = trainer
        self.classes = classes
        self.show = show
        self.queue = queue or Queue()
        self.every = every
        self.settled = settled
        self._noted: list[Waiting] = []
        self._generator = torch.Generator().manual_seed(0)

    def update(
        self, slot: int, samples: Samples | None, names: Sequence[str] | None = None
    ) -> None:
        """Note the rows that arrived in a slot, and look at them when it is time."""
        if samples is not None and len(samples):
            samples = samples[slice(MOST_A_SLOT)]
            called = list(names or map(str, samples.ids.tolist()))[:MOST_A_SLOT]
            self._noted.append(Waiting(samples, called, [slot] * len(called)))
        done = slot + 1
        if done % self.every == 0 or done in (self.every // 4, self.every // 2):
            self.look(slot)

    def look(self, slot: int) -> None:
        """LabelScorer what is noted, and write the suspects down."""
        self.queue.settle(self.settled())
        if not self._noted or not len(self.trainer.buffer):
            return
        held = self.trainer.buffer.pool()
        held = held[
            torch.randperm(len(held), generator=self._generator)[:ASKED].to(held.ids.device)
        ]
        rows, names, came = self._all()
        newest = {name: at for at, name in enumerate(names)}  # a row may have come twice
        scorer, there = LabelScorer(self.trainer.averaged, held), rows.to(self.trainer.device)
        doubtful = scorer.candidates(there)
        scores, others = (part.tolist() for part in scorer.scores(there[doubtful]))
        found = []
        judged = dict(zip(doubtful.tolist(), zip(scores, others, strict=True), strict=True))
        for name, at in newest.items():
            score, other = judged.get(at, BELIEVED)
            if name in self.queue:
                self.queue.rescore(name, score, other)
            elif score > 0.5:
                number, given = int(rows.ids[at]), int(rows.labels[at])
                found.append(Suspect(name, given, other, score, number, came[at]))
        self.queue.update(found, slot)
        kept = [at for name, at in newest.items() if name in self.queue]
        self._noted = (
            [
                Waiting(
                    rows[torch.tensor(kept)], [names[at] for at in kept], [came[at] for at in kept]
                )
            ]
            if kept
            else []
        )
        write_review_files(
            self.folder,
            self.queue.ranked(),
            [(rows, names)],
            self.classes,
            self.show,
            self.trainer.averaged,
            held,
            most_near=NEAR,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what is in the queue, what waits to be looked at, and where chance stands."""
        noted = self._all() if self._noted else None
        return {
            "queue": self.queue.state_dict(),
            "noted": noted
            and {
                "rows": noted.samples.columns(),
                "names": pack_texts(noted.names),
                "came": torch.tensor(noted.came),
            },
            "chance": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.queue.load_state_dict(state["queue"])
        self._generator.set_state(state["chance"])
        self._noted = []
        if noted := state["noted"]:
            samples = Samples(**noted["rows"])
            names, came = unpack_texts(noted["names"]), noted["came"].tolist()
            self._noted = [Waiting(samples, names, came)]

    def _all(self) -> Waiting:
        return Waiting(
            concat([part.samples.to(HERE) for part in self._noted]),
            [name for part in self._noted for name in part.names],
            [slot for part in self._noted for slot in part.came],
        )
