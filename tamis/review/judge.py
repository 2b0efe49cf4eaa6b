"""Labels predicted by linear models that have not seen them: ridge regression, each row left out.

A model that was trained on a row may have memorised its label, right or wrong. These have not.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

RIDGE = 0.02
"""Penalty on squared weights, for each row."""
MOST_COLUMNS = 1024
"""Columns that are used at the most: every second, third, and so on of more."""
RANDOM_FEATURES = 512
"""Random features of the inputs."""
FARTHEST = 5.0
"""Standard deviations at which inputs are cut off."""
CHUNK = 1024
"""Rows predicted at once."""


class SoftLabels(NamedTuple):
    """Classes of each row and their probabilities, (rows, classes kept) both."""

    classes: Tensor
    shares: Tensor


class Prediction(NamedTuple):
    """The likeliest class of each row, and how likely it is."""

    classes: Tensor
    confidence: Tensor


def leave_one_out(features: Tensor, targets: SoftLabels, count: int) -> Prediction:
    """Return the class of each row, of so many, predicted by the targets of all other rows.

    One fit is enough: without row i, which has leverage h, a prediction f becomes
    (f - h target) / (1 - h). The weights are the same to the bit on any device: all is done on
    the processor.
    """
    rows = functional.pad(standardised(every_nth(features)), (0, 1), value=1.0)
    classes, shares = targets.classes.cpu(), targets.shares.cpu().double()
    penalty = RIDGE * len(rows) * torch.eye(rows.shape[1], dtype=rows.dtype)
    solved = torch.linalg.solve(rows.T @ rows + penalty, rows.T)
    leverage = (rows * solved.T).sum(dim=1)
    weights = rows.new_zeros(rows.shape[1], count)
    for kept, share in zip(classes.T, shares.T, strict=True):
        weights.index_add_(1, kept, solved * share)
    parts = []
    for part in torch.arange(len(rows)).split(CHUNK):
        found = rows[part] @ weights
        found.scatter_add_(1, classes[part], -leverage[part, None] * shares[part])
        found = (found / (1 - leverage[part, None])).clamp_min_(1e-6)
        highest, predicted = found.max(dim=1)
        parts.append(Prediction(predicted, highest / found.sum(dim=1)))
    return Prediction(*map(torch.cat, zip(*parts, strict=True)))


def random_features(inputs: Tensor) -> Tensor:
    """Return random features of the inputs, which no label has formed: ReLU of random sums."""
    scaled = standardised(every_nth(inputs.flatten(1))).clamp_(-FARTHEST, FARTHEST)
    generator, width = torch.Generator().manual_seed(0), scaled.shape[1]
    weights = torch.randn(width, RANDOM_FEATURES, generator=generator, dtype=scaled.dtype)
    offsets = torch.randn(RANDOM_FEATURES, generator=generator, dtype=scaled.dtype)
    sums: Tensor = scaled @ weights / width**0.5 + offsets
    return sums.relu_()


def every_nth(columns: Tensor) -> Tensor:
    """Return the columns, or, of more than `MOST_COLUMNS`, every second, third, and so on."""
    return columns[:, :: -(-columns.shape[1] // MOST_COLUMNS) or 1]


def standardised(columns: Tensor) -> Tensor:
    """Return columns of mean 0 and variance 1, in double precision on the processor."""
    columns = columns.detach().cpu().double().nan_to_num(0, 0, 0)
    return (columns - columns.mean(dim=0)) / columns.std(dim=0, correction=0).clamp_min(1e-6)
