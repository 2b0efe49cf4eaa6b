"""A data set played back with labels of several annotators, who err each in his own way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.data import Event, Events, Samples


@dataclass(frozen=True)
class Crowd:
    """Annotators with a confusion each: (annotators, true class, label), rows of it sum to 1.

    One of them may turn bad: from time `turns` on, 0 being the first slot and 1 the last, the last
    annotator labels at random.

    >>> crowd = Crowd.draw(annotators=2, classes=3, accuracy=1.0)
    >>> crowd.label(torch.tensor([2, 0]), torch.tensor([1, 0]), 0.5, torch.Generator()).tolist()
    [2, 0]
    """

    confusions: Tensor
    turns: float | None = None

    @classmethod
    def draw(
        cls,
        annotators: int,
        classes: int,
        *,
        accuracy: float = 0.75,
        spammers: int = 0,
        turns: float | None = None,
        seed: int = 0,
    ) -> Crowd:
        """Return annotators of various skill, drawn at random, the first of them spammers.

        `accuracy` is the mean over those who are none. One who errs does so by a distribution of
        his own for each class, a spammer by one for all classes. The one who turns bad is as good
        as the mean before.
        """
        generator = torch.Generator().manual_seed(seed)
        skills = torch.rand(annotators, generator=generator)
        width = 0.8 * min(accuracy, 1 - accuracy)
        skills = accuracy + width * (2 * skills - 1)
        if turns is not None:
            skills[-1] = accuracy
        shares = torch.rand(annotators, classes, classes, generator=generator).log().neg()
        shares *= 1 - torch.eye(classes)
        shares = (1 - skills)[:, None, None] * shares / shares.sum(dim=2, keepdim=True)
        shares += skills[:, None, None] * torch.eye(classes)
        guesses = torch.rand(spammers, 1, classes, generator=generator).log().neg()
        shares[:spammers] = guesses / guesses.sum(dim=2, keepdim=True)
        return cls(shares, turns)

    def label(
        self, truth: Tensor, annotators: Tensor, time: float, generator: torch.Generator
    ) -> Tensor:
        """Return the labels that annotators give to rows of these classes."""
        shares = self.confusions[annotators, truth]
        if self.turns is not None and time >= self.turns:
            bad = annotators == len(self.confusions) - 1
            shares = torch.where(bad[:, None], 1 / shares.shape[1], shares)
        return shares.multinomial(1, generator=generator)[:, 0]


@dataclass(frozen=True)
class CrowdStream:
    """Play rows in random order, each labelled by several annotators of a crowd.

    A row comes with the label of one annotator; those of others follow, up to `spread` slots later.
    `per_row` is the number of labels of a row, all by different annotators, or the least and the
    most of them. A pass shows every row once, and another one follows where `slots` asks for more.
    Labels that are due after the last slot do not come.

    >>> stream = CrowdStream(torch.eye(3), torch.arange(3), Crowd.draw(5, 3), per_row=2)
    >>> [len(events.events) for events in stream]
    [2, 2, 2]
    """

    inputs: Tensor
    labels: Tensor
    crowd: Crowd
    per_row: int | tuple[int, int] = 3
    slots: int | None = None
    rows_per_slot: int = 1
    spread: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        least, most = self._per_row
        if not 1 <= least <= most <= len(self.crowd.confusions):
            raise ValueError(
                f"A row gets from 1 to {len(self.crowd.confusions)} labels, got {self.per_row}."
            )

    def __len__(self) -> int:
        return -(-len(self.labels) // self.rows_per_slot) if self.slots is None else self.slots

    def __iter__(self) -> Iterator[Events]:
        generator = torch.Generator().manual_seed(self.seed)
        later: dict[int, list[Event]] = {}
        for slot, rows in enumerate(self.order().split(self.rows_per_slot)):
            yield self._slot(slot, rows, later, generator)

    def order(self) -> Tensor:
        """Return the rows of the data set in the order in which they come: by their ids."""
        generator = torch.Generator().manual_seed(self.seed)
        rows = len(self.labels)
        total = rows if self.slots is None else self.slots * self.rows_per_slot
        passes = [torch.randperm(rows, generator=generator) for _ in range(-(-total // rows))]
        return torch.cat(passes)[:total]

    @property
    def _per_row(self) -> tuple[int, int]:
        return self.per_row if isinstance(self.per_row, tuple) else (self.per_row, self.per_row)

    def _slot(
        self, slot: int, rows: Tensor, later: dict[int, list[Event]], generator: torch.Generator
    ) -> Events:
        """Return the rows of a slot with their first labels, and labels of earlier rows."""

        def draw(low: int, high: int) -> int:
            return int(torch.randint(low, high + 1, (1,), generator=generator))

        time, first = slot / max(1, len(self) - 1), slot * self.rows_per_slot
        came: list[Event] = []
        for at, truth in enumerate(self.labels[rows]):
            count = draw(*self._per_row)
            who = torch.randperm(len(self.crowd.confusions), generator=generator)[:count]
            labels = self.crowd.label(truth.expand(count), who, time, generator).tolist()
            came.append(Event(first + at, at, labels[0], int(who[0])))
            for annotator, label in zip(who[1:].tolist(), labels[1:], strict=True):
                when = slot + draw(0, self.spread)
                later.setdefault(when, []).append(Event(first + at, None, label, annotator))
        given = torch.tensor([event.label for event in came])
        samples = Samples.of(self.inputs[rows], given, first)
        return Events(samples, (*came, *later.pop(slot, [])))
