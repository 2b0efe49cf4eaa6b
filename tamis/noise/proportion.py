"""Best bin estimation of a mixture proportion: Garg et al., NeurIPS 2021, algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tamis.data import Samples
from tamis.model_view import ModelView


@dataclass(frozen=True)
class Proportion:
    """Compare how likely the model finds the given labels with how likely it finds random ones.

    Where a share of the labels was redrawn at random over all classes, the likelihoods of the
    given labels are a mixture of those of random labels, which the model tells, and those of
    right labels, which nobody knows. The share is the proportion of the former.

    The rows must be ones that the model has not learned from. `delta` and `gamma` are the paper's.
    """

    delta: float = 0.1
    gamma: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError(f"Proportion needs delta in (0, 1), got {self.delta}.")
        if self.gamma < 0:
            raise ValueError(f"Proportion needs gamma of at least 0, got {self.gamma}.")

    def estimate(self, samples: Samples, view: ModelView, generator: Generator) -> float:
        """Estimate the share of labels that are right; nothing is drawn from the generator."""
        belief = view.probabilities(samples.inputs)
        known = belief.isfinite().all(dim=1) & (samples.labels >= 0)
        belief, labels = belief[known], samples.labels[known]
        if not len(labels):
            raise ValueError("Proportion needs at least 1 row with finite inputs and a label.")
        classes = belief.shape[1]
        given = belief.gather(1, labels[:, None])
        redrawn = best_bin(given, belief, len(labels), self.delta, self.gamma)
        return 1 - min(1.0, redrawn) * (classes - 1) / classes  # a redrawn label may be right


def best_bin(
    mixture: Tensor, component: Tensor, rows: int, delta: float = 0.1, gamma: float = 0.01
) -> float:
    """Estimate the proportion of a component in a mixture from scores of both.

    No set of scores can be rarer in the mixture than the component's share of it says. The sets
    are {score <= t}; of the t, the one of the lowest upper confidence bound is taken. `rows` is
    the number of independent scores on either side.
    """
    mixture, component = mixture.flatten().sort().values, component.flatten().sort().values
    in_mixture = share_below(mixture, component)
    in_component = share_below(component, component)
    slack = (1 + gamma) * 2 * math.sqrt(math.log(4 / delta) / (2 * rows))
    best = ((in_mixture + slack) / in_component).argmin()
    return (in_mixture[best] / in_component[best]).item()


def share_below(scores: Tensor, at: Tensor) -> Tensor:
    """Share of sorted scores that lie at each point or below it."""
    return torch.searchsorted(scores, at, right=True).double() / len(scores)
