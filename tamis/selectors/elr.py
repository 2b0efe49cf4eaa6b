"""Early-learning regularisation: Liu, Niles-Weed, Razavian et al., NeurIPS 2020, eq. 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor
from torch.nn.functional import one_hot

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.id_memory import IdMemory
from tamis.selectors.sampling import draw_rows, trainable

MARGIN = 1e-4
"""Probabilities are clamped to [MARGIN, 1 - MARGIN], as in the authors' code."""


@dataclass
class ELR:
    """Pick at random; pull each row's target towards the running average of its predictions.

    The targets give the cross entropy the gradient of the paper's loss, CE + strength *
    log(1 - <p, t>); they sum to 1, but entries may lie below 0. In the paper's letters: strength
    is lambda, decay is beta, and t is kept for each id. An id must name the same row in every
    slot. Defaults are those of the authors' code for CIFAR-10.
    """

    seeks_clean: ClassVar = False  # wrong labels are outweighed by the targets

    strength: float = 3.0
    decay: float = 0.7

    def __post_init__(self) -> None:
        if self.strength < 0 or not 0 <= self.decay < 1:
            raise ValueError(f"ELR needs strength >= 0 and decay in [0, 1), got {self}.")
        self._averages = IdMemory()

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random, with a soft target for each."""
        rows = trainable(pool, draw_rows(len(pool), k, generator, pool.labels.device))
        if not len(rows):
            return Picks(rows)
        inputs, labels, ids = pool.inputs[rows], pool.labels[rows], pool.ids[rows]
        predicted = soften(view.probabilities(inputs))
        average = self._averages.get(ids, predicted.shape[1])
        average = self.decay * average + (1 - self.decay) * predicted  # eq. 9
        self._averages.put(ids, average)
        self._averages.retain(pool.ids)
        pull = gradient_of_log(soften(view.newest().probabilities(inputs)), average)
        given = one_hot(labels, predicted.shape[1])
        return Picks(rows, targets=given - self.strength * pull)

    def grow(self, classes: int) -> None:
        """Add classes that no row was predicted to be of, up to so many."""
        self._averages.widen(classes)

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change nothing: averages are of predictions, which do not depend on the given label."""

    def remove(self, ids: Tensor) -> None:
        """Forget the averages of these rows."""
        self._averages.remove(ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the average prediction of each id that has been picked."""
        return {"ids": self._averages.ids, "averages": self._averages.values}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the averages that `state_dict` returned."""
        self._averages.ids, self._averages.values = state["ids"], state["averages"]


def soften(probabilities: Tensor) -> Tensor:
    """Return the probabilities off 0 and 1, so that the logarithm of the regulariser is finite."""
    clamped = probabilities.float().clamp(MARGIN, 1 - MARGIN)
    return clamped / clamped.sum(dim=1, keepdim=True)


def gradient_of_log(probabilities: Tensor, average: Tensor) -> Tensor:
    """Return the gradient of log(1 - <p, t>) in the logits of p; it sums to 0 over the classes."""
    agreement = (probabilities * average).sum(dim=1, keepdim=True)
    return probabilities * (agreement - average) / (1 - agreement)
