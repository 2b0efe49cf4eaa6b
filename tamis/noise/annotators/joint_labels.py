"""One label for each row of a stream, from those of several annotators and the model's prediction.

Online Dawid-Skene, as in `crowd.py`; rows are known by their ids, and come and go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tamis.noise.annotators.decline import Decline
from tamis.noise.annotators.held import HeldLabels
from tamis.noise.annotators.joint import MOST_CELLS
from tamis.noise.annotators.places import Places
from tamis.noise.annotators.votes import Array, Growing

CONFIDENCES = (0.5, 0.8, 0.95)
"""Where confidences of predictions are split: the model counts as one annotator between each."""
MOST_DECLINES = 1000
MODELS = len(CONFIDENCES) + 1
UNKNOWN = -1
"""An annotator of whom nothing is known, and a label that there is not."""
FIRST = MODELS + 1
"""Number of annotator 0 among all: the model comes before him, and whoever is not known."""


class JointLabels:
    """The joint label of each row of a stream, from labels that come, change and are withdrawn.

    Rows are known by id. Annotators are numbered from 0, -1 where nobody knows who it was. A second
    label of an annotator for a row replaces his first. The model is one more annotator, one for
    each range of its confidence: its prediction of a row, made before it learned from it, decides
    between labels that people gave; it adds none of its own.

    Parameters
    ----------
    classes: their number; `grow` adds more.
    half_life: labels of an annotator after which one weighs half in his confusion.
    most_rows: rows that are remembered; beyond that the oldest are removed. There are fewer where
        classes are many: rows times classes is at most 33,554,432.
    most_annotators: annotators with a confusion of their own; whoever is beyond counts as not
        known. There are fewer where classes are many.

    >>> labels = JointLabels(classes=3)
    >>> labels.update([70, 70, 70, 81], [0, 1, 2, 0], [2, 2, 1, 0]).tolist()
    [2, 2, 2, 0]
    >>> labels.withdraw([70, 81], [1, 0]).tolist()
    [2, -1]
    """

    def __init__(
        self,
        classes: int,
        half_life: float = 5000.0,
        most_rows: int = 1_000_000,
        *,
        most_annotators: int = 10_000,
    ) -> None:
        if most_rows < 1 or most_annotators < 1:
            raise ValueError(
                f"Joint labels need a row and an annotator, got {most_rows}, {most_annotators}."
            )
        self.half_life, self.most_rows, self.most_annotators = half_life, most_rows, most_annotators
        self._fit = HeldLabels(classes, half_life, MODELS)
        self._places = Places()
        self._labels = Growing(UNKNOWN, np.int64)  # of each row, as last returned
        self._decided = Growing(UNKNOWN, np.int64)
        self._predicted = Growing(UNKNOWN, np.int64)
        self._model = Growing(0, np.int64)
        self._voted = Growing(False, np.bool_)  # whether the prediction is among the labels
        self._unread = 0
        self._stale = False

    def __len__(self) -> int:
        return len(self._places)

    @property
    def classes(self) -> int:
        """Return the number of classes."""
        return self._fit.classes

    @property
    def ids(self) -> Tensor:
        """Return the ids of all rows, the oldest first."""
        return torch.tensor(self._places.ids, dtype=torch.int64)

    def predict(self, ids: Any, classes: Tensor, confidence: Tensor) -> None:
        """Keep what the model predicts of rows as they come: the class, and its probability.

        The probability is NaN where nothing was predicted. A row keeps its first prediction.
        """
        places = self._add_rows(flat(ids))
        shares = confidence.detach().cpu().double().numpy()
        new = np.isfinite(shares) & (self._predicted.values[places] < 0)
        places, shares = places[new], shares[new]
        self._predicted.values[places] = flat(classes)[new]
        self._model.values[places] = np.searchsorted(CONFIDENCES, shares)
        none, labelled = np.empty(0, np.int64), np.unique(places[self._fit.labelled(places)])
        if len(labelled):  # labels that came before their rows
            self._add(none, none, none, labelled)
            self._record(flat(ids))
        self._limit()

    def update(self, ids: Any, annotators: Any, labels: Any) -> Tensor:
        """Take in labels, the oldest first, and return the joint label of each id now."""
        ids, given, labels = flat(ids), flat(annotators), flat(labels)
        if not len(ids) == len(given) == len(labels):
            raise ValueError("Ids, annotators and labels must be of one length.")
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.classes:
            raise ValueError(f"Labels are numbered from 0 to {self.classes - 1}.")
        if not len(ids):
            return torch.empty(0, dtype=torch.int64)
        places, owners = self._add_rows(ids), self._owners(given)
        newest = newest_of(places, owners)
        places, owners, labels = places[newest], owners[newest], labels[newest]
        if len(replaced := self._fit.numbers_of(places, owners)):
            self._fit.withdraw(replaced)
        self._add(places, owners, labels, np.unique(places))
        found = self._record(ids)
        self._limit()
        return found

    def withdraw(self, ids: Any, annotators: Any) -> Tensor:
        """Take labels back, all labels of a row where the annotator is -1.

        Return the joint label of each id now, -1 where no label is left.
        """
        ids, given = flat(ids), flat(annotators)
        known = self._places.find(ids.tolist()) >= 0
        places, owners = self._places.find(ids[known].tolist()), self._owners(given[known])
        every = np.unique(places[given[known] == UNKNOWN])
        which = np.union1d(self._fit.numbers_of(places, owners), self._fit.numbers_in(every))
        if len(which):
            self._fit.withdraw(which)
        rows = np.unique(places)
        rows = rows[self._fit.best(rows) < 0]
        if len(which := self._fit.numbers_in(rows)):  # of the model: it adds no label of its own
            self._fit.withdraw(which)
        self._voted.values[rows] = False
        return self._record(ids)

    def relabel(self, ids: Any, labels: Any) -> None:
        """Set the labels of rows where a person has decided: other labels change nothing more."""
        ids, labels = flat(ids), flat(labels)
        places = self._add_rows(ids)
        new = newest_of(places, np.zeros_like(places))
        new = new[self._decided.values[places[new]] != labels[new]]
        self._decided.values[places[new]] = labels[new]
        self._fit.decide(places[new], labels[new])
        self._record(ids)
        self._limit()

    def remove(self, ids: Any) -> None:
        """Forget rows; what they have revealed of annotators stays. Other ids are ignored."""
        places = self._places.remove(flat(ids).tolist())
        if len(places):
            self._fit.remove(np.sort(places))
            for column in self._columns().values():
                column.values[places] = column.fill

    def keep(self, ids: Any) -> None:
        """Forget all rows but these."""
        held = set(flat(ids).tolist())
        self.remove([key for key in self._places.ids if key not in held])

    def grow(self, classes: int) -> None:
        """Make room for more classes."""
        self._fit.grow(classes)

    def labels(self, ids: Any) -> Tensor:
        """Return the joint label of each id as it was last returned, -1 where there is none."""
        places = self._places.find(flat(ids).tolist())
        known = places >= 0
        found = np.full(len(places), UNKNOWN)
        found[known] = self._labels.values[places[known]]
        return torch.from_numpy(found)

    def pop_changed(self) -> tuple[Tensor, Tensor]:
        """Return rows whose joint label is another one than was last returned, and their labels.

        The labels of one row show something about those of others: once an annotator is named, or
        when all rows are fitted again.
        """
        if not self._stale:
            return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
        self._stale = False
        ids = np.array(self._places.ids, np.int64)
        before = self._labels.values[self._places.find(ids.tolist())].copy()
        after = self._record(ids)
        changed = torch.from_numpy(before) != after
        return torch.from_numpy(ids)[changed], after[changed]

    def pop_declines(self) -> list[Decline]:
        """Return annotators who have gone bad since the last call."""
        unread, self._unread = self._unread, 0
        return people_of(self._fit.declines[len(self._fit.declines) - unread :])

    @property
    def declines(self) -> list[Decline]:
        """Return annotators who have gone bad, the newest last."""
        return people_of(self._fit.declines)

    def givers(self, ids: Any) -> Tensor:
        """Return who gave the label of each id: the newest whose label is the joint one.

        Else the newest who gave any; -1 where there is none.
        """
        places = self._places.find(flat(ids).tolist())
        rows = np.unique(places[places >= 0])
        at, owners, labels = self._fit.labels_of(rows)
        people = owners >= MODELS
        at, owners, labels = at[people], owners[people], labels[people]
        found = np.full(len(rows) + 1, UNKNOWN)  # the last is for ids without a row
        found[at] = owners - FIRST  # the oldest first: the newest stays
        same = labels == self._labels.values[rows[at]]
        found[at[same]] = owners[same] - FIRST
        where = np.where(places >= 0, np.searchsorted(rows, places), len(rows))
        return torch.from_numpy(found[where])

    def accuracy(self) -> Tensor:
        """Return the accuracy of each annotator now, at the shares of classes."""
        return self._fit.accuracy()[1:]

    def confusion(self) -> Tensor:
        """Return the confusion of each annotator now: (annotators, true class, label)."""
        return self._fit.confusion()[1:]

    def labels_given(self) -> Tensor:
        """Return the number of labels of each annotator, changed and withdrawn ones included."""
        return self._fit.labels_given()[1:]

    def class_shares(self) -> Tensor:
        """Return the share of each class."""
        return self._fit.class_shares()

    def state_dict(self) -> dict[str, Tensor]:
        """Return rows, labels, counts, and declines that nobody has read."""
        columns = self._columns().items()
        return {
            **{f"fit.{key}": value for key, value in self._fit.state_dict().items()},
            **{f"rows.{key}": value for key, value in self._places.state_dict().items()},
            **{name: torch.from_numpy(column.values.copy()) for name, column in columns},
            "stale": torch.tensor(self._stale),
            "unread": torch.tensor(self._unread),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._fit.load_state_dict(part_of(state, "fit."))
        self._places.load_state_dict(part_of(state, "rows."))
        for name, column in self._columns().items():
            column.assign(state[name].numpy().copy())
        self._stale, self._unread = bool(state["stale"]), int(state["unread"])

    def _columns(self) -> dict[str, Growing]:
        return {
            "labels": self._labels,
            "decided": self._decided,
            "predicted": self._predicted,
            "model": self._model,
            "voted": self._voted,
        }

    def _owners(self, annotators: Array) -> Array:
        """Return the numbers of annotators among all, the model included."""
        room = MOST_CELLS // self.classes**2 // 2 - FIRST  # the rest is for those who go bad
        most = min(self.most_annotators, room)
        return np.where(annotators < most, FIRST + annotators.clip(UNKNOWN), FIRST + UNKNOWN)

    def _add_rows(self, ids: Array) -> Array:
        places = self._places.add(ids.tolist())
        self._fit.add_rows(self._places.count)
        for column in self._columns().values():
            column.resize(self._places.count)
        return places

    def _add(self, places: Array, owners: Array, labels: Array, rows: Array) -> None:
        """Add labels, and the predictions of some rows where they are not among their labels."""
        silent = rows[(self._predicted.values[rows] >= 0) & ~self._voted.values[rows]]
        if not len(silent) + len(places):
            return
        self._voted.values[silent] = True
        declines = len(self._fit.declines)
        self._stale |= self._fit.add(
            np.concatenate([places, silent]),
            np.concatenate([owners, self._model.values[silent]]),
            np.concatenate([labels, self._predicted.values[silent]]),
        )
        self._unread += len(self._fit.declines) - declines
        self._unread = min(self._unread, MOST_DECLINES)
        del self._fit.declines[:-MOST_DECLINES]

    def _record(self, ids: Array) -> Tensor:
        """Find the joint label of each id now, and return it."""
        rows = np.unique(self._places.find(ids.tolist()))
        rows = rows[rows >= 0]
        decided = self._decided.values[rows]
        self._labels.values[rows] = np.where(decided >= 0, decided, self._fit.best(rows))
        return self.labels(ids)

    def _limit(self) -> None:
        """Forget the oldest rows, where there are too many."""
        most = min(self.most_rows, max(1, MOST_CELLS // self.classes))
        if len(self._places) > most:
            self.remove(self._places.ids[: len(self._places) - most])


def flat(values: Any) -> Array:
    """Return numbers as an array."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, np.int64).reshape(-1)


def people_of(declines: list[Decline]) -> list[Decline]:
    """Return the declines of people who are known, each by his number."""
    numbered = (each._replace(annotator=each.annotator - FIRST) for each in declines)
    return [each for each in numbered if each.annotator >= 0]


def part_of(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return what belongs to one part of a state."""
    found = {key: value for key, value in state.items() if key.startswith(prefix)}
    return {key.removeprefix(prefix): value for key, value in found.items()}


def newest_of(rows: Array, annotators: Array) -> Array:
    """Return the places of the last label of each row and annotator, in order."""
    order = np.lexsort((annotators, rows))
    ends = np.ones(len(order), bool)
    ends[:-1] = (np.diff(rows[order]) != 0) | (np.diff(annotators[order]) != 0)
    return np.sort(order[ends])
