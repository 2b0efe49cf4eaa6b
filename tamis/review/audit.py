"""The audit sample of a running trainer: drawn once, and what people find passed to the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tamis.review.corrections import Corrections
from tamis.review.files import find_previews
from tamis.review.previews import Previewer
from tamis.review.protocol import AuditedTrainer
from tamis.review.records import TableRows
from tamis.runs import RunFiles
from tamis.runs.audit import AuditRow, AuditSample, was_right, write_audit

ENOUGH = 500
"""Rows held from which the sample is drawn; at the end of a run it is drawn from fewer."""
SIZE = 100
"""Rows of the sample."""
OFFSET = 1_000_003
"""Added to the seed of the run: its stream and its trainer draw other numbers than the audit."""
OPEN = -1
"""Stands for a row about which nothing is decided, or no longer."""


class LiveAudit:
    """Draws audit.jsonl of a run, and passes decisions about its rows to the trainer.

    Rows are drawn at random from those held, by the seed of the run, and never again. `followed`
    are the corrections of the run, its own last. What was passed on is part of the state, so that
    a run that is resumed passes on nothing twice.
    """

    def __init__(
        self, folder: Path, trainer: AuditedTrainer, followed: Sequence[Corrections]
    ) -> None:
        self.folder = folder
        self.trainer = trainer
        self.followed = followed
        self.sample = AuditSample(folder)
        self._passed: dict[int, int] = {}

    def draw(self, classes: Sequence[str], preview: Previewer, table: TableRows | None) -> None:
        """Draw the sample, unless there is one. Of rows of one id, the newest may be drawn."""
        if len(self.sample) or not self.trainer.held_count:
            return
        held = self.trainer.held()
        names = self.followed[-1].names_of(held.ids.tolist())
        places = list({name: at for at, name in enumerate(names)}.values())
        generator = torch.Generator().manual_seed(self.trainer.seed + OFFSET)
        order = torch.randperm(len(places), generator=generator)[:SIZE].tolist()
        chosen = [places[at] for at in order]
        rows = held[torch.tensor(chosen, device=held.ids.device)]
        numbers = rows.ids.tolist()
        inputs = dict(zip(numbers, rows.inputs, strict=True))
        previews = find_previews({}, inputs, preview, table)
        labels = [classes[label] for label in rows.labels.tolist()]
        columns = zip([names[at] for at in chosen], labels, numbers, strict=True)
        write_audit(
            self.folder,
            (
                AuditRow(name, self._given(name) or label, row, previews.get(row, {}))
                for name, label, row in columns
            ),
        )
        self.sample.refresh()
        self.report()

    def report(self) -> None:
        """Pass what was decided since the last call to the trainer.

        Call it before labels change, so that rows still have the labels that it is about.
        """
        decisions, new = self.followed[-1].decisions, {}
        for row in self.sample:
            right = was_right(decisions.of(row.id))
            found = OPEN if right is None else int(right)
            if row.row is not None and found != self._passed.get(row.row, OPEN):
                new[row.row] = found
        if new:
            values = torch.tensor(list(new.values()), dtype=torch.int8)
            self.trainer.audit(torch.tensor(list(new)), values)
            self._passed |= new

    def state_dict(self) -> dict[str, Any]:
        """Return whether the sample is drawn, and what was passed on; the sample is in its file."""
        return {
            "drawn": bool(len(self.sample)),
            "ids": torch.tensor(list(self._passed), dtype=torch.long),
            "right": torch.tensor(list(self._passed.values()), dtype=torch.int8),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; a sample that was drawn later is drawn again then.

        One that somebody has worked on stays.
        """
        ids, right = state["ids"].tolist(), state["right"].tolist()
        self._passed = dict(zip(ids, right, strict=True))
        self.sample.refresh()
        decisions = self.followed[-1].decisions
        if not state["drawn"] and not any(decisions.of(row.id) for row in self.sample):
            (self.folder / RunFiles.audit).unlink(missing_ok=True)
            self.sample.refresh()

    def _given(self, name: str) -> str | None:
        """Return the label that a row came with, where somebody has changed it since."""
        made = (corrections.decisions.of(name) for corrections in self.followed)
        return next((one.given for one in made if one and one.decision == "relabel"), None)
