"""Rows whose labels are not learned by heart: each is trained on once at the most."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FACTOR, MODULUS = 2_654_435_761, 2**32
"""Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


@dataclass(frozen=True, kw_only=True)
class Reserve:
    """Holds back some rows, by a hash of their ids, once they have been trained on.

    A model that sees a row again and again learns its label, be it right or wrong, and then agrees
    with it. It has hardly learned the labels of the rows held back, so that by these it can still
    be judged. In a stream that is seen once nothing is held back.

    Parameters
    ----------
    one_in: one row in so many is held back; 0 is none.
    """

    one_in: int = 16

    def __post_init__(self) -> None:
        if self.one_in < 0:
            raise ValueError(f"A reserve is one row in so many, or 0 for none, got {self.one_in}.")

    def holds(self, ids: Tensor) -> Tensor:
        """Return a mask of the rows that are trained on once at the most.

        >>> int(Reserve(one_in=16).holds(torch.arange(16_000)).sum())
        1001
        """
        if not self.one_in:
            return torch.zeros_like(ids, dtype=torch.bool)
        hashed = ids % (MODULUS // 2) * FACTOR % MODULUS  # no product beyond 2 ** 63
        return hashed < MODULUS // self.one_in
