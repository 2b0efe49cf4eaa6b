"""Posteriors of rows and confusions of phases: the EM of Dawid and Skene, of all rows or some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tamis.errors import TamisError
from tamis.noise.annotators.confusion import START, estimate, mean_knowing
from tamis.noise.annotators.votes import Array, Growing, Votes

SWEEPS = 2
"""Steps of the EM over the rows of an update."""
TOLERANCE = 1e-4
"""Mean change of a row's probabilities below which the EM over all rows ends."""
BLOCK = 2**16
"""Labels whose probabilities of all classes are held at once."""
MOST_CELLS = 2**25
"""Annotators times classes squared, at the most: 256 MB for each of two tables."""
MODEL_START = 0.5
"""How often a model knows the class, before any label."""
MODEL_HALF_LIFE = 1000.0
"""Labels of a model after which one weighs half in its confusion: it is in training."""
StepProgress = Callable[[int], None]
"""Takes the number of steps of the EM so far."""


class JointFit:
    """Posteriors of rows, and confusions of phases: stretches of one annotator's labels.

    The first annotators, `models` of them, are not people: until labels show better, they know
    the class less often, and they forget sooner.
    """

    models = 0

    def __init__(self, classes: int, half_life: float = 5000.0) -> None:
        if classes < 2:
            raise ValueError(f"Annotators need at least 2 classes, got {classes}.")
        if half_life <= 0:
            raise ValueError(f"The half-life must be above 0 labels, got {half_life}.")
        self.classes, self.half_life = classes, half_life
        self._votes = Votes()
        self._posterior = Growing(0.0, np.float64, (classes,))
        self._log_prior = Growing(np.nan, np.float64, (classes,))  # empty where none was set
        self._class_counts = np.zeros(classes)
        self._gone_classes = np.zeros(classes)  # of rows that were removed; part of the above
        self._phase_of = Growing(-1, np.int64)  # of each annotator, the newest
        # Of each phase: its annotator, his labels before it, counts, log confusion.
        self._owner = Growing(-1, np.int64)
        self._offset = Growing(0, np.int64)
        self._counts = Growing(0.0, np.float64, (classes, classes))
        self._gone = Growing(0.0, np.float64, (classes, classes))  # of removed rows; part of counts
        self._logs = Growing(0.0, np.float64, (classes, classes))
        self._knowing = Growing(START, np.float64)

    def set_prior(self, rows: Any, probabilities: Any) -> None:
        """Set what is known of rows beside their labels, as a model's probabilities of classes.

        They take the place of the shares of classes at the next label of such a row, or `refine`.
        """
        rows, probabilities = np.asarray(rows, np.int64), np.asarray(probabilities, np.float64)
        self._posterior.resize(int(rows.max(initial=-1)) + 1)
        self._log_prior.resize(len(self._posterior.values))
        self._log_prior.values[rows] = np.log(probabilities.clip(1e-9))

    def posterior(self) -> Tensor:
        """Return the probabilities of the classes of each row: without labels, its prior."""
        found = self._posterior.values.copy()
        unlabelled = np.flatnonzero(found.sum(axis=1) == 0)
        prior = np.exp(self._prior(unlabelled))
        found[unlabelled] = prior / prior.sum(axis=1, keepdims=True)
        return torch.from_numpy(found)

    def class_shares(self) -> Tensor:
        """Return the share of each class."""
        return torch.from_numpy(self._class_shares())

    def confusion(self) -> Tensor:
        """Return the confusion of each annotator now: (annotators, true class, label)."""
        return torch.from_numpy(np.exp(self._logs.values[self._phase_of.values[self.models :]]))

    def accuracy(self) -> Tensor:
        """Return the accuracy of each annotator now, at the shares of classes."""
        return torch.diagonal(self.confusion(), dim1=1, dim2=2) @ self.class_shares()

    def labels_given(self) -> Tensor:
        """Return the number of labels of each annotator."""
        phases = self._phase_of.values[self.models :]
        return torch.from_numpy(self._offset.values[phases] + self._votes.given[phases])

    def labels_of_rows(self) -> Tensor:
        """Return the number of labels of each row."""
        counts = np.bincount(self._votes.rows, minlength=len(self._posterior.values))
        return torch.from_numpy(counts)

    def state_dict(self) -> dict[str, Tensor]:
        """Return labels, posteriors and counts."""
        state = {name: part.values.copy() for name, part in self._parts().items()}
        state |= self._votes.state_dict()
        state["class_counts"] = self._class_counts.copy()
        state["gone_classes"] = self._gone_classes.copy()
        return {name: torch.from_numpy(values) for name, values in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        arrays = {name: values.numpy().copy() for name, values in state.items()}
        for name, part in self._parts().items():
            part.assign(arrays[name])
        self._votes.load_state_dict(arrays)
        self._class_counts, self._gone_classes = arrays["class_counts"], arrays["gone_classes"]

    def _parts(self) -> dict[str, Growing]:
        return {
            "posterior": self._posterior,
            "log_prior": self._log_prior,
            "phase_of": self._phase_of,
            "owner": self._owner,
            "offset": self._offset,
            "counts": self._counts,
            "gone": self._gone,
            "logs": self._logs,
            "knowing": self._knowing,
        }

    def _add_annotators(self, count: int) -> None:
        """Begin a phase for each annotator who is new."""
        new = np.arange(len(self._phase_of.values), count)
        if len(new):
            self._phase_of.resize(count)
            self._phase_of.values[new] = self._add_phases(new)

    def _add_phases(self, owners: Array) -> Array:
        """Begin phases of annotators, and return their numbers."""
        first = len(self._owner.values)
        phases = np.arange(first, first + len(owners))
        total = first + len(owners)
        if total > self._most_phases:
            raise TamisError(
                f"{total} confusions of {self.classes} classes take too much memory: the number of"
                f" annotators times classes squared must be at most {MOST_CELLS:,}."
            )
        for part in self._of_phases():
            part.resize(total)
        self._votes.add_phases(total)
        self._owner.values[phases] = owners
        self._refresh(phases)
        return phases

    @property
    def _most_phases(self) -> int:
        return MOST_CELLS // self.classes**2

    def _of_phases(self) -> list[Growing]:
        return [
            self._owner, self._offset, self._counts, self._gone, self._logs, self._knowing
        ]  # fmt: skip

    def _settle(self, rows: Array, first: int) -> None:
        """Fit some rows; labels from number `first` on are not counted yet."""
        votes, posterior = self._votes, self._posterior.values
        which = votes.of_rows(rows)
        places = np.searchsorted(rows, votes.rows[which])
        phases, labels = votes.phases[which], votes.labels[which]
        weights = self._weights(which)[:, None]
        cells = (phases[:, None], np.arange(self.classes), labels[:, None])
        touched = np.unique(phases)
        held = posterior[rows]
        counted = np.where((which < first)[:, None], held[places], 0)
        for _ in range(SWEEPS):
            found = np.exp(self._joint(rows, places, phases, labels))
            np.add.at(self._counts.values, cells, weights * (found[places] - counted))
            self._class_counts += (found - held).sum(axis=0)
            counted, held = found[places], found
            self._refresh(touched)
        posterior[rows] = held
        log = self._joint(rows, places, phases, labels)
        self._find_consensus(which, log[places], np.bincount(places)[places] > 1)

    def _joint(self, rows: Array, places: Array, phases: Array, labels: Array) -> Array:
        """Return the log posterior of some rows, from all of their labels."""
        log = self._prior(rows)
        given = self._logs.values[phases, :, labels]
        for c in range(self.classes):
            log[:, c] += np.bincount(places, given[:, c], minlength=len(rows))
        return log_softmax(log, axis=1)

    def _fit(self, sweeps: int, progress: StepProgress | None = None) -> None:
        """Fit all rows."""
        votes, classes = self._votes, self.classes
        taken = len(votes) and votes.rows.min() < 0
        held = np.flatnonzero(votes.rows >= 0) if taken else slice(None)
        rows = votes.rows[held].astype(np.int64)
        keys = votes.phases[held].astype(np.int64) * classes + votes.labels[held]
        weights = self._weights(held)
        counts = self._counts.values
        labelled = votes.last_in_row >= 0
        seen = np.zeros(len(self._posterior.values), bool)
        seen[: len(labelled)] = labelled
        everyone = np.arange(len(counts))
        for step in range(sweeps):
            if progress:
                progress(step)
            log = self._joint_of_all(rows, keys)
            found = np.exp(log) * seen
            moved = np.abs(found.T - self._posterior.values).sum() / max(1, seen.sum())
            self._posterior.values[:] = found.T
            self._class_counts = self._gone_classes + found.sum(axis=1)
            for c in range(classes):
                sums = np.bincount(keys, weights * found[c][rows], minlength=counts[:, 0].size)
                counts[:, c] = self._gone.values[:, c] + sums.reshape(-1, classes)
            self._refresh(everyone)
            if moved < TOLERANCE:
                break
        log = self._joint_of_all(rows, keys)
        several = np.bincount(rows)[rows] > 1
        numbers = np.arange(len(votes))[held]
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            self._find_consensus(numbers[part], log.T[rows[part]], several[part])

    def _joint_of_all(self, rows: Array, keys: Array) -> Array:
        """Return the log posterior of all rows, (classes, rows)."""
        total = len(self._posterior.values)
        log = np.ascontiguousarray(self._prior(np.arange(total)).T)
        logs = self._logs.values
        for c in range(self.classes):
            log[c] += np.bincount(rows, logs[:, c].ravel()[keys], minlength=total)
        return log_softmax(log, axis=0)

    def _prior(self, rows: Array) -> Array:
        """Return the log prior of rows: the one that was set, else the shares of classes."""
        log = np.repeat(np.log(self._class_shares())[None], len(rows), axis=0)
        own = np.flatnonzero(rows < len(self._log_prior.values))
        if len(own):
            found = self._log_prior.values[rows[own]]
            known = ~np.isnan(found[:, 0])
            log[own[known]] = found[known]
        return log

    def _class_shares(self) -> Array:
        counts = self._class_counts.clip(0) + 1
        shares: Array = counts / counts.sum()
        return shares

    def _refresh(self, phases: Array) -> None:
        """Estimate the confusions of phases from their counts."""
        people = self._owner.values >= self.models
        mean = mean_knowing(self._knowing.values[people], self._votes.given[people])
        shares = self._class_shares()
        means = np.where(people[phases], mean, MODEL_START)
        parts = -(-len(phases) * self.classes**2 // 2**20) or 1
        for part, mean_of in zip(*(np.array_split(x, parts) for x in (phases, means)), strict=True):
            found = estimate(self._counts.values[part].clip(0), shares, mean_of)
            self._logs.values[part] = np.log(found.shares)
            self._knowing.values[part] = found.knowing

    def _half_lives(self, phases: Array) -> float | Array:
        """Return the labels after which one of a phase weighs half."""
        if not self.models:
            return self.half_life
        return np.where(self._owner.values[phases] < self.models, MODEL_HALF_LIFE, self.half_life)

    def _weights(self, which: Array | slice) -> Array:
        """Return what labels weigh in their confusions."""
        return self._votes.weights(which, self._half_lives(self._votes.phases[which]))

    def _recount(self, phase: int) -> None:
        """Count the labels of a phase again, by the posteriors of their rows."""
        votes, counts = self._votes, self._counts.values
        which = votes.of_phase(phase)
        which = which[votes.rows[which] >= 0]
        cells = (np.arange(self.classes), votes.labels[which][:, None])
        weights = self._weights(which)[:, None]
        counts[phase] = self._gone.values[phase]
        np.add.at(counts[phase], cells, weights * self._posterior.values[votes.rows[which]])
        self._refresh(np.array([phase]))

    def _find_consensus(self, which: Array, log: Array, several: Array) -> None:
        """Keep, for each label, the class that the others of its row are for."""
        votes = self._votes
        others = log - self._logs.values[votes.phases[which], :, votes.labels[which]]
        others = np.exp(log_softmax(others, axis=1))
        votes.consensus[which] = np.where(several, others.argmax(axis=1), -1)
        votes.confidences[which] = others.max(axis=1)


def log_softmax(log: Array, axis: int) -> Array:
    """Return logarithms of which the exponentials sum to 1."""
    log = log - log.max(axis=axis, keepdims=True)
    found: Array = log - np.log(np.exp(log).sum(axis=axis, keepdims=True))
    return found
