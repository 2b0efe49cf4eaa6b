"""The share of right labels by an audit: rows drawn at random whose labels people have checked."""

from __future__ import annotations

import math

import torch

from tamis.noise.tracker import Estimate

POINTS = 2**16
"""Points of the grid on which the posterior is summed."""
OUTSIDE = 0.05
"""Probability on either side of the band."""


def audit_band(right: int, wrong: int) -> Estimate:
    """Return the clean ratio with its 90% band, from counts of right and wrong labels.

    The band is Jeffreys' interval: quantiles of Beta(right + 1/2, wrong + 1/2), from 0 where no
    label is right, and to 1 where none is wrong. The value is the mean.

    >>> [round(number, 3) for number in audit_band(83, 17)]
    [0.827, 0.762, 0.885]
    """
    if right < 0 or wrong < 0:
        raise ValueError(f"Counts of labels are at least 0, got {right} and {wrong}.")
    # With x = sin(angle) ** 2 the density has no poles: sin ** (2 * right) * cos ** (2 * wrong).
    angles = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (math.pi / 2 / POINTS)
    log_density = 2 * right * angles.sin().log() + 2 * wrong * angles.cos().log()
    shares = log_density.softmax(dim=0).cumsum(dim=0)
    wanted = torch.tensor([OUTSIDE, 1 - OUTSIDE], dtype=torch.float64)
    low, high = angles[torch.searchsorted(shares, wanted)].sin().square().tolist()
    value = (right + 0.5) / (right + wrong + 1)
    return Estimate(value, low if right else 0.0, high if wrong else 1.0)
