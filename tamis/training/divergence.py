"""Steps that were not taken, and when there have been too many of them in a row."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from tamis.errors import TamisError


class DivergedError(TamisError, ArithmeticError):
    """Training has diverged; the steps that would have corrupted the model were not taken."""


class Divergence:
    """Counts steps whose loss was not finite; `patience` of them in a row raise `DivergedError`.

    On a GPU a loss is judged once it has arrived by itself, so that no slot waits for it.
    """

    def __init__(self, patience: int) -> None:
        if patience < 1:
            raise ValueError(f"patience is a number of steps from 1 on, got {patience}.")
        self.patience = patience
        self.skipped = self.in_a_row = 0
        self._pending: deque[tuple[int, Tensor, torch.cuda.Event]] = deque()

    def update(self, slot: int, loss: Tensor) -> None:
        """Judge the loss of a slot, now or once it has arrived."""
        if loss.device.type == "cpu":
            self._judge(slot, loss)
            return
        event = torch.cuda.Event()
        here = torch.empty((), pin_memory=True).copy_(loss, non_blocking=True)
        event.record()
        self._pending.append((slot, here, event))
        while self._pending and self._pending[0][2].query():
            slot, here, _ = self._pending.popleft()
            self._judge(slot, here)

    def settle(self) -> None:
        """Wait for all losses that have not arrived, and judge them."""
        while self._pending:
            slot, here, event = self._pending.popleft()
            event.synchronize()
            self._judge(slot, here)

    def state_dict(self) -> dict[str, int]:
        """Return the counts of steps not taken."""
        self.settle()
        return {"skipped": self.skipped, "in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore what `state_dict` returned."""
        self._pending.clear()
        self.skipped, self.in_a_row = state["skipped"], state["in_a_row"]

    def _judge(self, slot: int, loss: Tensor) -> None:
        if loss.isfinite():
            self.in_a_row = 0
            return
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row >= self.patience:
            raise DivergedError(
                f"By slot {slot}, {self.in_a_row} steps in a row had a loss that is not finite or"
                " a gradient far too steep, and were not taken: lower the learning rate."
            )
