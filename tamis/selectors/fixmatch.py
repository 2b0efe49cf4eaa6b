"""FixMatch: Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, Kurakin, Zhang and Raffel, NeurIPS 2020."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.disc import Change
from tamis.selectors.naive import Naive
from tamis.selectors.protocol import Selector
from tamis.selectors.sampling import draw_rows, trainable


@dataclass
class FixMatch:
    """Train on labels that another selector trusts, and on confident predictions of other rows.

    A share of the picks comes from `trusted`, with their labels: from all rows, as they are given,
    unless another selector is set. `unlabelled` (mu) times as many rows are drawn at random, and
    their labels are not looked at. One whose highest probability, for the row as it is, is at least
    `threshold` (tau) is picked with the class that is predicted; the others are left out. The two
    losses are means over the rows drawn, and the second has the weight `strength` (lambda_u).

    Give the trainer `Strong(selector, change)` as `augment`: what is predicted for a row as it is
    should be learned for the row as it is changed.
    """

    trusted: Selector = field(default_factory=Naive)
    threshold: float = 0.95
    unlabelled: int = 3
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1 or self.unlabelled < 1 or self.strength < 0:
            raise ValueError(
                "FixMatch needs threshold in (0, 1], unlabelled >= 1, strength >= 0, got"
                f" {self.threshold}, {self.unlabelled}, {self.strength}."
            )
        if hasattr(self.trusted, "state_dict"):
            raise ValueError(
                f"FixMatch saves no memory of another selector, and {type(self.trusted).__name__}"
                " has one."
            )
        self.own: int | None = None  # picks of the last slot with their own labels

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k rows, those with their own labels first."""
        count = -(-k // (1 + self.unlabelled))
        chosen = self.trusted.select(pool, view, count, generator).rows
        self.own = len(chosen)
        drawn = draw_rows(len(pool), k - count, generator, pool.labels.device)
        drawn = trainable(pool, drawn[~torch.isin(drawn, chosen)])
        if not len(drawn):
            return Picks(chosen)
        probabilities = view.probabilities(pool.inputs[drawn])
        highest, predicted = probabilities.max(dim=1)
        confident = highest >= self.threshold  # false where not a number
        rows = torch.cat([chosen, drawn[confident]])
        labels = torch.cat([pool.labels[chosen], predicted[confident]])
        weights = torch.cat(
            [
                probabilities.new_full((len(chosen),), 1 / max(1, len(chosen))),
                probabilities.new_full((len(rows) - len(chosen),), self.strength / len(drawn)),
            ]
        )
        targets = one_hot(labels, probabilities.shape[1]).to(probabilities.dtype)
        return Picks(rows, weights * len(rows), targets)


@dataclass(frozen=True)
class Strong:
    """Change the picks of FixMatch whose labels are guessed; others stay as they are.

    In the warm-up, before FixMatch picks, no row is changed.
    """

    selector: FixMatch
    change: Change

    def __call__(
        self, inputs: Tensor, targets: Tensor, classes: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the rows of a batch, the last ones changed."""
        own = self.selector.own
        if own is None or own >= len(inputs):
            return inputs, targets
        changed, wanted = self.change(inputs[own:], targets[own:], classes, generator)
        return torch.cat([inputs[:own], changed]), torch.cat([targets[:own], wanted])
