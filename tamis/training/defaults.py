"""Settings of a run on a table that follow its size, so that no flag is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from tamis.models import start
from tamis.models.tabular import TableLayout, TableModel
from tamis.training.augment import Augment

FEWEST_SLOTS, FEWEST_K = 200, 32
MOST_HELD = 1_000_000


@dataclass(frozen=True)
class TableSettings:
    """How a table of so many rows is trained on.

    What follows the size is how often rows are looked at. The network does not: eight members of
    64 units did as well on 112 rows as on 20,000, and wider or narrower ones, no bins, another
    dropout or less decay were worse on one side or the other (docs/methods/tables.md).

    - k is the square root of the rows, from 32 to 256: a step of few rows costs little less than
      one of many, and large tables need fewer steps for each row.
    - Every row is picked 16 times on average; the smallest tables take 200 steps, since AdamW
      needs as many to get anywhere. Beyond 25,000 rows the picks are
      400,000 in all, then one for each row: wrong labels are learned by repetition, and there new
      rows teach more than old ones.
    - Rows arrive in the first quarter of the slots, so that predictions made before learning from
      them are of a model that has learned something, and later slots have all rows to pick from.
    - All rows are held, up to a million: a file is often sorted by something.
    """

    passes: ClassVar[int] = 16
    most_picks: ClassVar[int] = 400_000
    most_k: ClassVar[int] = 256
    rows: int
    rate: float = 0.002
    weight_decay: float = 0.2
    ema: float = 0.99

    @property
    def k(self) -> int:
        """Picks a slot."""
        return min(max(round(math.sqrt(self.rows)), FEWEST_K), self.most_k)

    @property
    def slots(self) -> int:
        """Slots in all."""
        picks = max(min(self.passes * self.rows, self.most_picks), self.rows)
        return max(math.ceil(picks / self.k), FEWEST_SLOTS)

    @property
    def pool_size(self) -> int:
        """Rows that a selector sees."""
        return 1024

    @property
    def augment(self) -> Augment | None:
        """Changes of picked rows: none."""
        return None

    def rows_per_slot(self, slots: int) -> int:
        """Return the rows that arrive a slot, where there are so many slots."""
        return math.ceil(self.rows / max(1, min(slots, self.slots) // 4))

    @property
    def capacity(self) -> int:
        """Rows held."""
        return min(max(self.rows, 1), MOST_HELD)

    def model(self, layout: TableLayout, classes: int, rows: Tensor, seed: int) -> nn.Module:
        """Return a model whose bins are those of these rows and first weights those of a seed."""
        return start(
            lambda _, classes: TableModel(layout, classes, rows), (layout.width,), classes, seed
        )

    def optimizer(self, model: nn.Module, rate: float | None = None) -> torch.optim.Optimizer:
        """Return AdamW, its memory of squares short (RealMLP); only matrices decay."""
        weights = list(model.named_parameters())
        decayed = [weight for name, weight in weights if weight.dim() > 1 and name != "signs"]
        others = [weight for name, weight in weights if weight.dim() <= 1 or name == "signs"]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.rate if rate is None else rate, betas=(0.9, 0.95))
