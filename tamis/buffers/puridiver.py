"""PuriDivER's memory, pure and diverse: Bang et al., CVPR 2022, its score for memory sampling."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from tamis.buffers.store import Store
from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.model_view.passes import last_linear

ROUNDING = 1e-9
"""Values that differ by no more than this are equal."""


class PuriDivER(Store):
    """Keep classes even; the largest loses the row of highest loss and similarity to others.

    A row of high loss may be mislabelled; a row similar to many of its class is redundant. `view`
    is the model in training, `ModelView(model)`; it may be set later, as
    `buffer.view = trainer.averaged`. Without one a random row of the largest class is lost.

    `diversity` is the largest weight of similarity against loss, the authors' 0.5.
    """

    def __init__(
        self,
        capacity: int,
        view: ModelView | None = None,
        diversity: float = 0.5,
        *,
        disk: str | Path | None = None,
    ) -> None:
        super().__init__(capacity, disk=disk)
        if not 0 <= diversity <= 1:
            raise ValueError(f"Diversity is a weight in [0, 1], got diversity={diversity}.")
        self.view = view
        self.diversity = diversity

    def __repr__(self) -> str:
        return f"PuriDivER(capacity={self.capacity}, diversity={self.diversity})"

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take all rows in, then drop rows of the largest class, one by one, until they fit."""
        overflow = self.fill(samples)
        if not len(overflow):
            return
        held = self.pool()
        labels = torch.cat([held.labels, overflow.labels])
        score = Score(self.view, samples, self.diversity) if self.view else None
        gone = torch.zeros_like(labels, dtype=torch.bool)
        for label, count in surplus(labels.tolist(), len(overflow), generator).items():
            rows = (labels == label).nonzero()[:, 0]
            if score:
                old, new = rows[rows < len(held)], rows[rows >= len(held)] - len(held)
                order = score.worst(
                    torch.cat([held.inputs[old], overflow.inputs[new]]), label, count
                )
            else:
                order = torch.randperm(len(rows), generator=generator)[:count]
            gone[rows[order.to(rows.device)]] = True
        free, taken = gone[: len(held)].nonzero()[:, 0], (~gone[len(held) :]).nonzero()[:, 0]
        self.write(free, overflow[taken])


class Score:
    """Score of a row to be dropped: (1 - balance) of its loss plus balance of its similarity."""

    def __init__(self, view: ModelView, arriving: Samples, diversity: float) -> None:
        losses = view.losses(arriving.inputs, arriving.labels)
        loss = losses[losses.isfinite()].mean().item()
        self.view = view
        # The paper's alpha_k: while losses of arriving rows are high, purity weighs most.
        self.balance = 0.0 if math.isnan(loss) else diversity / max(1.0, loss)
        weight = last_linear(view.model)[1].weight.detach()
        self.relevant = weight > weight.mean(dim=0)

    def worst(self, inputs: Tensor, label: int, count: int) -> Tensor:
        """Return the rows of a class to drop, each the worst of those still left."""
        labels = torch.full((len(inputs),), label, device=inputs.device)
        losses = self.view.losses(inputs, labels).double()
        features = self.view.features(inputs)[:, self.relevant[label]].double()
        known = losses.isfinite() & features.isfinite().all(dim=1)
        units = normalize(torch.where(known[:, None], features, 0))
        gone = (~known).nonzero()[:, 0][:count].tolist()  # a model cannot learn from them
        left = known.clone()
        while len(gone) < count:
            similarity = units @ units[left].mean(dim=0)  # mean cosine to all that are left
            score = (1 - self.balance) * standard(losses, left)
            score = score + self.balance * standard(similarity, left)
            gone.append(int(score.masked_fill(~left, -torch.inf).argmax()))
            left[gone[-1]] = False
        return torch.tensor(gone)


def standard(values: Tensor, left: Tensor) -> Tensor:
    """Return values scaled to mean 0 and deviation 1 over the rows left; 0 where all are equal."""
    centred = values - values[left].mean()
    deviation = centred[left].square().mean().sqrt()
    return centred / deviation if deviation > ROUNDING else torch.zeros_like(values)


def surplus(labels: list[int], count: int, generator: Generator) -> Counter[int]:
    """Return how many rows each class loses, if the next is always one of a largest class."""
    sizes, lost = Counter(labels), Counter[int]()
    for _ in range(count):
        most = max(sizes.values())
        largest = [label for label, size in sizes.items() if size == most]
        chosen = largest[int(torch.randint(len(largest), (1,), generator=generator))]
        sizes[chosen] -= 1
        lost[chosen] += 1
    return lost
