"""Decisions taken into training: labels as people corrected them, rows that they dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tamis.data import Samples
from tamis.review.mending import drop, follow, relabel, remind
from tamis.review.texts import pack_texts, unpack_texts
from tamis.runs import Decision, Decisions
from tamis.training import Trainer

SPARE = 20_000
"""Names kept beyond those of twice the rows held, before the others are forgotten."""


class Corrections:
    """Follows a file of decisions, and has a trainer learn from them as they come.

    Decisions name rows by id and labels by name: `classes` numbers the labels. Rows are known by
    the number of their sample, as text; where they have names of their own, `mend` must be given
    those of all rows that arrive. A decision about no known row or class changes nothing, and is
    counted in `strange`.

        corrections = Corrections(folder / "decisions.jsonl", classes)
        for samples, names in rows:
            monitor.update(trainer.step(corrections.mend(samples, names)))
            corrections.apply(trainer)

    A keep changes no label. A row that was dropped and is wanted again comes back when it arrives
    again: it is not held any more.
    """

    def __init__(self, path: Path, classes: Sequence[str]) -> None:
        self.decisions = Decisions(path)
        self.classes = {name: number for number, name in enumerate(classes)}
        self.applied = 0
        self.strange = 0
        self._open = set(self.decisions.in_force())
        self._named = False
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.decisions)

    @property
    def settled(self) -> set[str]:
        """Ids of the rows that somebody has decided about."""
        return {name for name, found in self.decisions.in_force().items() if found.settled}

    def mend(self, samples: Samples, names: Sequence[str] | None = None) -> Samples:
        """Correct rows on their way in, and leave out those that were dropped."""
        numbers = samples.ids.tolist()
        if names is None:
            names = [str(number) for number in numbers]
        else:
            self._named = True
            self._numbers.update(zip(names, numbers, strict=True))
        self._look()
        words = ("relabel", "drop")
        found = {
            at: self._label(name)
            for at, name in enumerate(names)
            if (decision := self.decisions.of(name)) and decision.decision in words
        }
        if not found:
            return samples
        labels = samples.labels.clone()
        clean = None if samples.clean is None else samples.clean.clone()
        kept = torch.ones_like(labels, dtype=torch.bool)
        for at, label in found.items():
            if label is None:
                kept[at] = False
            elif label >= 0:
                labels[at] = label
                if clean is not None:
                    clean[at] = True
        mended = replace(samples, labels=labels, clean=clean)
        return mended if kept.all() else mended[kept]

    def apply(self, trainer: Trainer) -> int:
        """Bring the rows that a trainer holds up to date, and say how many were changed.

        Called once a slot: where nobody has decided anything since, it costs a look at the file.
        """
        self._look()
        self._forget(trainer)
        if not self._open or not len(trainer.buffer):
            return 0
        held = trainer.buffer.pool()
        places = {number: at for at, number in enumerate(held.ids.tolist())}
        labels: dict[int, int] = {}
        gone: list[int] = []
        for name in self._open:
            number = self._number(name)
            place = None if number is None else places.get(number)
            if place is None:
                continue
            label = self._label(name)
            if label is None:
                gone.append(place)
            elif label >= 0 and label != int(held.labels[place]):
                labels[place] = label
        self._open = set()
        if labels:
            self._relabel(trainer, held, labels)
        if gone:
            self._drop(trainer, held, gone)
        self.applied += len(labels) + len(gone)
        return len(labels) + len(gone)

    def state_dict(self) -> dict[str, Any]:
        """Return the names of the rows held; decisions are in their file."""
        numbers = torch.tensor(list(self._numbers.values()), dtype=torch.long)
        return {"names": pack_texts(self._numbers), "numbers": numbers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know rows by the names that `state_dict` gave, and look at all decisions once more."""
        names, numbers = unpack_texts(state["names"]), state["numbers"].tolist()
        self._numbers = dict(zip(names, numbers, strict=True))
        self._named = bool(self._numbers)
        self._open = set(self.decisions.in_force())

    def _look(self) -> None:
        self._open |= self.decisions.refresh()

    def _label(self, name: str) -> int | None:
        """Say which label a row has now: a number, None where it is dropped, -1 as it came."""
        found = self.decisions.of(name)
        if found is None:  # undone: the label is again the one that it came with
            found = next(line for line in reversed(self.decisions.lines) if line.id == name)
            return self.classes.get(found.given or "", -1)
        if found.decision == "drop":
            return None
        if found.decision == "relabel":
            return self._number_of_class(found)
        return self.classes.get(found.given or "", -1)

    def _number_of_class(self, found: Decision) -> int:
        number = self.classes.get(found.label or "")
        if number is None:
            self.strange += 1
            return -1
        return number

    def _number(self, name: str) -> int | None:
        if self._named:
            return self._numbers.get(name)
        return int(name) if name.isascii() and name.isdecimal() else None

    def _forget(self, trainer: Trainer) -> None:
        """Forget the names of rows that left long ago."""
        if len(self._numbers) <= 2 * len(trainer.buffer) + SPARE:
            return
        held = set(trainer.buffer.pool().ids.tolist())
        self._numbers = {name: at for name, at in self._numbers.items() if at in held}

    def _relabel(self, trainer: Trainer, held: Samples, labels: dict[int, int]) -> None:
        rows = torch.tensor(list(labels), device=held.labels.device)
        after = torch.tensor(list(labels.values()), device=held.labels.device)
        before = held.labels[rows].clone()
        ids = held.ids[rows]
        if trainer.tracker:
            ages = (trainer.validator.seen - 1 - ids).clamp(0, max(0, trainer.validator.seen - 1))
            follow(trainer.tracker, trainer.averaged, held.inputs[rows], before, after, ages)
        relabel(trainer.buffer, rows, after)
        remind(trainer.selector, ids, after, ids[:0])

    def _drop(self, trainer: Trainer, held: Samples, gone: list[int]) -> None:
        rows = torch.tensor(gone, device=held.labels.device)
        ids = held.ids[rows].clone()
        drop(trainer.buffer, rows)
        remind(trainer.selector, ids[:0], ids[:0], ids)
        if trainer.settings()["graphed"]:
            trainer.load_state_dict(
                trainer.state_dict()
            )  # rows lie elsewhere now, where no graph looks for them
