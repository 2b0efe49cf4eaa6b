"""Noise adaptation layer: Goldberger and Ben-Reuven, ICLR 2017, the simple model.

Its start from a confusion matrix: Chen and Gupta, Webly Supervised Learning, ICCV 2015.
"""

from __future__ import annotations

from torch import Tensor, nn

from tamis.losses.confusion import check_confusion, check_size, given_log_shares
from tamis.losses.targets import at_target

LEAST_SHARE = 1e-4
"""A class that is never given would have a logarithm of -inf, and could not learn better."""


class NoiseAdaptation(nn.Module):
    """Cross entropy of the given label behind a layer that learns the confusion of labels.

    Give its parameters to the optimiser, beside the model's and without weight decay, which would
    pull the confusion towards uniform:

        layer = NoiseAdaptation(even_confusion(10, 0.9))
        groups = [{"params": model.parameters()}, {"params": layer.parameters(), "weight_decay": 0}]
        trainer = Trainer(model, SGD(groups, lr=0.1), selector, buffer, criterion=layer)

    `confusion` is where it starts, true class by given class; where nothing is known,
    `even_confusion` with a guessed diagonal. The model alone, without the layer, is what predicts.
    """

    def __init__(self, confusion: Tensor) -> None:
        super().__init__()
        check_confusion(confusion)
        self.weight = nn.Parameter(confusion.detach().clamp_min(LEAST_SHARE).log())

    @property
    def cannot_grow(self) -> str:
        """A sentence: the optimiser has the confusion as it was built."""
        name = type(self).__name__
        return f"{name} was built for {len(self.weight)} classes, and cannot learn others."

    def matrix(self) -> Tensor:
        """Return the confusion as learned so far."""
        return self.weight.softmax(dim=1)

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""
        check_size(self.weight, logits.shape[1])
        return -at_target(given_log_shares(logits, self.matrix()), targets)
