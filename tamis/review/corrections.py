"""Corrections: decisions of reviewers, applied to the rows that arrive and to those held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tamis.checkpoint import pack_texts, unpack_texts
from tamis.data import REVIEWER, Event, Events, Samples
from tamis.review.protocol import ReviewedTrainer
from tamis.runs import Decisions
from tamis.sources.class_numbers import ClassNumbers
from tamis.sources.protocol import BadRecordError

SPARE = 20_000
"""Names kept beyond two for each row held, before those of other rows are forgotten."""
LARGEST = 2**63 - 1
"""The largest id that a tensor holds."""


class Corrections:
    """Follows a file of decisions, and applies them to a trainer as they are made.

    Decisions name rows by id and labels by name; `classes` are the names of the labels, in order.
    The id of a row is the number of its sample, as text. Where rows have names of their own,
    `correct` needs those of all rows that arrive. A decision about a row that is not known changes
    nothing. Neither does one for a label that is not a class; `unknown_labels` counts these. Where
    `classes` are open `ClassNumbers`, such a label is a new class, up to their limit.

        corrections = Corrections(folder / "decisions.jsonl", classes)
        for samples, names in rows:
            monitor.update(trainer.step(corrections.correct(samples, names)))
            corrections.apply(trainer)

    A keep changes no label. A row that was dropped is no longer held: if that is undone, the row is
    trained on once it arrives again.
    """

    def __init__(self, path: Path, classes: Sequence[str] | ClassNumbers) -> None:
        self.decisions = Decisions(path)
        self.classes = classes if isinstance(classes, ClassNumbers) else ClassNumbers(classes)
        self.unknown_labels = 0
        self._pending = self.decisions.named()
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.decisions)

    @property
    def decided(self) -> set[str]:
        """Names of the rows that have been kept, relabelled or dropped."""
        return self.decisions.decided()

    def correct(self, samples: Samples, names: Sequence[str] | None = None) -> Samples:
        """Return arriving rows with their labels corrected, without those that were dropped."""
        ids = samples.ids.tolist()
        if names is None:
            names = [str(id_) for id_ in ids]
        else:
            self._learn(names, ids)
        self.refresh()
        found = {
            row: self._label(name)
            for row, name in enumerate(names)
            if (decision := self.decisions.of(name)) and decision.decision in ("relabel", "drop")
        }
        if not found:
            return samples
        labels = samples.labels.clone()
        clean = None if samples.clean is None else samples.clean.clone()
        kept = torch.ones_like(labels, dtype=torch.bool)
        for row, label in found.items():
            if label is None:
                kept[row] = False
            elif label >= 0:
                labels[row] = label
                if clean is not None:
                    clean[row] = True
        corrected = replace(samples, labels=labels, clean=clean)
        return corrected if kept.all() else corrected[kept]

    def correct_events(self, events: Events, names: Sequence[str] | None = None) -> Events:
        """Return events with labels corrected, without those about rows that were dropped.

        A label that comes for a row that somebody has relabelled, or is withdrawn, changes nothing.
        """
        if names is not None:
            self._learn(names, events.samples.ids.tolist())
        self.refresh()
        kept = [new for event in events.events for new in self._correct_event(event)]
        return Events(events.samples, tuple(kept))

    def _correct_event(self, event: Event) -> list[Event]:
        """Return an event with its label corrected; one of an annotator, followed by the decision.

        His own label is what shows how good he is.
        """
        name = self._names.get(event.id) or event.name or str(event.id)
        decision = self.decisions.of(name)
        if decision is None or decision.decision not in ("relabel", "drop"):
            return [event]
        label = self._label(name)
        if label is None or (event.row is None and event.label is None):
            return []
        corrected = event._replace(label=label, annotator=REVIEWER)
        if label < 0:
            return [event]
        if event.annotator in (None, REVIEWER) or event.label is None:
            return [corrected]
        return [event, corrected._replace(row=None)]

    def names_of(self, ids: Sequence[int]) -> list[str]:
        """Return the ids of rows as text: their names where they have some, else their numbers."""
        return [self._names.get(id_, str(id_)) for id_ in ids]

    def apply(self, trainer: ReviewedTrainer) -> int:
        """Relabel and remove rows that a trainer holds; return how many have changed.

        Call it once a slot. Without a new decision it only checks whether the file has grown.
        Ranks all call it after the same slot. What any of them has read is applied on all; those
        that read it later find nothing left to change.
        """
        self.refresh()
        self._forget(trainer)
        if not trainer.on_any_rank(bool(self._pending)):
            return 0
        labels: dict[int, int] = {}
        dropped: list[int] = []
        for name in sorted(self._pending):
            id_ = self.id_of(name)
            if id_ is None:
                continue
            label = self._label(name)
            if label is None:
                dropped.append(id_)
            elif label >= 0:
                labels[id_] = label
        self._pending = set()
        changed = trainer.relabel(
            torch.tensor(list(labels), dtype=torch.long),
            torch.tensor(list(labels.values()), dtype=torch.long),
        )
        return changed + trainer.remove(torch.tensor(dropped, dtype=torch.long))

    def state_dict(self) -> dict[str, Any]:
        """Return the names of rows and their ids; decisions are in their file."""
        ids = torch.tensor(list(self._ids.values()), dtype=torch.long)
        return {"names": pack_texts(self._ids), "ids": ids}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; all decisions will be applied again."""
        names, ids = unpack_texts(state["names"]), state["ids"].tolist()
        self._ids, self._names = {}, {}
        self._learn(names, ids)
        self._pending = self.decisions.named()

    def _learn(self, names: Sequence[str], ids: Sequence[int]) -> None:
        """Remember the names of rows."""
        self._ids.update(zip(names, ids, strict=True))
        self._names.update(zip(ids, names, strict=True))

    def refresh(self) -> bool:
        """Read new decisions, and return whether there are any that `apply` has not applied."""
        self._pending |= self.decisions.refresh()
        return bool(self._pending)

    def _label(self, name: str) -> int | None:
        """Return the label that a row should have: None if dropped, -1 for the one it came with."""
        found = self.decisions.of(name)
        if found is None:  # undone: the label is again the one that the row came with
            lines = reversed(self.decisions.lines)
            found = next((line for line in lines if line.id == name), None)
            return -1 if found is None else self.classes.get(found.given or "", -1)
        if found.decision == "drop":
            return None
        if found.decision != "relabel":
            return self.classes.get(found.given or "", -1)
        label = self._number(found.label or "")
        self.unknown_labels += label < 0
        return label

    def _number(self, name: str) -> int:
        """Return the number of a class, which may be new; -1 where it cannot be one."""
        if name in self.classes or not name or not self.classes.open:
            return self.classes.get(name, -1)
        try:
            return self.classes.add(name)
        except BadRecordError:
            return -1

    def id_of(self, name: str) -> int | None:
        """Return the id of the sample that a row came with, if it is known.

        Rows without a name are named by their ids.
        """
        if name in self._ids:
            return self._ids[name]
        if not (name.isascii() and name.isdecimal() and str(int(name)) == name):
            return None
        return id_ if (id_ := int(name)) <= LARGEST and id_ not in self._names else None

    def _forget(self, trainer: ReviewedTrainer) -> None:
        """Forget the names of rows that are no longer held, once there are many."""
        if len(self._ids) <= 2 * trainer.kept_count + SPARE:
            return
        held = set(trainer.kept_ids())
        self._ids = {name: id_ for name, id_ in self._ids.items() if id_ in held}
        self._names = {id_: name for name, id_ in self._ids.items()}
