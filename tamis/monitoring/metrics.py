"""Purity, coverage, recall and counts by class, computed on the device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tamis.data import Picks, Samples


def purity_of(held: Samples, picks: Picks) -> Tensor | None:
    """Return the clean share of the picks that keep their label, where it is known."""
    if held.clean is None:
        return None
    clean = held.clean[picks.rows]
    real = torch.ones_like(clean) if picks.weights is None else picks.weights > 0
    if picks.targets is not None:
        real = real & (picks.targets.argmax(dim=1) == held.labels[picks.rows])
    return (clean & real).sum() / real.sum()


class Shares(NamedTuple):
    """Shares of the rows held that were ever picked, and rows held by class."""

    coverage: Tensor
    recall: Tensor | None
    class_held: Tensor


def shares_of(held: Samples, classes: int) -> Shares:
    """Return the share of rows ever picked, that of the clean ones, and rows held by class."""
    used = held.uses > 0
    recall = None if held.clean is None else (used & held.clean).sum() / held.clean.sum()
    return Shares(used.float().mean(), recall, count_classes(held.labels, classes))


def count_classes(labels: Tensor, classes: int, weights: Tensor | None = None) -> Tensor:
    """Return the count of each class; labels of weight 0 do not count."""
    ones = torch.ones_like(labels) if weights is None else (weights > 0).long()
    return labels.new_zeros(classes).index_add_(0, labels, ones)
