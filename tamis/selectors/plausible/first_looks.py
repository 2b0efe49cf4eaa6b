"""Which rows of a pool are candidates for the first time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.selectors.plausible.running import State


@dataclass(kw_only=True)
class FirstLooks:
    """Marks candidates that the rule has not seen before; those of the first pool never are.

    A place of the pool that holds another id than when it was last looked at has a new row.

    Parameters
    ----------
    pace: share of the newest slot in the running share of new rows.
    most_new: running share of new rows from which on none counts as new: pools are then random
        draws, or batches, and places mean nothing.
    """

    pace: float = 0.05
    most_new: float = 0.9

    def __post_init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._known: Tensor | None = None
        self._share_new = torch.ones(())
        self._moved = False

    def update(self, pool_ids: Tensor, rows: Tensor) -> Tensor:
        """Return a mask of these rows of the pool, True where one is seen for the first time."""
        known = pool_ids.clone() if self._known is None else self._known.to(pool_ids.device)
        if self._moved:  # rows were removed and others took their places: go by ids, this once
            known = torch.where(torch.isin(pool_ids, known), pool_ids, -1)
            self._moved = False
        elif len(pool_ids) > len(known):
            more = known.new_full((len(pool_ids) - len(known),), -1)
            known = torch.cat([known, more])
        ids = pool_ids.index_select(0, rows)
        new = known.index_select(0, rows) != ids
        known.index_copy_(0, rows, ids)
        self._known, self._share_new = known, self._share_new.to(rows.device)
        self._share_new = self._share_new.lerp(new.to(self._share_new).mean(), self.pace)
        return new & (self._share_new < self.most_new)

    def remove(self, ids: Tensor) -> None:
        """Forget these rows. Others may take their places."""
        if self._known is not None:
            self._known[torch.isin(self._known, ids.to(self._known.device))] = -1
            self._moved = True

    def state_dict(self) -> State:
        """Return the ids at each place and the running share; nothing before the first slot."""
        if self._known is None:
            return {}
        return {
            "known": self._known.clone(),
            "share_new": self._share_new.clone(),
            "moved": torch.tensor(self._moved),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._reset()
        if state:
            self._known, self._share_new = state["known"].clone(), state["share_new"].clone()
            self._moved = bool(state["moved"])
