"""How the parts of a trainer follow when classes come up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from tamis.data import Samples
from tamis.errors import GrowthError
from tamis.model_view import ModelView
from tamis.model_view.growth import SUMS, mean_normaliser, normaliser_sums

LOOKED = 256
"""Rows held that the first bias of a new class is chosen by."""


def check_parts(parts: Iterable[object]) -> None:
    """Refuse parts that were built for a fixed number of classes, before any of them grows.

    Such a part has a sentence in `cannot_grow`.
    """
    for part in parts:
        if reason := getattr(part, "cannot_grow", ""):
            raise GrowthError(str(reason))


def grow_parts(parts: Iterable[object], classes: int) -> None:
    """Grow the parts that count by class, which have `grow`; others know nothing of classes."""
    for part in parts:
        grow = getattr(part, "grow", None)
        if callable(grow):
            grow(classes)


def check_optimizer_growth(optimizer: Optimizer, parameters: list[nn.Parameter]) -> None:
    """Refuse an optimiser that remembers something of another shape than its weights."""
    for parameter in parameters:
        for value in optimizer.state.get(parameter, {}).values():
            if not can_be_padded(value, parameter):
                kind = type(optimizer).__name__
                raise GrowthError(f"The state of {kind} cannot grow by a class.")


def grow_optimizer(optimizer: Optimizer, parameter: nn.Parameter, before: int) -> None:
    """Add zeros to what an optimiser remembers of a weight that had so many rows before.

    Copies of the weight itself, which the optimiser names in `like_weights`, get its new rows.
    """
    state: dict[str, Any] = optimizer.state.get(parameter, {})
    more = len(parameter) - before
    for name, value in state.items():
        if not isinstance(value, Tensor) or value.dim() == 0 or len(value) != before:
            continue
        if name in getattr(optimizer, "like_weights", ()):
            state[name] = torch.cat([value, parameter.detach()[before:]])
        else:
            state[name] = functional.pad(value, (*[0] * (2 * value.dim() - 1), more))


def can_be_padded(value: object, parameter: Tensor) -> bool:
    """Return whether rows can be added to a value of a parameter's state."""
    if isinstance(value, list | tuple | dict):
        return False
    if not isinstance(value, Tensor) or value.numel() == 1:
        return True
    return value.dim() == parameter.dim() and len(value) in (1, len(parameter))


def level_of(view: ModelView, held: Samples) -> Tensor:
    """Return the sums that the level of logits is measured by, over some of the rows held."""
    if not len(held):
        return torch.zeros(SUMS, dtype=torch.float64)
    return normaliser_sums(view.logits(held.inputs[-LOOKED:])).cpu()


def mean_level(view: ModelView, held: Samples) -> float | None:
    """Return the level of logits over some of the rows held; None where no row is."""
    return mean_normaliser(level_of(view, held))
