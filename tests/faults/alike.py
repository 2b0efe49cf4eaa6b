"""When two runs are the same: bit for bit, in all that they show and remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from tamis.data import Slot

TIMES = {"seconds", "select_seconds"}


def tell(slots: Iterable[Slot]) -> list[dict[str, Any]]:
    """Write down what slots say, but for how long they took."""
    return [
        {field.name: getattr(slot, field.name) for field in fields(slot) if field.name not in TIMES}
        for slot in slots
    ]


def alike(one: Any, other: Any) -> bool:
    """Compare two trees of tensors, numbers and text; what is no number equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        same = (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
        return same and torch.equal(as_bytes(one), as_bytes(other))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) or (one != one and other != other)


def as_bytes(tensor: Tensor) -> Tensor:
    """Look at the bits: 0 and -0 differ, a nan is the same as itself."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
