"""Dynamic instance-specific thresholds (DISC): Li, Han, Shan and Chen, CVPR 2023."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.id_memory import IdMemory
from tamis.selectors.sampling import draw_rows, trainable

Change = Callable[[Tensor, Tensor, int, Generator], tuple[Tensor, Tensor]]
"""A change of inputs, called as the trainer calls its `augment`."""


@dataclass
class DISC:
    """Compare each row with a running mean of its own confidence, under a weak and a strong view.

    A row is clean if the probability of its label is above its threshold in both views, hard if in
    one. Otherwise it is purified, if the mean of both views has a probability that is `margin`
    above the mean threshold, or above `ceiling`: it takes the class that is predicted. Other rows
    are not trained on. Clean and purified rows have the cross entropy, hard ones the generalised
    one, by their weights. A threshold then moves towards the highest probability of its view.

    In the letters of the paper and its code: momentum is lambda, margin is sigma, power is q.
    `strong` changes inputs as the trainer's `augment` does; without it both views are the row as it
    is, and none is hard. Thresholds are kept by id and view, and start at 1 / classes. In its first
    `looks` looks a row counts as clean, while its thresholds move.
    """

    seeks_clean: ClassVar = False  # a row counts as clean in its first looks

    momentum: float = 0.95
    margin: float = 0.5
    looks: int = 5
    ceiling: float = 0.9
    power: float = 0.7
    strong: Change | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.momentum < 1 and 0 < self.ceiling <= 1 and 0 < self.power <= 1):
            raise ValueError(
                f"DISC needs momentum in [0, 1), ceiling and power in (0, 1], got {self}."
            )
        # Thresholds less where they start, so that unknown ids are at 0, and the looks at a row.
        self._above = IdMemory()

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick those of k random rows that are clean, hard or purified; else the nearest to it."""
        rows = trainable(pool, draw_rows(len(pool), k, generator, pool.labels.device))
        if not len(rows):
            return Picks(rows)
        weak, strong = self._views(pool.inputs[rows], pool.labels[rows], view, generator)
        finite = (weak + strong).isfinite().all(dim=1)
        rows, weak, strong = rows[finite], weak[finite], strong[finite]
        if not len(rows):
            return Picks(rows)
        labels, ids, start = pool.labels[rows], pool.ids[rows], 1 / weak.shape[1]
        known = self._above.get(ids, 3)
        thresholds, new = start + known[:, :2], known[:, 2] < self.looks
        own, targets, weights = self.judge(weak, strong, labels, thresholds)
        targets[new] = one_hot(labels[new], weak.shape[1]).to(targets)
        weights = weights.masked_fill(new, 1)
        highest = torch.stack([weak.max(dim=1).values, strong.max(dim=1).values], dim=1)
        moved = self.momentum * thresholds + (1 - self.momentum) * highest - start
        self._above.put(ids, torch.cat([moved, known[:, 2:] + 1], dim=1))
        self._above.retain(pool.ids)
        passing = weights > 0
        if not passing.any():
            passing = own == own.max()
            weights = torch.ones_like(weights)
        share = passing.float().mean()  # the loss is a mean over all rows that were judged
        return Picks(rows[passing], weights[passing] * share, targets[passing])

    def judge(
        self, weak: Tensor, strong: Tensor, labels: Tensor, thresholds: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return how far labels are above thresholds, targets, and weights, 0 where left out.

        The weight of a hard row gives the cross entropy the gradient of the generalised one.
        """
        places = labels[:, None]
        given = torch.cat([weak.gather(1, places), strong.gather(1, places)], dim=1)
        above = given > thresholds
        clean, hard = above.all(dim=1), above.any(dim=1) & ~above.all(dim=1)
        best, predicted = ((weak + strong) / 2).max(dim=1)
        bar = (thresholds.mean(dim=1) + self.margin).clamp_max(self.ceiling)
        purified = (best > bar) & ~clean & ~hard
        classes = torch.where(purified, predicted, labels)
        targets = one_hot(classes, weak.shape[1]).to(weak.dtype)
        weights = (clean | purified).to(weak.dtype)
        weights = torch.where(hard, given.mean(dim=1) ** self.power, weights)
        return (given - thresholds).mean(dim=1), targets, weights

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change nothing: thresholds are of predictions, which do not depend on the given label."""

    def remove(self, ids: Tensor) -> None:
        """Forget the thresholds of these rows."""
        self._above.remove(ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Return how far each threshold is above where it starts, and the looks, by id."""
        return {"ids": self._above.ids, "above": self._above.values}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._above.ids, self._above.values = state["ids"], state["above"]

    def _views(
        self, inputs: Tensor, labels: Tensor, view: ModelView, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the probabilities of the rows as they are, and changed."""
        weak = view.probabilities(inputs).float()
        if self.strong is None:
            return weak, weak
        changed, _ = self.strong(inputs, labels, weak.shape[1], generator)
        return weak, view.probabilities(changed).float()
