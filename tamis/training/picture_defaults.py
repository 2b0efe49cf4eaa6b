"""Settings of a run on pictures that follow their number and size, so that no flag is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

HELD_BYTES = 2**30
FEWEST_SLOTS, MOST_PICKS, PASSES = 200, 200_000, 10
FEWEST_K, MOST_K = 32, 64


@dataclass(frozen=True)
class PictureSettings:
    """How so many pictures of a shape are trained on, in minutes on a CPU.

    - k is the square root of the number of pictures, from 32 to 64.
    - Every picture is picked 10 times in the mean, in 200 slots at the least and 200,000 picks at
      the most, or one for each picture where there are more.
    - A selector looks at 4 times as many pictures as it picks: a pass through a convolutional
      network is most of the cost of a slot.
    - Pictures arrive in the first quarter of the slots. As many are held as fit into a gigabyte.
    """

    rows: int
    shape: tuple[int, ...]
    rate: float = 0.002
    weight_decay: float = 0.05

    @property
    def k(self) -> int:
        """Picks a slot."""
        return min(max(round(math.sqrt(self.rows)), FEWEST_K), MOST_K)

    @property
    def pool_size(self) -> int:
        """Rows that a selector sees."""
        return 4 * self.k

    @property
    def slots(self) -> int:
        """Slots in all."""
        picks = max(min(PASSES * self.rows, MOST_PICKS), self.rows)
        return max(math.ceil(picks / self.k), FEWEST_SLOTS)

    def rows_per_slot(self, slots: int) -> int:
        """Return the rows that arrive a slot, where there are so many slots."""
        return math.ceil(self.rows / max(1, min(slots, self.slots) // 4))

    @property
    def capacity(self) -> int:
        """Rows held."""
        return max(1, min(self.rows, HELD_BYTES // math.prod(self.shape)))

    def optimizer(self, model: nn.Module, rate: float | None = None) -> torch.optim.AdamW:
        """Return AdamW; only matrices and filters decay."""
        weights = list(model.parameters())
        groups = [
            {"params": [w for w in weights if w.dim() > 1], "weight_decay": self.weight_decay},
            {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.rate if rate is None else rate)
