"""An alarm for streams that change: have the labels become worse, or is it something else?

It sees what the tracker sees, predictions made before learning, and holds the newest rows against
those before them.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tamis.noise.tracker import Tracker, observe

FASTER = 5
"""How many times faster the newest rows fade than the others."""
CHECKS = 4
"""Looks at the newest rows within one of their half-lives."""
LEVEL = 4.0
"""Deviations that raise a suspicion, and that must be found again in rows that came after it.

Three tests, a look every 50 rows at the usual half-life: by chance alone, normal numbers lie so far
out at most once in some 400,000 rows, and of such suspicions 1 in 8,000 is found again.
"""
SURE = 3.0
"""Deviations that tell of what kind a change is: asked once a change, so 1 in 700 is enough."""
QUIET = 2.0
"""Deviations at the most where all is as before: 19 in 20 lie within."""
RESTS = 3
"""Half-lives without an alarm, at the start and after each: so long may a model learn what is
new."""


class Change(NamedTuple):
    """What has changed, after how many rows that was said, and the clean ratio before and after."""

    kind: Literal["noise", "concept"]
    row: int
    before: float
    after: float


class Shift(NamedTuple):
    """How far newer rows are from older ones, in deviations of what chance does.

    `noise`: the clean ratios that fit them, each with beliefs as sure as fits them. `choices`: how
    often each class is the model's first choice, whatever the labels. `fall`: labels that agree
    less often than before.
    """

    noise: float
    choices: float
    fall: float

    @property
    def farthest(self) -> float:
        """The largest. Other choices under labels that agree better are a model that learns."""
        return max(self.noise, self.fall, self.choices if self.fall > -QUIET else 0.0)


class Alarm(Tracker):
    """A tracker that also says when its stream has changed, and then forgets what was before.

    It holds the newest rows against older ones, and where they differ too much, the rows that
    come next as well. If the model then chooses other classes than before, or is less sure, the
    inputs have changed; if most labels of a class went over to one other class, what labels mean
    has; if beliefs that are right less often explain the labels better than another clean ratio
    does, the model fits no longer. All of these are "concept". What is left is "noise".

    There is one alarm for a change: none follows for three half-lives, and then not before newer
    and older rows are alike again.

    >>> generator = torch.Generator().manual_seed(0)
    >>> beliefs = (4 * torch.randn(4000, 3, generator=generator)).softmax(dim=1)
    >>> labels = beliefs.multinomial(1, generator=generator)[:, 0]
    >>> labels[3000::2] = torch.randint(3, (500,), generator=generator)
    >>> alarm = Alarm(classes=3, half_life=500)
    >>> for rows in torch.arange(4000).split(10):
    ...     alarm.update(beliefs[rows], labels[rows])
    >>> alarm.news().kind
    'noise'
    """

    def __init__(self, classes: int, half_life: float = 1000.0) -> None:
        super().__init__(classes, half_life)
        self._newest = Tracker(classes, half_life / FASTER)
        # While there is a suspicion: rows from before it and since, and looks taken.
        self._before, self._since = Tracker(classes, math.inf), Tracker(classes, math.inf)
        self._early_pairs = torch.zeros(classes, classes, dtype=torch.float64)
        self._looks = 0
        self._watched = self._looked_at = 0
        self._rests_until = RESTS * half_life
        self._armed = False
        self._news: Change | None = None

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Take in rows as the model saw them before it learned from them."""
        if not len(labels):
            return
        rows = observe(probabilities, labels, self.classes)
        self.count(rows)
        self._newest.count(rows)
        if self._looks:
            self._since.count(rows)
        self._watched += len(labels)
        if self._watched - self._looked_at < self._newest.half_life / CHECKS:
            return
        self._looked_at = self._watched
        if self._looks:
            self._look_closer()
        elif self._watched >= self._rests_until:
            self._look()

    def news(self) -> Change | None:
        """Say what has changed, once."""
        news, self._news = self._news, None
        return news

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that is remembered."""
        state = super().state_dict()
        for name, part in self._parts().items():
            state |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
        numbers = (
            self._looks, self._watched, self._looked_at, self._rests_until, self._armed,
        )  # fmt: skip
        news = () if self._news is None else (self._news.kind == "noise", *self._news[1:])
        return state | {
            "early_pairs": self._early_pairs,
            "numbers": torch.tensor(numbers, dtype=torch.float64),
            "news": torch.tensor(news, dtype=torch.float64),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take up what `state_dict` gave."""
        super().load_state_dict(state)
        for name, part in self._parts().items():
            part.load_state_dict({key: state[f"{name}.{key}"] for key in part.state_dict()})
        self._early_pairs = state["early_pairs"].clone()
        looks, watched, looked_at, self._rests_until, armed = state["numbers"].tolist()
        self._looks, self._watched, self._looked_at = int(looks), int(watched), int(looked_at)
        self._armed = bool(armed)
        self._news = None
        if len(state["news"]):
            is_noise, row, before, after = state["news"].tolist()
            self._news = Change("noise" if is_noise else "concept", int(row), before, after)

    def _parts(self) -> dict[str, Tracker]:
        return {"newest": self._newest, "before": self._before, "since": self._since}

    def _look(self) -> None:
        """Suspect a change where the newest rows are far from the older ones."""
        older = self.without(self._newest)
        farthest = shift(self._newest, older).farthest
        if not self._armed:
            self._armed = farthest < QUIET
        elif farthest > LEVEL:
            self._looks = 1
            self._before.load_state_dict(older.state_dict())
            self._since = Tracker(self.classes, math.inf)

    def _look_closer(self) -> None:
        """Hold the rows since a suspicion against those before it, once there are enough."""
        if self._looks == CHECKS // 2:
            self._early_pairs = self._since.pairs()
        self._looks += 1
        if self._looks <= CHECKS:
            return
        self._looks = 0
        found = shift(self._since, self._before)
        if found.farthest > LEVEL:
            self._tell(found)

    def _tell(self, found: Shift) -> None:
        """Give the alarm, and begin anew with the rows since the suspicion."""
        other = (
            found.choices,
            doubts(self._since, self._before),
            remapping(self._early_pairs, self._since.pairs() - self._early_pairs),
            misfits(self._since, self._before),
        )
        before, after = self._before.estimate().value, self._since.estimate().value
        self._news = Change(
            "concept" if max(other) > SURE else "noise", self._watched, before, after
        )
        self._rests_until, self._armed = self._watched + RESTS * self.half_life, False
        super().load_state_dict(self._since.state_dict())
        self._newest.load_state_dict(self._since.state_dict())


def shift(newer: Tracker, older: Tracker) -> Shift:
    """Measure how far newer rows are from older ones."""
    rows, older_rows = newer.weight(), older.weight()
    if not rows or not older_rows:
        return Shift(0.0, 0.0, 0.0)
    one, other = (part.likelihood().max(dim=1).values for part in (newer, older))
    # Twice what the likelihood loses under one clean ratio for both: chi squared of 1.
    lost = (one.max() + other.max() - (one + other).max()).item()
    variance = 1 / rows + 1 / older_rows
    share = rows / (rows + older_rows)
    choices = share * newer.choices() + (1 - share) * older.choices()
    apart = (newer.choices() - older.choices()).square() / choices.clamp_min(1e-9)
    agreement = share * newer.agreement() + (1 - share) * older.agreement()
    spread = max(agreement * (1 - agreement), 1 / (rows + older_rows))
    return Shift(
        math.sqrt(2 * max(0.0, lost)),
        deviations(apart.sum().item() / variance, int((choices > 0).sum()) - 1),
        (older.agreement() - newer.agreement()) / math.sqrt(spread * variance),
    )


def doubts(newer: Tracker, older: Tracker) -> float:
    """Say how much less sure the model is than before, in deviations. Labels play no part."""
    bins = torch.arange(len(older.confidence()), dtype=torch.float64)
    mean, older_mean = newer.confidence() @ bins, older.confidence() @ bins
    spread = older.confidence() @ (bins - older_mean).square()
    variance = spread * (1 / newer.weight() + 1 / older.weight())
    return ((older_mean - mean) / variance.clamp_min(1e-9).sqrt()).item()


def misfits(newer: Tracker, older: Tracker) -> float:
    """Say how much better beliefs less often right explain the labels than another clean ratio.

    In deviations; 0 where the ratio does it better.
    """
    one, other = newer.likelihood(), older.likelihood()
    ratios, slacks = (one.max(dim=way).values + other.max(dim=way).values for way in (0, 1))
    return math.sqrt(2 * max(0.0, (slacks.max() - ratios.max()).item()))


def deviations(square: float, freedom: int) -> float:
    """Turn chi squared into deviations of a normal number (Wilson and Hilferty, 1931)."""
    if freedom < 1:
        return 0.0
    width = 2 / (9 * freedom)
    return float(((square / freedom) ** (1 / 3) - (1 - width)) / math.sqrt(width))


def remapping(early: Tensor, late: Tensor) -> float:
    """Say how much more often a class has one other label than its own, in deviations.

    Both are counts of rows, first choice by given label. The early ones name that other label,
    the late ones are counted, so that the best of many labels is not found by chance.
    """
    named = early.argmax(dim=1)
    other = named != torch.arange(len(named))
    there = late.gather(1, named[:, None])[other].sum().item()
    here = late.diagonal()[other].sum().item()
    return (there - here) / math.sqrt(max(1.0, there + here))
