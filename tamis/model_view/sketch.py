"""Inputs in few numbers, by which rows of similar inputs are found."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Generator, Tensor

WIDTH = 64
"""Random directions that inputs of more numbers are projected on."""


def is_names(dtype: torch.dtype) -> bool:
    """Return whether inputs of a type are names: integers, but for pixels; as those of tokens."""
    return not (dtype.is_floating_point or dtype == torch.uint8)


def sketch(inputs: Tensor) -> Tensor:
    """Return each input in at most 64 numbers; in none where inputs are names.

    The directions are the same in every run.
    """
    rows = inputs.reshape(len(inputs), -1)
    if is_names(inputs.dtype):
        return rows[:, :0].float()
    rows = rows.to(torch.promote_types(inputs.dtype, torch.float32))
    if rows.shape[1] <= WIDTH:
        return rows
    return rows @ directions(rows.shape[1], rows.device, rows.dtype)


@lru_cache(maxsize=8)
def directions(size: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return random directions for inputs of so many numbers, (size, 64)."""
    drawn = torch.randn(size, WIDTH, generator=Generator().manual_seed(0))
    return (drawn / math.sqrt(size)).to(device, dtype)
