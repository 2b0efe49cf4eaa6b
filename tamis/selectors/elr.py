"""Early-learning regularisation: Liu, Niles-Weed, Razavian et al., NeurIPS 2020, eq. 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor
from torch.nn.functional import one_hot

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.recall import Recall
from tamis.selectors.sampling import draw_rows, trainable

SURE = 1e-4
"""No belief is nearer to 0 or 1 than this, as in the authors' code."""


@dataclass
class ELR:
    """Pick at random; pull each row's target towards what was believed of it when it came before.

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
        self._averages = Recall()

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random, with a soft target for each."""
        rows = trainable(pool, draw_rows(len(pool), k, generator, pool.labels.device))
        if not len(rows):
            return Picks(rows)
        inputs, labels, ids = pool.inputs[rows], pool.labels[rows], pool.ids[rows]
        belief = soften(view.probabilities(inputs))
        average = self._averages.of(ids, belief.shape[1])
        average = self.decay * average + (1 - self.decay) * belief  # eq. 9
        self._averages.put(ids, average)
        self._averages.keep(pool.ids)
        pull = gradient_of_log(soften(view.newest().probabilities(inputs)), average)
        given = one_hot(labels, belief.shape[1])
        return Picks(rows, targets=given - self.strength * pull)

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change nothing: averages are of predictions, which do not depend on the given label."""

    def remove(self, ids: Tensor) -> None:
        """Forget the averages of these rows."""
        self._averages.remove(ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Give the average belief of each id that has been picked."""
        return {"ids": self._averages.ids, "averages": self._averages.values}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a state that was given before."""
        self._averages.ids, self._averages.values = state["ids"], state["averages"]


def soften(probabilities: Tensor) -> Tensor:
    """Keep beliefs off 0 and 1, so that the logarithm of the regulariser stays finite."""
    clamped = probabilities.float().clamp(SURE, 1 - SURE)
    return clamped / clamped.sum(dim=1, keepdim=True)


def gradient_of_log(belief: Tensor, average: Tensor) -> Tensor:
    """Gradient of log(1 - <p, t>) in the logits of p: it sums to 0 over the classes."""
    agreement = (belief * average).sum(dim=1, keepdim=True)
    return belief * (agreement - average) / (1 - agreement)
