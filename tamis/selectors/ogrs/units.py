"""Units of step size, price and uses, measured on the pool: one setting serves all data."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MEASURED = 256
"""Maximum number of rows that units are measured on."""
STEEP = 0.9
"""Quantile of the gradient norms that a step is measured by. Wrong labels have the largest
gradients, so that a high quantile stays in place while the clean ratio changes; the mean does not.
"""


class Units(NamedTuple):
    """The units that a step size, a price and a number of uses are given in."""

    step: Tensor
    price: Tensor
    uses: Tensor


def evenly_spaced(rows: int, device: torch.device | None = None) -> Tensor:
    """Return at most 256 row numbers, evenly spaced, to measure units on."""
    few = min(rows, MEASURED)
    return torch.arange(few, device=device) * (rows - 1) // max(1, few - 1)


def measure(points: Tensor, gradients: Tensor, uses: Tensor) -> Units:
    """Return the units of a walk among these points; non-finite rows are ignored.

    The step is the mean distance between neighbours over a large gradient, the price their
    product, the use the mean number of uses, at least 1.
    """
    apart = torch.cdist(points, points).fill_diagonal_(torch.inf).nan_to_num(torch.inf, torch.inf)
    nearest = apart.min(dim=1).values
    near = nearest.isfinite()
    distance = torch.where(near, nearest, 0).sum() / near.sum()
    norms = gradients.norm(dim=1)
    gradient = torch.where(norms.isfinite(), norms, torch.nan).nanquantile(STEEP)
    # A single row, duplicates only, or a perfect model leave nothing to measure.
    measurable = (distance > 0) & (gradient > 0)
    step = torch.where(measurable, distance / gradient, 1)
    price = torch.where(measurable, distance * gradient, 1)
    return Units(step, price, uses.to(points.dtype).mean().clamp_min(1))
