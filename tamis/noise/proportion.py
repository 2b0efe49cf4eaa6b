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
    """Compares the probabilities of the given labels with those of random labels.

    Where a share of the labels was redrawn at random over all classes, the probabilities of the
    given labels are a mixture of those of random labels, which the model provides, and those of
    right labels, which are unknown. The share is the proportion of the former.

    The model must not have been trained on the rows. `delta` and `gamma` are the paper's.
    """

    delta: float = 0.1
    gamma: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError(f"Proportion needs delta in (0, 1), got {self.delta}.")
        if self.gamma < 0:
            raise ValueError(f"Proportion needs gamma of at least 0, got {self.gamma}.")

    def estimate(self, samples: Samples, view: ModelView, generator: Generator) -> float:
        """Return the estimated clean ratio; nothing is drawn from the generator."""
        probabilities = view.probabilities(samples.inputs)
        known = probabilities.isfinite().all(dim=1) & (samples.labels >= 0)
        probabilities, labels = probabilities[known], samples.labels[known]
        if not len(labels):
            raise ValueError("Proportion needs at least 1 row with finite inputs and a label.")
        classes = probabilities.shape[1]
        given = probabilities.gather(1, labels[:, None])
        redrawn = best_bin(given, probabilities, len(labels), self.delta, self.gamma)
        return 1 - min(1.0, redrawn) * (classes - 1) / classes  # a redrawn label may be right


def best_bin(
    mixture: Tensor, component: Tensor, rows: int, delta: float = 0.1, gamma: float = 0.01
) -> float:
    """Return the estimated proportion of a component in a mixture, from scores of both.

    The mixture has at least the component's share of every set of scores, so that each set bounds
    the proportion from above. The sets are {score <= t}; the t of the lowest upper confidence
    bound is taken. `rows` is the number of independent scores on either side.
    """
    mixture, component = mixture.flatten().sort().values, component.flatten().sort().values
    in_mixture = share_below(mixture, component)
    in_component = share_below(component, component)
    margin = (1 + gamma) * 2 * math.sqrt(math.log(4 / delta) / (2 * rows))
    best = ((in_mixture + margin) / in_component).argmin()
    return (in_mixture[best] / in_component[best]).item()


def share_below(scores: Tensor, at: Tensor) -> Tensor:
    """Return the share of sorted scores at or below each point."""
    return torch.searchsorted(scores, at, right=True).double() / len(scores)
