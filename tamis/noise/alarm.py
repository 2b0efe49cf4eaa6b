"""Drift detection that distinguishes a change of label noise from a change of concept.

It sees what the tracker sees, predictions made before training, and compares the newest rows with
those before them.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tamis.noise.agreement import observe
from tamis.noise.class_watch import ClassChange, ClassWatch
from tamis.noise.pairs import counts_at, largest_columns
from tamis.noise.tracker import Tracker

FASTER = 5
"""How many times faster the newest rows fade than the others."""
CHECKS = 4
"""Comparisons within one half-life of the newest rows."""
LEVEL = 4.0
"""Standard deviations that raise a suspicion, and that the rows after it must confirm.

With three tests and a comparison every 50 rows at the default half-life, normal variates lie so far
out at most once in some 400,000 rows, and 1 in 8,000 of such suspicions is confirmed.
"""
KIND_LEVEL = 3.0
"""Standard deviations that decide the kind of a change: tested once a change, so 1 in 700 is
enough."""
QUIET = 2.0
"""Standard deviations below which nothing has changed: 19 in 20 lie within."""
RESTS = 3
"""Half-lives without an alarm, at the start and after each: a model needs time to learn."""


WATCHED = ("unread", "seen", "rows", "awaited", "changes")
"""State of the watch over classes."""


class Change(NamedTuple):
    """The kind of a change, the row at which it was detected, and the clean ratio on both sides."""

    kind: Literal["noise", "concept"]
    row: int
    before: float
    after: float


class Shift(NamedTuple):
    """Distances of newer rows from older ones, in standard deviations.

    `noise`: of the clean ratios, each fitted with a temperature of its own. `predicted`: of the
    shares of the predicted classes, whatever the labels. `fall`: how much less often labels agree.
    """

    noise: float
    predicted: float
    fall: float

    @property
    def farthest(self) -> float:
        """The largest. New predictions with better agreement are those of a model that learns."""
        return max(self.noise, self.fall, self.predicted if self.fall > -QUIET else 0.0)


class Suspicion:
    """Rows before a suspicion and since, the first of these, and the comparisons so far."""

    def __init__(self, classes: int, checks: int = 1) -> None:
        self.before, self.since, self.early = (Tracker(classes, math.inf) for _ in range(3))
        self.checks = checks

    def parts(self) -> dict[str, Tracker]:
        """Return the trackers by name."""
        return {"before": self.before, "since": self.since, "early": self.early}


class Alarm(Tracker):
    """A tracker that also detects changes of its stream, and then forgets the rows before them.

    It compares the newest rows with older ones and, where they differ too much, the rows that
    come next as well. If the predicted classes or the confidence have changed, the inputs have;
    if most labels of a class moved to one other class, the meaning of labels has; if a less
    accurate model explains the labels better than another clean ratio does, the model no longer
    fits. All of these are "concept". What is left is "noise".

    A change raises one alarm: none follows for three half-lives, nor before newer and older rows
    agree again. Classes that come up, or are gone, are reported apart (`ClassWatch`).

    >>> generator = torch.Generator().manual_seed(0)
    >>> probabilities = (4 * torch.randn(4000, 3, generator=generator)).softmax(dim=1)
    >>> labels = probabilities.multinomial(1, generator=generator)[:, 0]
    >>> labels[3000::2] = torch.randint(3, (500,), generator=generator)
    >>> alarm = Alarm(classes=3, half_life=500)
    >>> for rows in torch.arange(4000).split(10):
    ...     alarm.update(probabilities[rows], labels[rows])
    >>> alarm.pop_change().kind
    'noise'
    """

    def __init__(self, classes: int, half_life: float = 1000.0) -> None:
        super().__init__(classes, half_life)
        self._newest = Tracker(classes, half_life / FASTER)
        # Once labels were corrected: the same rows as this tracker's, by the labels they came with.
        self._as_given: Tracker | None = None
        self._suspicion: Suspicion | None = None
        self._counted = self._checked_at = 0
        self._rests_until = RESTS * half_life
        self._armed = False
        self._change: Change | None = None
        self._watch = ClassWatch(classes, half_life)

    def grow(self, classes: int) -> None:
        """Count by so many classes, and report the new ones."""
        super().grow(classes)
        for part in self._parts().values():
            part.grow(classes)
        self._watch.grow(classes)

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Count rows, with the predictions that the model made before it was trained on them."""
        if not len(labels):
            return
        self._watch.update(labels)
        rows = observe(probabilities, labels, self.classes)
        self.count(rows)
        self._newest.count(rows)
        if self._as_given:
            self._as_given.count(rows)
        if self._suspicion:
            self._suspicion.since.count(rows)
        self._counted += len(labels)
        if self._counted - self._checked_at < self._newest.half_life / CHECKS:
            return
        self._checked_at = self._counted
        self._watch.check()
        if self._suspicion:
            self._confirm(self._suspicion)
        elif self._counted >= self._rests_until:
            self._check()

    def relabel(
        self, probabilities: Tensor, before: Tensor, after: Tensor, *, ages: Tensor
    ) -> None:
        """Count rows under other labels.

        Newer and older rows are still compared by the labels that they came with: older labels
        that were corrected are no sign that new ones have become worse.
        """
        if self._as_given is None:
            self._as_given = Tracker(self.classes, self.half_life)
            self._as_given.load_state_dict(super().state_dict())
        super().relabel(probabilities, before, after, ages=ages)
        self._watch.report_new(after)

    def pop_change(self) -> Change | None:
        """Return the change detected since the last call, if any."""
        change, self._change = self._change, None
        return change

    def pop_class_changes(self) -> list[ClassChange]:
        """Return the classes that have come up or are gone since the last call."""
        return self._watch.pop_changes()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts, and how far a suspicion is confirmed."""
        state = super().state_dict()
        state |= {f"watch.{key}": value for key, value in self._watch.state_dict().items()}
        for name, part in self._parts().items():
            state |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
        checks = self._suspicion.checks if self._suspicion else 0
        numbers = (checks, self._counted, self._checked_at, self._rests_until, self._armed)
        change = () if self._change is None else (self._change.kind == "noise", *self._change[1:])
        return state | {
            "numbers": torch.tensor(numbers, dtype=torch.float64),
            "change": torch.tensor(change, dtype=torch.float64),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._watch.load_state_dict({key: state[f"watch.{key}"] for key in WATCHED})
        corrected = "as_given.rows" in state
        self._as_given = Tracker(self.classes, self.half_life) if corrected else None
        checks, counted, checked_at, self._rests_until, armed = state["numbers"].tolist()
        self._counted, self._checked_at = int(counted), int(checked_at)
        self._suspicion = Suspicion(self.classes, int(checks)) if checks else None
        for name, part in self._parts().items():
            part.load_state_dict({key: state[f"{name}.{key}"] for key in part.state_dict()})
        self._armed = bool(armed)
        self._change = None
        if len(state["change"]):
            is_noise, row, before, after = state["change"].tolist()
            self._change = Change("noise" if is_noise else "concept", int(row), before, after)

    def _parts(self) -> dict[str, Tracker]:
        parts = {"newest": self._newest}
        parts |= self._suspicion.parts() if self._suspicion else {}
        return parts | ({"as_given": self._as_given} if self._as_given else {})

    def _check(self) -> None:
        """Raise a suspicion where the newest rows are far from the older ones."""
        older = (self._as_given or self).without(self._newest)
        farthest = shift(self._newest, older).farthest
        if not self._armed:
            self._armed = farthest < QUIET
        elif farthest > LEVEL:
            self._suspicion = Suspicion(self.classes)
            self._suspicion.before.load_state_dict(older.state_dict())

    def _confirm(self, suspicion: Suspicion) -> None:
        """Compare the rows since a suspicion with those before it, once there are enough."""
        if suspicion.checks == CHECKS // 2:
            suspicion.early.load_state_dict(suspicion.since.state_dict())
        suspicion.checks += 1
        if suspicion.checks <= CHECKS:
            return
        self._suspicion = None
        found = shift(suspicion.since, suspicion.before)
        if found.farthest > LEVEL:
            self._raise_alarm(found, suspicion)

    def _raise_alarm(self, found: Shift, suspicion: Suspicion) -> None:
        """Record the change, and restart from the rows since the suspicion."""
        since, before, early = suspicion.since, suspicion.before, suspicion.early.pairs()
        concept = (
            found.predicted,
            fall_of_confidence(since, before),
            remapping(early, since.pairs() - early),
            misfits(since, before),
        )
        kind: Literal["noise", "concept"] = "concept" if max(concept) > KIND_LEVEL else "noise"
        ratios = before.estimate().value, since.estimate().value
        self._change = Change(kind, self._counted, *ratios)
        self._rests_until, self._armed = self._counted + RESTS * self.half_life, False
        super().load_state_dict(since.state_dict())
        self._as_given = None
        self._newest.load_state_dict(since.state_dict())


def shift(newer: Tracker, older: Tracker) -> Shift:
    """Return how far newer rows are from older ones."""
    rows, older_rows = newer.weight(), older.weight()
    if not rows or not older_rows:
        return Shift(0.0, 0.0, 0.0)
    one, other = (part.likelihood().max(dim=1).values for part in (newer, older))
    # Likelihood ratio test of one clean ratio for both: twice the loss is chi squared of 1.
    lost = (one.max() + other.max() - (one + other).max()).item()
    variance = 1 / rows + 1 / older_rows
    share = rows / (rows + older_rows)
    predicted = share * newer.predicted() + (1 - share) * older.predicted()
    apart = (newer.predicted() - older.predicted()).square() / predicted.clamp_min(1e-9)
    agreement = share * newer.agreement() + (1 - share) * older.agreement()
    spread = max(agreement * (1 - agreement), 1 / (rows + older_rows))
    return Shift(
        math.sqrt(2 * max(0.0, lost)),
        deviations(apart.sum().item() / variance, int((predicted > 0).sum()) - 1),
        (older.agreement() - newer.agreement()) / math.sqrt(spread * variance),
    )


def fall_of_confidence(newer: Tracker, older: Tracker) -> float:
    """Return how far confidence has fallen, in standard deviations, whatever the labels."""
    bins = torch.arange(len(older.confidence()), dtype=torch.float64)
    mean, older_mean = newer.confidence() @ bins, older.confidence() @ bins
    spread = older.confidence() @ (bins - older_mean).square()
    variance = spread * (1 / newer.weight() + 1 / older.weight())
    return ((older_mean - mean) / variance.clamp_min(1e-9).sqrt()).item()


def misfits(newer: Tracker, older: Tracker) -> float:
    """Return how much better another temperature explains the labels than another clean ratio.

    In standard deviations; 0 where the clean ratio explains them better.
    """
    one, other = newer.likelihood(), older.likelihood()
    ratios, temperatures = (one.max(dim=way).values + other.max(dim=way).values for way in (0, 1))
    return math.sqrt(2 * max(0.0, (temperatures.max() - ratios.max()).item()))


def deviations(square: float, freedom: int) -> float:
    """Return chi squared as a standard normal variate (Wilson and Hilferty, 1931)."""
    if freedom < 1:
        return 0.0
    width = 2 / (9 * freedom)
    return float(((square / freedom) ** (1 / 3) - (1 - width)) / math.sqrt(width))


def remapping(early: Tensor, late: Tensor) -> float:
    """Return how much more often classes have one other label than their own, in deviations.

    Both are counts of rows, predicted class by given label. The early ones name the other label,
    the late ones are counted: the most frequent of many labels would exceed its share by itself.
    """
    named, own_label = largest_columns(early), torch.arange(len(early))
    moved = named != own_label
    other = counts_at(late, own_label, named)[moved].sum().item()
    own = counts_at(late, own_label, own_label)[moved].sum().item()
    return (other - own) / math.sqrt(max(1.0, other + own))
