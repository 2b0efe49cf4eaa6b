"""What a selector remembers of samples, by id."""

from __future__ import annotations

import torch
from torch import Tensor


class Recall:
    """A few numbers for each id, zeros for an id not met; ids are sorted, each there once."""

    def __init__(self) -> None:
        self.ids = torch.empty(0, dtype=torch.long)
        self.values = torch.empty(0, 0)

    def of(self, ids: Tensor, width: int) -> Tensor:
        """Give the numbers of these ids, (ids, width)."""
        self.ids, self.values = self.ids.to(ids.device), self.values.to(ids.device)
        if not len(self.ids):
            return torch.zeros(len(ids), width, device=ids.device)
        at = torch.searchsorted(self.ids, ids).clamp_max(len(self.ids) - 1)
        return torch.where((self.ids[at] == ids)[:, None], self.values[at], 0)

    def put(self, ids: Tensor, values: Tensor) -> None:
        """Write the numbers of these ids; of an id given twice, the first counts."""
        together = torch.cat([ids, self.ids])
        order = together.argsort(stable=True)
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = together[order].diff() != 0
        self.ids = together[order[first]]
        self.values = torch.cat([values, self.values.reshape(-1, values.shape[1])])[order[first]]

    def keep(self, ids: Tensor) -> None:
        """Forget all other ids, once there are more in memory than are given here."""
        if len(self.ids) > len(ids):
            self._restrict(torch.isin(self.ids, ids))

    def remove(self, ids: Tensor) -> None:
        """Forget these ids."""
        self._restrict(~torch.isin(self.ids, ids.to(self.ids.device)))

    def _restrict(self, kept: Tensor) -> None:
        self.ids, self.values = self.ids[kept], self.values[kept]
