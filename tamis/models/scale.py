"""Scaling of raw columns, as a layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    """Brings raw columns to mean 0 and deviation 1, so that a saved model takes raw inputs.

    Inputs may be of any type: integers and doubles are cast to the model's. A column whose
    deviation is too small to divide by counts as constant.
    """

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        smallest = torch.finfo(deviation.dtype).tiny
        self.register_buffer("factor", 1 / torch.where(deviation >= smallest, deviation, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return scaled inputs."""
        mean = self.get_buffer("mean")
        return (inputs.to(mean.dtype) - mean) * self.get_buffer("factor")
