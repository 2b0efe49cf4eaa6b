"""Dawid and Skene's model of annotators (Applied Statistics 1979), kept up to date online."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tamis.noise.annotators.decline import LEVEL, STEP, WINDOW, Decline, Split, split
from tamis.noise.annotators.joint import BLOCK, JointFit, StepProgress
from tamis.noise.annotators.votes import Array

CHECK = 50
"""Labels of an annotator between two tests, where all labels are gone through."""


class Annotators(JointFit):
    """One posterior for each row, from labels of several annotators whose confusions are learned.

    Rows, annotators and classes are numbered from 0. A label of an annotator weighs half in his
    confusion after `half_life` more of his. One who has gone bad is found by his newest labels,
    against the consensus of the others; a new confusion is then begun for him, and labels that he
    gave before keep the old one.

    >>> annotators = Annotators(classes=2)
    >>> annotators.update(rows=[0, 0, 0, 1, 1], annotators=[0, 1, 2, 0, 1], labels=[1, 1, 0, 0, 0])
    >>> annotators.posterior().argmax(dim=1).tolist()
    [1, 0]
    """

    def __init__(self, classes: int, half_life: float = 5000.0) -> None:
        super().__init__(classes, half_life)
        self.declines: list[Decline] = []

    def update(
        self, rows: Any, annotators: Any, labels: Any, *, progress: StepProgress | None = None
    ) -> None:
        """Take in labels, the oldest first, and name those annotators who have gone bad.

        Only rows with new labels are looked at, unless there are more new labels than old ones;
        then `progress` takes the number of steps so far.
        """
        rows, annotators, labels = (
            np.asarray(each, np.int64) for each in (rows, annotators, labels)
        )
        if not len(rows):
            return
        self._check_range(rows, annotators, labels)
        held, changed = self._add(rows, annotators, labels)
        if len(rows) > min(held, BLOCK):
            self.refine(progress=progress)
        else:
            self._settle(np.unique(rows), held)
            self._name(changed)

    def refine(self, sweeps: int = 50, *, progress: StepProgress | None = None) -> None:
        """Fit all rows, go through all labels for annotators who have gone bad, and fit again."""
        self._fit(sweeps, progress)
        declines = len(self.declines)
        phases = np.arange(len(self._owner.values))
        while len(phases):
            phases = self._replay(phases)
        if len(self.declines) > declines:
            self._fit(sweeps, progress)

    def state_dict(self) -> dict[str, Tensor]:
        """Return labels, posteriors, counts and declines."""
        declines = torch.tensor(self.declines, dtype=torch.float64)
        return super().state_dict() | {"declines": declines.reshape(-1, len(Decline._fields))}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        rows = state["declines"].tolist()
        self.declines = [Decline(*map(int, row[:4]), *row[4:]) for row in rows]

    def _check_range(self, rows: Array, annotators: Array, labels: Array) -> None:
        if not rows.shape == annotators.shape == labels.shape or rows.ndim != 1:
            raise ValueError("Rows, annotators and labels must be flat and of one length.")
        if min(rows.min(), annotators.min(), labels.min()) < 0 or labels.max() >= self.classes:
            raise ValueError(
                f"Rows and annotators are numbered from 0, and labels up to {self.classes - 1}."
            )

    def _add(self, rows: Array, annotators: Array, labels: Array) -> tuple[int, Array]:
        """Add labels that are not counted yet; return how many there were, and the new phases'."""
        self._posterior.resize(int(rows.max()) + 1)
        self._add_annotators(int(annotators.max()) + 1)
        held = len(self._votes)
        phases = self._phase_of.values[annotators]
        changed, counts = np.unique(phases, return_counts=True)
        fading = 0.5 ** (counts / self._half_lives(changed))
        for part in (self._counts, self._gone):
            part.values[changed] *= fading[:, None, None]
        self._votes.add(rows, phases, labels)
        return held, changed

    def _name(self, phases: Array) -> dict[int, int]:
        """Name annotators by the newest labels of phases."""
        numbers = self._votes.newest(phases, WINDOW)
        return self._name_by(phases, numbers, self._votes.given[phases])

    def _name_by(self, phases: Array, numbers: Array, ends: Array) -> dict[int, int]:
        """Name annotators by labels up to an end, and return the phases that follow theirs.

        The worst is named first: once his labels weigh less, the consensus may clear others.
        """
        begun: dict[int, int] = {}
        while numbers.shape[1] >= STEP and len(phases):
            found = self._split(phases, numbers)
            worst = int(found.level.argmax())
            if found.level[worst] < LEVEL or len(self._owner.values) >= self._most_phases:
                break
            phase, end = int(phases[worst]), int(ends[worst])
            newest = int(found.newest[worst]) + int(self._votes.given[phase]) - end
            shares = (float(found.before[worst]), float(found.after[worst]))
            begun[phase] = self._begin_phase(phase, newest, end, shares)
            rest = np.arange(len(phases)) != worst
            phases, numbers, ends = phases[rest], numbers[rest], ends[rest]
        return begun

    def _split(self, phases: Array, numbers: Array) -> Split:
        """Return the best split of labels of phases, newest first, -1 where there is none."""
        consensus = self._votes.consensus[numbers]
        counted = (numbers >= 0) & (consensus >= 0)
        expected = self._expected(phases[:, None], numbers)
        return split(self._votes.labels[numbers] == consensus, expected, counted)

    def _expected(self, phases: Array, numbers: Array) -> Array:
        """Return how probable it was that labels of phases agree with the consensus."""
        votes = self._votes
        which, at = np.unique(phases, return_inverse=True)
        shares = np.exp(self._logs.values[which])
        right = np.diagonal(shares, axis1=1, axis2=2)
        wrong = (shares.sum(axis=1) - right) / (self.classes - 1)
        cells = (at.reshape(phases.shape), votes.consensus[numbers])
        confidence = votes.confidences[numbers]
        if self.models:
            confidence = confidence * votes.discounts[numbers]
        return confidence * right[cells] + (1 - confidence) * wrong[cells]  # type: ignore[no-any-return]

    def _replay(self, phases: Array) -> Array:
        """Name annotators as if labels came again, and return the phases that begin for them."""
        votes = self._votes
        by = np.argsort(votes.phases, kind="stable")
        starts = np.searchsorted(votes.phases[by], np.arange(len(votes.given)))
        made: list[int] = []
        split_up: set[int] = set()
        active = phases
        for end in range(CHECK, int(votes.given[phases].max()) + CHECK, CHECK):
            active = active[votes.given[active] > end - CHECK]
            active = active[[phase not in split_up for phase in active.tolist()]]
            for part in np.array_split(active, -(-len(active) // 1024) or 1):
                ends = np.minimum(end, votes.given[part])
                places = ends[:, None] - 1 - np.arange(min(WINDOW, end))
                numbers = np.where(places >= 0, by[(starts[part][:, None] + places).clip(0)], -1)
                begun = self._name_by(part, numbers, ends)
                made += begun.values()
                split_up |= begun.keys()
        return np.array(made, np.int64)

    def _begin_phase(self, phase: int, newest: int, end: int, shares: tuple[float, float]) -> int:
        """Begin a phase with the newest labels of another, and report the decline."""
        votes = self._votes
        annotator, offset = int(self._owner.values[phase]), int(self._offset.values[phase])
        to = int(self._add_phases(np.array([annotator]))[0])
        moved = votes.move(phase, newest, to)
        since = offset + int(votes.given[phase])
        self._offset.values[to] = since
        if self._phase_of.values[annotator] == phase:
            self._phase_of.values[annotator] = to
        self._recount(phase)
        self._recount(to)
        self._settle(np.unique(votes.rows[moved][votes.rows[moved] >= 0]), len(votes))
        self.declines.append(Decline(annotator, since, offset + end, int(moved[0]), *shares))
        return to
