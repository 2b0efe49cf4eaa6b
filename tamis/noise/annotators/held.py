"""Labels of rows that are held for a while: labels may be taken back, rows may go."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tamis.errors import TamisError
from tamis.noise.annotators.crowd import Annotators
from tamis.noise.annotators.decline import WINDOW
from tamis.noise.annotators.joint import MOST_CELLS
from tamis.noise.annotators.votes import Array, Growing

EXCLUDED = -1e3
"""Log probability of every other class where a person has decided."""
FIT_SWEEPS = 5
"""Steps of the EM over all rows that are held."""
LEAST_FITTED = 1024
"""Labels between two fits of all rows, at the least."""
DISCOUNT_HALF_LIFE, DISCOUNT_STRENGTH = 50.0, 5.0
"""Labels after which one weighs half in how far a model is agreed with, and labels of a model that
is as good as ever."""
MOST_TAKEN = 2**18
"""Labels without a row that are kept for the test of who has gone bad: some 10 MB."""


class HeldLabels(Annotators):
    """Annotators whose rows come and go, and whose labels may be withdrawn.

    What a row has revealed of its annotators stays when it is removed, and fades with their later
    labels. All rows are fitted again whenever as many labels have come as rows have.
    """

    def __init__(self, classes: int, half_life: float = 5000.0, models: int = 0) -> None:
        super().__init__(classes, half_life)
        self.models = models
        self._until_fit = LEAST_FITTED
        # Of each annotator, fading: labels that agreed with a model, and how many should have.
        self._agreed, self._due = Growing(0.0, np.float64), Growing(0.0, np.float64)
        self._add_annotators(models + 1)  # the one after models is whoever is not known

    def add_rows(self, count: int) -> None:
        """Make room for so many rows in all."""
        self._posterior.resize(count)
        self._votes.add_rows(count)

    def add(self, rows: Array, annotators: Array, labels: Array) -> bool:
        """Take in labels; return whether rows without a new one may have changed, too."""
        declines = len(self.declines)
        fading = 0.5 ** (len(np.unique(rows)) / self.half_life)
        self._class_counts -= (1 - fading) * self._gone_classes
        self._gone_classes *= fading
        held, changed = self._add(rows, annotators, labels)
        self._settle(np.unique(rows), held)
        self._discount(held)
        self._name(changed)
        self._until_fit -= len(rows)
        if self._until_fit > 0:
            return len(self.declines) > declines
        self._compact()
        self._fit(FIT_SWEEPS)
        self._until_fit = max(LEAST_FITTED, int((self._votes.rows >= 0).sum()))
        return True

    def numbers_of(self, rows: Array, annotators: Array) -> Array:
        """Return the numbers of the labels that annotators gave to rows, pair by pair."""
        which = self._votes.of_rows(np.unique(rows))
        width = len(self._phase_of.values) + 1
        owners = self._owner.values[self._votes.phases[which]]
        keys = self._votes.rows[which].astype(np.int64) * width + owners
        wanted = rows[annotators < width] * width + annotators[annotators < width]
        return which[np.isin(keys, wanted)]

    def withdraw(self, which: Array) -> None:
        """Take labels back, as if they had not been given."""
        votes, posterior = self._votes, self._posterior.values
        rows, phases = np.unique(votes.rows[which]), votes.phases[which]
        found = posterior[votes.rows[which]]
        cells = (phases[:, None], np.arange(self.classes), votes.labels[which][:, None])
        np.subtract.at(self._counts.values, cells, self._weights(which)[:, None] * found)
        votes.take_from_rows(which)
        votes.consensus[which] = -1  # the test does not count them
        self._refresh(np.unique(phases))
        empty = rows[votes.last_in_row[rows] < 0]
        self._class_counts -= posterior[empty].sum(axis=0)
        posterior[empty] = 0
        left = np.setdiff1d(rows, empty)
        if len(left):
            self._settle(left, len(votes))

    def remove(self, rows: Array) -> None:
        """Forget rows and their priors; what they have revealed of annotators stays."""
        votes, posterior = self._votes, self._posterior.values
        which = votes.of_rows(rows)
        if len(which):
            found = self._weights(which)[:, None] * posterior[votes.rows[which]]
            phases, labels = votes.phases[which][:, None], votes.labels[which][:, None]
            np.add.at(self._gone.values, (phases, np.arange(self.classes), labels), found)
            votes.take_from_rows(which)
        self._gone_classes += posterior[rows].sum(axis=0)
        posterior[rows] = 0
        known = rows[rows < len(self._log_prior.values)]
        self._log_prior.values[known] = np.nan

    def decide(self, rows: Array, classes: Array) -> None:
        """Set the classes of rows for certain."""
        self._log_prior.resize(int(rows.max(initial=-1)) + 1)
        self._log_prior.values[rows] = EXCLUDED
        self._log_prior.values[rows, classes] = 0
        labelled = np.unique(rows[self._votes.last_in_row[rows] >= 0])
        if len(labelled):
            self._settle(labelled, len(self._votes))

    def best(self, rows: Array) -> Array:
        """Return the class of each row, in rising order; -1 where no person has given a label.

        It is one that a person gave: a model chooses between those, and adds none, since what it
        predicts it has learned from them.
        """
        which = self._votes.of_rows(rows)
        places = np.searchsorted(rows, self._votes.rows[which])
        phases, labels = self._votes.phases[which], self._votes.labels[which]
        people = self._owner.values[phases] >= self.models
        log = self._joint(rows, places, phases, labels)
        given = np.zeros(log.shape, bool)
        given[places[people], labels[people]] = True
        best: Array = np.where(given, log, -np.inf).argmax(axis=1)
        best[~given.any(axis=1)] = -1
        return best

    def labelled(self, rows: Array) -> Array:
        """Return whether each row has a label."""
        found: Array = self._votes.last_in_row[rows] >= 0
        return found

    def numbers_in(self, rows: Array) -> Array:
        """Return the numbers of all labels of rows."""
        return self._votes.of_rows(rows)

    def labels_of(self, rows: Array) -> tuple[Array, Array, Array]:
        """Return all labels of rows in rising order: places in `rows`, annotators, classes."""
        which = self._votes.of_rows(rows)
        places = np.searchsorted(rows, self._votes.rows[which])
        return places, self._owner.values[self._votes.phases[which]], self._votes.labels[which]

    def grow(self, classes: int) -> None:
        """Make room for more classes; no annotator has been seen to confuse them."""
        if classes <= self.classes:
            return
        if len(self._owner.values) * classes**2 > MOST_CELLS:
            raise TamisError(
                f"{len(self._owner.values)} confusions of {classes} classes take too much memory."
            )
        added = (0, classes - self.classes)
        self.classes = classes
        for part in (self._posterior, self._log_prior, self._counts, self._gone, self._logs):
            part.widen(classes)
        decided = ~np.isnan(self._log_prior.values[:, 0])
        self._log_prior.values[decided, -added[1] :] = EXCLUDED
        self._class_counts = np.pad(self._class_counts, added)
        self._gone_classes = np.pad(self._gone_classes, added)
        self._refresh(np.arange(len(self._owner.values)))

    def state_dict(self) -> dict[str, Tensor]:
        """Return labels, posteriors, counts and declines."""
        return super().state_dict() | {
            "until_fit": torch.tensor(self._until_fit),
            "agreed": torch.from_numpy(self._agreed.values.copy()),
            "due": torch.from_numpy(self._due.values.copy()),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.classes = len(self._class_counts)
        self._until_fit = int(state["until_fit"])
        self._agreed.assign(state["agreed"].numpy())
        self._due.assign(state["due"].numpy())

    def _begin_phase(self, phase: int, newest: int, end: int, shares: tuple[float, float]) -> int:
        """Begin a phase as annotators of all labels do, with what removed rows have revealed.

        Of a removed row the consensus is left, which the label is counted by.
        """
        votes = self._votes
        moved = votes.of_phase(phase)[-newest:]
        gone = moved[(votes.rows[moved] < 0) & (votes.consensus[moved] >= 0)]
        weights = self._weights(gone) * votes.confidences[gone]
        revealed = np.zeros((self.classes, self.classes))
        np.add.at(revealed, (votes.consensus[gone], votes.labels[gone]), weights)
        old = self._gone.values[phase]
        self._gone.values[phase] = (old - revealed).clip(0)
        to = super()._begin_phase(phase, newest, end, shares)
        self._gone.values[to] = revealed
        self._recount(to)
        return to

    def _discount(self, first: int) -> None:
        """Discount a model's word on the newest labels, by how the labels of others agree with it.

        Of a row that one person has labelled, the model is all the consensus there is. If it fails,
        nobody agrees with it any more, and nobody has gone bad.
        """
        votes = self._votes
        new = np.arange(first, len(votes))
        new = new[
            (votes.consensus[new] >= 0) & (self._owner.values[votes.phases[new]] >= self.models)
        ]
        places, owners, _ = self.labels_of(rows := np.unique(votes.rows[new]))
        people = np.bincount(places[owners >= self.models], minlength=len(rows))
        new = new[people[np.searchsorted(rows, votes.rows[new])] == 1]
        if not len(new):
            return
        who = self._owner.values[votes.phases[new]]
        fading = 0.5 ** (len(new) / DISCOUNT_HALF_LIFE)
        found = (votes.labels[new] == votes.consensus[new], self._expected(votes.phases[new], new))
        for part, counted in zip((self._agreed, self._due), found, strict=True):
            part.resize(len(self._phase_of.values))
            part.values[:] *= fading
            np.add.at(part.values, who, counted)
        agreed, due = (
            part.values.sum() - part.values[who] + DISCOUNT_STRENGTH
            for part in (self._agreed, self._due)
        )
        votes.discounts[new] = (agreed / due).clip(0, 1)

    def _compact(self) -> None:
        """Drop labels that are in no row and too old for the test, and phases without labels."""
        votes = self._votes
        kept = votes.rows >= 0
        taken = ~kept & (votes.ages(slice(None)) < WINDOW)
        kept[np.flatnonzero(taken)[-MOST_TAKEN:]] = True
        phases = np.zeros(len(self._owner.values), bool)
        phases[votes.phases[kept]] = True
        phases[self._phase_of.values] = True
        votes.keep(kept, phases)
        for part in self._of_phases():
            part.assign(part.values[phases])
        self._phase_of.values[:] = (np.cumsum(phases) - 1)[self._phase_of.values]
