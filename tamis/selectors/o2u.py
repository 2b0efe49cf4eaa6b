"""O2U-Net, its cyclical stage: Huang, Qu, Jia and Zhao, ICCV 2019."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, draw_scored

Tally = dict[int, tuple[float, int]]
"""The sum and the number of losses of each id."""


@dataclass
class O2U:
    """Drop the rows with the highest mean loss over cycles of the learning rate.

    A rate that falls and jumps back moves the model between overfitting and underfitting, and
    rows with wrong labels are learned and forgotten: their mean loss stays high. The rate is the
    optimiser's: see `cyclical`, whose `slots` are `cycle` here, c in the paper.

    `keep` is the user's estimate of the clean ratio, 1 - k% in the paper. `batch`: random rows to
    judge, at least 4 for each pick. Losses are stored by id for this cycle and the one before, so
    that memory is bounded by the rows judged in two cycles.
    """

    keep: float = 0.7
    cycle: int = 500
    batch: int = 128

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"O2U keeps a share in (0, 1] of a batch, got keep={self.keep}.")
        if self.cycle < 1:
            raise ValueError(f"A cycle lasts at least 1 slot, got cycle={self.cycle}.")
        self._slots = 0
        self._now: Tally = {}
        self._before: Tally = {}

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among the floor(keep * n) of smallest mean loss, at least one."""
        rows, losses = draw_scored(pool, view.losses, max(self.batch, 4 * k), generator)
        self._count_slot()
        if not len(rows):
            return Picks(rows)
        ids = pool.ids[rows].tolist()
        self._record(ids, (losses - losses.mean()).tolist())
        means = torch.tensor([self._mean_of(id_) for id_ in ids], dtype=torch.float64)
        kept = max(1, math.floor(self.keep * len(rows) + 1e-9))  # 0.29 * 100 is 28.999...
        lowest = means.topk(kept, largest=False).indices.to(rows.device)
        return Picks(rows[draw(lowest, k, generator)])

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Forget the losses of these rows, which are those of another label."""
        self.remove(ids)

    def remove(self, ids: Tensor) -> None:
        """Forget the losses of these rows."""
        for id_ in ids.tolist():
            self._now.pop(id_, None)
            self._before.pop(id_, None)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the count of slots, and ids, sums and counts of the last two cycles."""
        return {
            "slots": torch.tensor(self._slots),
            **columns_of("now", self._now),
            **columns_of("before", self._before),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._slots = int(state["slots"])
        self._now, self._before = tally_of("now", state), tally_of("before", state)

    def _count_slot(self) -> None:
        """Count a slot; at the start of a cycle, forget the one before the last."""
        if self._slots and self._slots % self.cycle == 0:
            self._now, self._before = {}, self._now
        self._slots += 1

    def _record(self, ids: list[int], losses: list[float]) -> None:
        for id_, loss in zip(ids, losses, strict=True):
            total, times = self._now.get(id_, (0.0, 0))
            self._now[id_] = (total + loss, times + 1)

    def _mean_of(self, id_: int) -> float:
        total, times = self._now[id_]
        total_before, times_before = self._before.get(id_, (0.0, 0))
        return (total + total_before) / (times + times_before)


def cyclical(optimizer: Optimizer, slots: int, high: float, low: float) -> LambdaLR:
    """Return a schedule whose learning rate falls from high to low in each cycle of slots.

    In the paper's letters: slots is c, high is r_1, low is r_2. Call its `step()` after every slot.
    All parameter groups get the same rate.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    >>> rates = cyclical(optimizer, slots=2, high=1.0, low=0.5)
    >>> for _ in range(3):
    ...     print(optimizer.param_groups[0]["lr"])
    ...     optimizer.step()
    ...     rates.step()
    0.75
    0.5
    0.75
    """
    if slots < 1 or not 0 <= low <= high:
        raise ValueError(f"A cycle needs slots >= 1 and 0 <= low <= high, got {slots, high, low}.")

    def rate(slot: int) -> float:
        share = (1 + slot % slots) / slots
        return (1 - share) * high + share * low

    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0  # LambdaLR multiplies it, so that the factor is the rate
    return LambdaLR(optimizer, rate)


def columns_of(name: str, tally: Tally) -> dict[str, Tensor]:
    """Return a tally as tensors."""
    return {
        f"{name}_ids": torch.tensor(list(tally), dtype=torch.long),
        f"{name}_sums": torch.tensor([s for s, _ in tally.values()], dtype=torch.float64),
        f"{name}_counts": torch.tensor([n for _, n in tally.values()], dtype=torch.long),
    }


def tally_of(name: str, state: dict[str, Tensor]) -> Tally:
    """Return the tally of these tensors."""
    ids, sums, counts = (state[f"{name}_{part}"].tolist() for part in ("ids", "sums", "counts"))
    return dict(zip(ids, zip(sums, counts, strict=True), strict=True))
