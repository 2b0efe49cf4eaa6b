"""The confusion of many classes: only pairs of class and label that occurred take memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tamis.noise.pairs import matching_pairs
from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.running import State

MOST_PAIRS = 131_072
"""Pairs kept, the newest: those of 512 slots of 128 candidates. With the default pace older ones
weigh less than 0.006 of a new one."""


def add_at(numbers: Tensor, places: Tensor, more: Tensor) -> Tensor:
    """Add to the numbers at these places, in place; a place may come up more than once."""
    if numbers.device.type == "cpu":
        return numbers.scatter_add_(0, places, more)
    # On a GPU scatter_add_ adds in any order, and the same seed would not give the same numbers.
    return numbers.index_put_((places,), more, accumulate=True)


class RecentJoint:
    """Running shares of class and label, as a matrix of them would have them.

    Exact are the share of each class and, on the diagonal, of each class with its own label.
    Elsewhere are the likeliest classes of recent rows, and next to nothing for any other pair.
    """

    def __init__(self, classes: int, pace: float) -> None:
        self.pace = pace
        self._classes = torch.full((classes,), 1 / classes)
        self._own = torch.full((classes,), 1 / classes**2)
        self._rest = torch.tensor(1 / classes**2)  # what each pair has left of its first share
        self._pairs = torch.zeros(2, MOST_PAIRS, dtype=torch.long)  # labels and classes
        self._shares = torch.zeros(MOST_PAIRS)
        self._written = 0

    @classmethod
    def of(cls, joint: Tensor, pace: float) -> RecentJoint:
        """Return the shares of a matrix, class by label."""
        found = cls(len(joint), pace)
        found._classes, found._own = joint.sum(dim=1), joint.diagonal().clone()
        found._rest = torch.zeros(())
        found.to(joint)
        classes, labels = (joint - joint.diagonal().diag()).nonzero().T
        found._write(labels, classes, joint[classes, labels])
        return found

    def grow(self, classes: int) -> None:
        """Add classes of no share, up to so many."""
        more = max(0, classes - len(self._own))
        self._classes = functional.pad(self._classes, (0, more))
        self._own = functional.pad(self._own, (0, more))

    def of_wrong_labels(
        self, classes: Tensor, labels: Tensor, rows: Tensor, prior: float
    ) -> Tensor:
        """Return the probabilities `classes` times that of the label, where it is wrong.

        A slot has so many `rows`, by which shares become counts; `prior` is added to each.
        """
        scale, count = rows / self.pace, len(self._classes)
        wrong = (self._classes - self._own) * scale + prior * (count - 1)
        found = classes * ((self._rest * scale + prior) / wrong)
        # The pairs of these labels, and the rows that have the label of a pair.
        marked = torch.zeros(count, dtype=torch.bool, device=labels.device)
        marked[labels] = True
        held = min(self._written, MOST_PAIRS)
        near = marked.index_select(0, self._pairs[0, :held]).logical_and_(self._shares[:held] > 0)
        near = near.nonzero()[:, 0]
        if self._written > held:  # oldest first, as they are saved: sums then equal to the bit
            oldest = near >= self._written % MOST_PAIRS
            near = torch.cat([near[oldest], near[~oldest]])
        given, columns = self._pairs.index_select(1, near)
        shares = self._shares.index_select(0, near) * (scale / wrong).index_select(0, columns)
        at, pair = matching_pairs(labels, given)
        places = at * count + columns.index_select(0, pair)
        flat = found.view(-1)
        more = classes.reshape(-1).index_select(0, places) * shares.index_select(0, pair)
        return add_at(flat, places, more).view_as(found)

    def update(self, candidates: Candidates, posterior: Tensor, likeliest: Tensor) -> None:
        """Count rows by the posterior of their class, and by pairs of the `likeliest` classes."""
        weights, labels = candidates.weights(), candidates.labels
        self._classes = self._classes.lerp(weights @ posterior, self.pace)
        right = weights * posterior.gather(1, labels[:, None])[:, 0]
        own = torch.zeros_like(self._own).index_put_((labels,), right, accumulate=True)
        self._own = self._own.lerp(own, self.pace)
        self._rest = self._rest * (1 - self.pace)
        self._shares *= 1 - self.pace
        wrong = (likeliest != labels[:, None]) * weights[:, None]
        shares = self.pace * wrong * posterior.gather(1, likeliest)
        given = labels[:, None].expand_as(likeliest)
        self._write(given.flatten(), likeliest.flatten(), shares.flatten())

    def to(self, like: Tensor) -> None:
        """Follow the rows to their device and precision."""
        self._classes, self._own = self._classes.to(like), self._own.to(like)
        self._rest, self._shares = self._rest.to(like), self._shares.to(like)
        self._pairs = self._pairs.to(like.device)

    def state_dict(self) -> State:
        """Return the shares; pairs oldest first."""
        held = min(self._written, MOST_PAIRS)
        order = (self._written - held + torch.arange(held)) % MOST_PAIRS
        order = order.to(self._pairs.device)
        return {
            "classes": self._classes.clone(),
            "own": self._own.clone(),
            "rest": self._rest.clone(),
            "pairs": self._pairs[:, order],
            "shares": self._shares[order],
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._classes, self._own = state["classes"].clone(), state["own"].clone()
        self._rest, self._written = state["rest"].clone(), 0
        self.to(self._own)
        self._shares.zero_()
        self._write(state["pairs"][0], state["pairs"][1], state["shares"])

    def _write(self, labels: Tensor, classes: Tensor, shares: Tensor) -> None:
        count = min(len(labels), MOST_PAIRS)
        places = (self._written + torch.arange(count, device=labels.device)) % MOST_PAIRS
        self._pairs[:, places] = torch.stack([labels, classes])[:, -count:]
        self._shares[places] = shares[-count:]
        self._written += count
