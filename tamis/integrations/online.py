"""A trainer built from the settings of an estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from tamis.buffers import Sliding
from tamis.models import mlp, start
from tamis.selectors import Plausible, Selector
from tamis.sources import Validator
from tamis.training import Trainer

Factory = Callable[[tuple[int, ...], int], nn.Module]
"""Builds a model from the shape of one input and the number of classes."""


def build(
    columns: int,
    classes: int,
    *,
    model: Factory | None,
    selector: Selector | None,
    k: int,
    held: int,
    learning_rate: float,
    seed: int,
) -> Trainer:
    """Return a trainer for rows of so many columns: Adam, the newest rows, averaged weights.

    The selector is copied: an estimator's settings must not change. Numbers are double, so that a
    row gets the same probabilities alone and among others.
    """
    classes = max(2, classes)
    net = start(model or mlp, (columns,), classes, seed).double()
    return Trainer(
        net,
        torch.optim.Adam(net.parameters(), learning_rate),
        Plausible() if selector is None else copy.deepcopy(selector),
        Sliding(held),
        k=k,
        window="average",
        predict_first=False,
        validator=Validator(classes),
        seed=seed,
    )
