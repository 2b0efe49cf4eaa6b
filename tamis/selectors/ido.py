"""Wrong events (IDO): instance-level difficulty modelling and dynamic optimisation, 2025."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.id_memory import IdMemory
from tamis.selectors.sampling import draw_rows, trainable

FIRST_STEPS = 20
"""Steps of EM on the first slot; one a slot after it, as the authors' one an epoch."""
LEAST = 1e-6
START = torch.tensor([[1.0, 2.0, 0.5], [2.0, 1.0, 0.5]], dtype=torch.float64)
"""Alpha, beta and weight of the two components, clean labels first, as in the authors' code."""


@dataclass
class IDO:
    """Count how often a row's label was not the one predicted; weigh its label by that count.

    A mixture of two beta distributions is fitted to the rate of wrong events of all rows that were
    picked: (wrong + 1) / (uses + 2). With P the probability of the component of fewer wrong events,
    a row's loss is P times the cross entropy of its label plus (1 - P) / 2 times the entropy of its
    prediction, which pulls it to the class that is predicted. Soft targets give the trainer's cross
    entropy the gradient of that loss. Rows are picked at random. Counts are kept by id. In
    its first `looks` looks a row's label is trusted, P = 1, while its events are counted.
    """

    seeks_clean: ClassVar = False  # all rows are picked, and weighed

    looks: int = 3

    def __post_init__(self) -> None:
        self._counts = IdMemory()  # wrong events and uses
        self._mixture = START
        self._fitted = False

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random, with a soft target for each."""
        rows = trainable(pool, draw_rows(len(pool), k, generator, pool.labels.device))
        if not len(rows):
            return Picks(rows)
        predicted = view.newest().probabilities(pool.inputs[rows]).float()
        finite = predicted.isfinite().all(dim=1)
        rows, predicted = rows[finite], predicted[finite]
        labels, ids = pool.labels[rows], pool.ids[rows]
        wrong = predicted.argmax(dim=1) != labels
        counts = self._counts.get(ids, 2) + torch.stack([wrong, torch.ones_like(wrong)], dim=1)
        self._counts.put(ids, counts)
        self._counts.retain(pool.ids)
        for _ in range(1 if self._fitted else FIRST_STEPS):
            self._mixture = fit_step(self._mixture, rates(self._counts.values))
        self._fitted = True
        clean = shares_of(self._mixture, rates(counts))[0].to(predicted)
        clean = clean.masked_fill(counts[:, 1] <= self.looks, 1)
        return Picks(rows, targets=targets_for(predicted, labels, clean))

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Forget the counts of these rows, which are those of another label."""
        self.remove(ids)

    def remove(self, ids: Tensor) -> None:
        """Forget the counts of these rows."""
        self._counts.remove(ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts of each id that was picked, and the mixture."""
        return {
            "ids": self._counts.ids,
            "counts": self._counts.values,
            "mixture": self._mixture.clone(),
            "fitted": torch.tensor(self._fitted),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._counts.ids, self._counts.values = state["ids"], state["counts"]
        self._mixture, self._fitted = state["mixture"].cpu(), bool(state["fitted"])


def rates(counts: Tensor) -> Tensor:
    """Return the rate of wrong events: 1/3 or 2/3 after one use, so that few uses mean little."""
    return ((counts[:, 0] + 1) / (counts[:, 1] + 2)).cpu().double()


def shares_of(mixture: Tensor, at: Tensor) -> Tensor:
    """Return the probability of each component at these rates, (2, rates)."""
    alpha, beta, weight = (part[:, None] for part in mixture.unbind(dim=1))
    constant = torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)
    density = (constant + (alpha - 1) * at.log() + (beta - 1) * (1 - at).log()).exp()
    likely = (weight * density).clamp_min(LEAST)
    return likely / likely.sum(dim=0)


def fit_step(mixture: Tensor, at: Tensor) -> Tensor:
    """Return the mixture after one step of EM, by the moments of the rates."""
    if not len(at):
        return mixture
    shares = shares_of(mixture, at)
    total = shares.sum(dim=1) + LEAST
    mean = (shares * at).sum(dim=1) / total
    spread = ((shares * (at - mean[:, None]).square()).sum(dim=1) / total).clamp_min(LEAST)
    alpha = mean * (mean * (1 - mean) / spread - 1)
    beta = alpha * (1 - mean) / mean
    alpha, beta = alpha.clamp_min(LEAST), beta.clamp_min(LEAST)
    # The authors keep the first from rising towards 1 and the second from falling to it from 0.
    beta[0] = 1.1 if beta[0] < 1.02 else beta[0]
    alpha[1] = 1.1 if alpha[1] < 1.02 else alpha[1]
    return torch.stack([alpha, beta, shares.mean(dim=1)], dim=1)


def targets_for(predicted: Tensor, labels: Tensor, clean: Tensor) -> Tensor:
    """Return targets whose cross entropy has the gradient of the loss; each sums to 1.

    The cross entropy has the gradient p - q in the logits, the entropy -p (log p + entropy).
    """
    logs = predicted.clamp_min(LEAST).log()
    entropy = -(predicted * logs).sum(dim=1, keepdim=True)
    clean = clean[:, None]
    given = one_hot(labels, predicted.shape[1])
    pull = clean * (given - predicted) + (1 - clean) / 2 * predicted * (logs + entropy)
    return predicted + pull
