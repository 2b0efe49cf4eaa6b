"""OGRS as the released script walks it: one chain after another, past all rows at every step."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from tamis import ModelView, Samples
from tamis.lab.ogrs_variants import OGRSVariant

LOOP_ROUNDS = 32
"""Rounds over which the loop's chains are spread, as many in each."""

# Chains that know nothing of each other, so that a batch must pick what the loop picks; a step in
# the scale of pixels, so that they move; a limit amid the uses of the pool, so that prices do.
EXACT = OGRSVariant(
    steps=5, step_size=20, price_step=0.05, max_uses=4, scaled=False, space="inputs",
    candidates=None, starts="picks", uses="picks", in_turn=False, carry_price=False,
)  # fmt: skip


def walk(pool: Samples, view: ModelView, at: int) -> int:
    """Walk one chain as the released script does: past all rows of the pool at every step."""
    excess, price = pool.uses - EXACT.max_uses, 0.0
    for _ in range(EXACT.steps):
        gradient = view.input_gradients(pool.inputs[[at]], pool.labels[[at]])[0]
        price = max(0.0, price + EXACT.price_step * excess[at].item())  # eq. 8
        offset = pool.inputs - pool.inputs[at]
        distance = offset.square().sum(dim=1) / (2 * EXACT.step_size)
        at = int((offset @ gradient + price * excess + distance).argmin())  # eq. 7
    return at


class Loop:
    """Walks all chains once, some of them at each call. The first call walks one to warm up."""

    def __init__(self, pool: Samples, view: ModelView, starts: Tensor) -> None:
        self.pool = pool
        self.view = view
        self._ends: list[int] = []
        self._turns = chain([starts[:1]], starts.split(len(starts) // LOOP_ROUNDS))

    def __call__(self) -> None:
        """Walk the chains whose turn it is."""
        self._ends += [walk(self.pool, self.view, at) for at in next(self._turns).tolist()]

    def ends(self) -> Tensor:
        """Return the rows where the chains ended."""
        return torch.tensor(self._ends[1:])
