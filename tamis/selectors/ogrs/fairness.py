"""Group shares of the picks as constraints, the future work that the OGRS paper names."""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = (5**0.5 - 1) / 2


def draw_fairly(
    rows: Tensor, groups: Tensor, within: float, k: int, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Return at most k of these rows, no group's share far above its share of the pool, and taxes.

    `keys` are uniform in [0, 1), one for each row of the pool and one more; `groups` are those of
    all rows of the pool. The draw minimises the sum of keys under one constraint for each group:
    at most share + within of k. The multiplier of a group is its tax: without constraints, the
    lowest key + tax would be the same choice. Constraints share no row, so that the optimum is the
    lowest keys of each group up to its quota, then the lowest of all; the taxes follow from it.
    """
    held = torch.bincount(groups)
    # Random rounding, so that a quota of 6.4 is 6.4 on average over slots. The golden ratio
    # spreads the offsets of groups, so that not all are rounded up in the same slot.
    offset = (keys[-1] + GOLDEN * torch.arange(len(held), device=held.device)) % 1
    quota = ((held / held.sum() + within) * k + offset).floor()
    keys, order = keys[rows].sort()
    rows = rows[order]
    own = groups[rows]
    place = torch.nn.functional.one_hot(own, len(held)).cumsum(dim=0)
    inside = place.gather(1, own[:, None])[:, 0] <= quota[own]
    picks = inside.nonzero()[:k, 0]
    # Rows outside of the quota with keys below the last pick: the tax lifts them above it.
    last = keys[picks].max() if len(picks) else keys.new_zeros(())
    taxes = keys.new_zeros(len(held)).scatter_reduce(
        0, own, torch.where(inside, 0.0, last - keys).clamp_min(0), "amax"
    )
    return rows[picks], taxes
