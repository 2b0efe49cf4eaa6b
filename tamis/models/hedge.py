"""Hedge backpropagation over depths: Sahoo, Pham, Lu and Hoi, IJCAI 2018, algorithm 1."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tamis.checkpoint import get_state, set_state
from tamis.losses import Criterion, cross_entropy


class HedgeMLP(nn.Module):
    """A perceptron with a classifier at every depth, and a weight for each that follows its losses.

    It returns the logarithm of the weighted mean of the classifiers' probabilities. To learn as in
    the paper it is trained with `HedgeLoss(model)` as its criterion. With any other criterion
    the mixture itself is trained, and the weights stay even.

    In the paper's letters: hidden is L, discount is beta, smoothing is s, weights are alpha.
    `weights` is a buffer: saved and averaged with the rest of the model.

    Parameters
    ----------
    size: numbers in one input.
    classes: of the labels.
    hidden: hidden layers.
    width: units of each.
    discount: factor by which a depth of largest loss is discounted.
    smoothing: share that the hidden depths have at least, together.
    """

    cannot_grow = "HedgeMLP has an output layer at every depth, so that no class can be added."
    weights: Tensor

    def __init__(
        self,
        size: int,
        classes: int,
        *,
        hidden: int = 19,
        width: int = 100,
        discount: float = 0.99,
        smoothing: float = 0.2,
    ) -> None:
        super().__init__()
        if hidden < 1:
            raise ValueError(f"A hedge needs at least 1 hidden layer, got hidden={hidden}.")
        for name, value in (("discount", discount), ("smoothing", smoothing)):
            if not 0 < value < 1:
                raise ValueError(f"A hedge needs {name} in (0, 1), got {value}.")
        self.discount = discount
        self.smoothing = smoothing
        self.by_depth = False
        sizes = [size] + [width] * hidden
        self.layers = nn.ModuleList(nn.Linear(inputs, width) for inputs in sizes[:-1])
        self.classifiers = nn.ModuleList(nn.Linear(inputs, classes) for inputs in sizes)
        self.register_buffer("weights", torch.full((hidden + 1,), 1 / (hidden + 1)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return log probabilities, (rows, classes). In training, a `HedgeLoss` gets all depths."""
        logits = self.logits_by_depth(inputs)
        if self.training and self.by_depth:
            return logits
        mixed = logits.log_softmax(dim=2) + self.weights.log()[:, None]
        return mixed.logsumexp(dim=1)

    def logits_by_depth(self, inputs: Tensor) -> Tensor:
        """Return the logits of every classifier, the shallowest first: (rows, depths, classes)."""
        features = inputs.flatten(1)
        logits = [self.classifiers[0](features)]
        for layer, classifier in zip(self.layers, self.classifiers[1:], strict=True):
            features = layer(features).relu()
            logits.append(classifier(features))
        return torch.stack(logits, dim=1)

    @torch.no_grad()
    def hedge(self, losses: Tensor) -> None:
        """Discount each depth by its loss, down to a floor.

        Losses are brought to [0, 1] by the least and the largest of them, as in the authors' code.
        Losses that are not finite change nothing.
        """
        losses = losses.to(self.weights.dtype)
        above = losses - losses.min()
        above = above / above.max().clamp_min(torch.finfo(above.dtype).tiny)
        weights = self.weights * self.discount**above
        weights = weights.clamp_min(self.smoothing / len(self.layers))
        weights = weights / weights.sum()
        # In place and without reading the numbers: no device waits, and a CUDA graph can record it.
        self.weights.copy_(torch.where(losses.isfinite().all(), weights, self.weights))


class HedgeLoss:
    """The weighted sum of a row's losses at all depths; in training it then moves the weights."""

    def __init__(self, model: HedgeMLP, criterion: Criterion = cross_entropy) -> None:
        self.model = model
        self.criterion = criterion
        model.by_depth = True

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return one loss per row, of logits by depth or of the mixture's."""
        if logits.dim() == 2:
            return self.criterion(logits, labels)
        losses = torch.stack([self.criterion(depth, labels) for depth in logits.unbind(1)], dim=1)
        weighted = losses @ self.model.weights.clone()  # which the line below overwrites
        self.model.hedge(losses.detach().mean(dim=0))
        return weighted

    @property
    def cannot_grow(self) -> str:
        """The sentence of its model."""
        return self.model.cannot_grow

    def state_dict(self) -> dict[str, Any]:
        """Return what the criterion remembers, if it does; the weights are the model's."""
        return get_state(self.criterion) or {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if get_state(self.criterion) is not None:
            set_state("criterion", self.criterion, state)


def hedge_mlp(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a perceptron of 19 hidden layers of 100 units with a classifier at every depth."""
    return HedgeMLP(math.prod(input_shape), classes)
