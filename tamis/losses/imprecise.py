"""Imprecise label learning (ILL), for noisy labels: Chen et al., NeurIPS 2024."""

from __future__ import annotations

import torch
from torch import Tensor

from tamis.losses.adaptation import NoiseAdaptation
from tamis.losses.targets import as_shares, at_least_single


class ILL(NoiseAdaptation):
    """Learn a confusion of labels beside the model, and agree on the true class over two views.

    Give its parameters to the optimiser, beside the model's and without weight decay, and the
    trainer `TwoViews` as `augment`: a batch is then a weak view of every row followed by a strong
    view of every row. In training its loss is the cross entropy of the given label behind the
    confusion, for the weak view; that of the posterior of the true class, given the label, between
    the views; that of the weak view's prediction for the strong view; and `balance` times that of
    even shares for the mean prediction. Losses are per view, twice as high as the terms, so that
    their mean is the sum of the terms. Where nothing is learned from, as for a selector, a row's
    loss is the first term alone; and so it is with views=1, since the others have no gradient then.

    `confusion` is where it starts, as for `NoiseAdaptation`. Picks must have no weights.
    """

    def __init__(self, confusion: Tensor, views: int = 1, balance: float = 0.1) -> None:
        super().__init__(confusion)
        if views not in (1, 2) or balance < 0:
            raise ValueError(f"ILL needs 1 or 2 views and balance >= 0, got {views}, {balance}.")
        self.views = views
        self.balance = balance

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row, or per view of a row."""
        given = super().forward(logits, targets)
        if self.views == 1 or not torch.is_grad_enabled() or not len(logits):
            return given
        if len(logits) % 2:
            raise ValueError(f"Two views of each row are even in number, got {len(logits)}.")
        with torch.autocast(logits.device.type, enabled=False):
            weak, strong = (part.log_softmax(dim=1) for part in at_least_single(logits).chunk(2))
            shares = as_shares(targets, logits).chunk(2)[0].to(weak.dtype)
            seen = (shares @ self.matrix().detach().to(weak.dtype).T).log()
            posterior = (weak + seen).softmax(dim=1).detach()
            agree = -(posterior * (strong + seen).log_softmax(dim=1)).sum(dim=1)
            agree = agree - (weak.exp().detach() * strong).sum(dim=1)
            even = -weak.exp().mean(dim=0).clamp_min(1e-6).log().mean()
        return torch.cat([2 * given[: len(weak)], 2 * agree]) + self.balance * even
