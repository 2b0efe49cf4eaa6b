"""Rows by id: each has a place, which another row takes when it is gone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tamis.noise.annotators.votes import Array


class Places:
    """Places of ids, numbered from 0; `count` is how many there are, free ones included.

    >>> places = Places()
    >>> places.add([7, 9]).tolist(), places.find([9, 8]).tolist()
    ([0, 1], [1, -1])
    """

    def __init__(self) -> None:
        self._place_of: dict[int, int] = {}  # in the order in which they came
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._place_of)

    @property
    def count(self) -> int:
        """Return the number of places."""
        return len(self._place_of) + len(self._free)

    @property
    def ids(self) -> list[int]:
        """Return all ids, the oldest first."""
        return list(self._place_of)

    def find(self, ids: Sequence[int]) -> Array:
        """Return the place of each id, -1 without one."""
        return np.array([self._place_of.get(key, -1) for key in ids], np.int64)

    def add(self, ids: Sequence[int]) -> Array:
        """Return the place of each id; new ones get one."""
        for key in ids:
            if key not in self._place_of:
                self._place_of[key] = self._free.pop() if self._free else len(self._place_of)
        return self.find(ids)

    def remove(self, ids: Sequence[int]) -> Array:
        """Free the places of ids, and return them; others are ignored."""
        freed = [self._place_of.pop(key) for key in ids if key in self._place_of]
        self._free += freed
        return np.array(freed, np.int64)

    def state_dict(self) -> dict[str, Tensor]:
        """Return ids in order, their places, and the free places."""
        return {
            "ids": torch.tensor(self.ids, dtype=torch.int64),
            "places": torch.tensor(list(self._place_of.values()), dtype=torch.int64),
            "free": torch.tensor(self._free, dtype=torch.int64),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        pairs = zip(state["ids"].tolist(), state["places"].tolist(), strict=True)
        self._place_of, self._free = dict(pairs), state["free"].tolist()
