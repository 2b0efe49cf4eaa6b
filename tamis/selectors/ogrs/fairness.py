"""Shares of groups among picks as constraints, the OGRS paper's own future work."""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = (5**0.5 - 1) / 2


def draw_fairly(
    rows: Tensor, groups: Tensor, within: float, k: int, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw at most k of these rows, no group's share much above its share of the pool.

    `keys` are random in [0, 1), one for each row of the pool and one more. The draw minimises the
    sum of keys, as a plain draw does, under one constraint a group: at most share + within of k.
    A multiplier a group, its tax, makes that a free choice of the lowest key + tax. The
    constraints share no row, so that the optimum is plain: the lowest keys of each group up to
    its quota, then the lowest of all. The taxes follow from it. `groups` are those of the whole
    pool; returned are the rows and the taxes.
    """
    held = torch.bincount(groups)
    # Rounded up by chance, so that a quota of 6.4 is 6.4 in the mean over slots; the chances of
    # groups are spread by the golden ratio, so that not all are rounded up together.
    chance = (keys[-1] + GOLDEN * torch.arange(len(held), device=held.device)) % 1
    quota = ((held / held.sum() + within) * k + chance).floor()
    keys, order = keys[rows].sort()
    rows = rows[order]
    own = groups[rows]
    place = torch.nn.functional.one_hot(own, len(held)).cumsum(dim=0)
    inside = place.gather(1, own[:, None])[:, 0] <= quota[own]
    picks = inside.nonzero()[:k, 0]
    # A group whose lowest keys lie outside would have picked on: its tax is what stops it there.
    last = keys[picks].max() if len(picks) else keys.new_zeros(())
    taxes = keys.new_zeros(len(held)).scatter_reduce(
        0, own, torch.where(inside, 0.0, last - keys).clamp_min(0), "amax"
    )
    return rows[picks], taxes
