"""What picks and targets go by where nothing confirms the evidence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.selectors.plausible.candidates import Candidates

LEAST = 0.01
"""Added to the probability of a label, so that no label is out of the draw."""


@dataclass(frozen=True, kw_only=True)
class Fallback:
    """Robust training where right labels cannot be separated from wrong ones.

    Where the judges differ and votes by inputs confirm nothing, margins of labels mean little.
    Two things still help there. Rows are drawn in proportion to the probability that the averaged
    model gives to their label, which gives the gradients of the generalised cross entropy (Zhang
    and Sabuncu, 2018), and no slower steps. A label is compared with equal labels only: classes
    that the model does not know yet would be lost otherwise. And targets are mixed with the
    posterior.

    Both cost accuracy where most labels are right, or where evidence is of some worth. So both grow
    with the share of wrong labels, and they are strong only where nothing at all is confirmed.

    Parameters
    ----------
    power: power of the probability of the label, from a clean ratio of one half down.
    softness: share of the posterior in the targets there.
    growth: power of the noise rate, as a share of one half, that both grow with.
    steepness: power of what the evidence has lost of its weight, that both grow with.
    """

    power: float = 1.0
    softness: float = 0.5
    growth: float = 2.0
    steepness: float = 5.0

    def strength(self, weighting: Tensor, clean_ratio: Tensor) -> Tensor:
        """Return how much of both there is, from 0 to 1.

        `weighting` is how far picks may be weighted by the evidence.
        """
        noise = (2 * (1 - clean_ratio)).clamp(0, 1).to(weighting)
        return (1 - weighting) ** self.steepness * noise**self.growth

    def weights(self, candidates: Candidates, strength: Tensor) -> Tensor:
        """Return the weight of each row: that of its label over the mean of equal labels.

        Means of a class have the mean of all as one more row.
        """
        labels, usable = candidates.labels, candidates.usable
        given = candidates.probabilities.gather(1, labels[:, None])[:, 0]
        counted = usable.to(given)
        powers = (given + LEAST) ** (self.power * strength) * counted
        mean = powers.sum() / counted.sum().clamp_min(1)
        none = powers.new_zeros(candidates.classes)
        sums = none.index_put((labels,), powers, accumulate=True)
        rows = none.index_put((labels,), counted, accumulate=True)
        means = (sums + mean) / (rows + 1)
        return torch.where(usable, powers / means[labels].clamp_min(LEAST), 1)

    def soften(self, targets: Tensor, posterior: Tensor, strength: Tensor) -> Tensor:
        """Return the targets mixed with the posterior."""
        return torch.lerp(targets, posterior, self.softness * strength)
