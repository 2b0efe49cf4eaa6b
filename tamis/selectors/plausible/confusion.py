"""Which classes get which labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tamis.noise import pairs
from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.recent_confusion import RecentJoint
from tamis.selectors.plausible.running import State


@dataclass(kw_only=True)
class Confusion:
    """Estimates the confusion matrix of the labels, and the posterior of the true class by it.

    The clean ratio of each class is on the diagonal. Elsewhere are running shares of each label
    among the rows of a class. With more than 128 classes, only pairs of class and label
    that occurred among recent rows take memory; others have the prior alone (`RecentJoint`).

    Parameters
    ----------
    pace: share of the newest slot in them; slow, since most pairs of classes are rare.
    prior_count: rows of each wrong label to begin with, so that none is ruled out.
    """

    pace: float = 0.01
    prior_count: float = 1.0

    def __post_init__(self) -> None:
        self._joint = torch.empty(0, 0)
        self._recent: RecentJoint | None = None

    def posterior(
        self, candidates: Candidates, classes: Tensor, clean_ratio: Tensor | float
    ) -> Tensor:
        """Return the posterior of each class given the label.

        `classes` are the probabilities of the classes before the label is known, `clean_ratio` is
        that of each class, or of all.
        """
        clean_ratio = torch.as_tensor(clean_ratio).to(classes).expand(candidates.classes)
        if candidates.classes > pairs.MANY_CLASSES:
            return self._posterior_of_many(candidates, classes, clean_ratio)
        if not len(self._joint):
            uniform = torch.full((candidates.classes,), 1 / candidates.classes)
            self._joint = uniform[:, None] * uniform
        self._joint = self._joint.to(classes)
        posterior = (
            classes * self.matrix(clean_ratio, candidates.usable.sum())[:, candidates.labels].T
        )
        return posterior / posterior.sum(dim=1, keepdim=True)

    def update(self, candidates: Candidates, posterior: Tensor, likeliest: Tensor) -> None:
        """Count rows by their posterior; with many classes, by their `likeliest` ones alone."""
        if self._recent:
            self._recent.update(candidates, posterior, likeliest)
            return
        weighted = posterior * candidates.weights()[:, None]
        self._joint = self._joint.lerp(weighted.T @ candidates.one_hot(), self.pace)

    def matrix(self, clean_ratio: Tensor | float, rows: Tensor | int) -> Tensor:
        """Return the confusion matrix, true class by given label, where a slot has so many rows."""
        wrong = 1 - torch.eye(len(self._joint)).to(self._joint)
        counts = self.counts(self._joint, rows) * wrong
        shares = counts / counts.sum(dim=1, keepdim=True)
        own = torch.as_tensor(clean_ratio).to(shares).expand(len(shares))[:, None]
        return own * (1 - wrong) + (1 - own) * shares

    def counts(self, joint: Tensor, rows: Tensor | int) -> Tensor:
        """Return how many rows of each class and label the running shares stand for."""
        return joint * rows / self.pace + self.prior_count

    def grow(self, classes: int) -> None:
        """Add classes of no share, up to so many; their confusion is the prior alone."""
        if self._recent:
            self._recent.grow(classes)
        elif len(self._joint):
            more = max(0, classes - len(self._joint))
            self._joint = functional.pad(self._joint, (0, more, 0, more))
            if classes > pairs.MANY_CLASSES:
                self._recent = RecentJoint.of(self._joint, self.pace)
                self._joint = torch.empty(0, 0)

    def state_dict(self) -> State:
        """Return the running shares of class and label; nothing before the first slot."""
        if self._recent:
            return self._recent.state_dict()
        return {"joint": self._joint.clone()} if len(self._joint) else {}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._joint = state["joint"].clone() if "joint" in state else torch.empty(0, 0)
        self._recent = None
        if "own" in state:
            self._recent = RecentJoint(len(state["own"]), self.pace)
            self._recent.load_state_dict(state)

    def _posterior_of_many(
        self, candidates: Candidates, classes: Tensor, clean_ratio: Tensor
    ) -> Tensor:
        """Return the posterior where there are many classes."""
        if self._recent is None:
            self._recent = RecentJoint(candidates.classes, self.pace)
        self._recent.to(classes)
        labels, rows = candidates.labels, candidates.usable.sum().to(classes)
        posterior = self._recent.of_wrong_labels(classes, labels, rows, self.prior_count)
        right = clean_ratio[labels][:, None] * classes.gather(1, labels[:, None])
        posterior.mul_(1 - clean_ratio).scatter_(1, labels[:, None], right)
        return posterior.div_(posterior.sum(dim=1, keepdim=True))
