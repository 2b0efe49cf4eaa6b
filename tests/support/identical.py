"""Comparison of two runs, bit for bit, in all that they report and remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from tamis.checkpoint import HeldBlocks
from tamis.data import Slot

TIMES = {"seconds", "select_seconds"}


def comparable(slots: Iterable[Slot]) -> list[dict[str, Any]]:
    """Return the fields of each slot, except how long it took."""
    return [
        {field.name: getattr(slot, field.name) for field in fields(slot) if field.name not in TIMES}
        for slot in slots
    ]


def identical(one: Any, other: Any) -> bool:
    """Compare two trees of tensors, numbers and text, bit for bit; nan equals nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, HeldBlocks):
        return identical(one.rows, other.rows)
    if isinstance(one, Tensor):
        same = (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
        return same and torch.equal(as_bytes(one), as_bytes(other))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other) or (one != one and other != other)


def as_bytes(tensor: Tensor) -> Tensor:
    """View a tensor as bytes: 0 and -0 differ, a nan equals itself."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
