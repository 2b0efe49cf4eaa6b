"""Values that a selector keeps for each sample, by id."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class IdMemory:
    """A few values for each id, zeros for an unknown one; ids are sorted and unique."""

    def __init__(self) -> None:
        self.ids = torch.empty(0, dtype=torch.long)
        self.values = torch.empty(0, 0)

    def get(self, ids: Tensor, width: int) -> Tensor:
        """Return the values of these ids, (ids, width)."""
        self.ids, self.values = self.ids.to(ids.device), self.values.to(ids.device)
        if not len(self.ids):
            return torch.zeros(len(ids), width, device=ids.device)
        at = torch.searchsorted(self.ids, ids).clamp_max(len(self.ids) - 1)
        return torch.where((self.ids[at] == ids)[:, None], self.values[at], 0)

    def put(self, ids: Tensor, values: Tensor) -> None:
        """Set the values of these ids; for an id that is given twice the first counts."""
        both = torch.cat([ids, self.ids])
        order = both.argsort(stable=True)
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = both[order].diff() != 0
        self.ids = both[order[first]]
        self.values = torch.cat([values, self.values.reshape(-1, values.shape[1])])[order[first]]

    def widen(self, width: int) -> None:
        """Add zeros to the values of every id, up to so many."""
        if len(self.ids):
            more = max(0, width - self.values.shape[1])
            self.values = functional.pad(self.values, (0, more))

    def retain(self, ids: Tensor) -> None:
        """Forget all other ids, once more are stored than are given."""
        if len(self.ids) > len(ids):
            self._restrict(torch.isin(self.ids, ids))

    def remove(self, ids: Tensor) -> None:
        """Forget these ids."""
        self._restrict(~torch.isin(self.ids, ids.to(self.ids.device)))

    def _restrict(self, kept: Tensor) -> None:
        self.ids, self.values = self.ids[kept], self.values[kept]
