"""What a slot reports."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tamis.buffers import WaitingRoom
from tamis.data import NO_SAMPLES, Picks, Samples, Slot
from tamis.monitoring.metrics import Shares, count_classes, purity_of, shares_of

COUNTED = 8192
"""Rows held for which shares are counted in every slot; of twice as many, in every other."""


class Outcome(NamedTuple):
    """What picking and learning came to, on the device; NaN where it is not known."""

    picked: Tensor
    class_picks: Tensor
    loss: Tensor
    purity: Tensor
    stayed: Tensor
    price: Tensor

    @classmethod
    def none(cls, device: torch.device) -> Outcome:
        """Return the outcome of a slot that trained on nothing."""
        none, unknown = torch.empty(0, dtype=torch.long), torch.tensor(torch.nan)
        return cls(*(part.to(device) for part in (none, none, *[unknown] * 4)))

    @classmethod
    def of(cls, held: Samples, picks: Picks, loss: Tensor, classes: int, none: Outcome) -> Outcome:
        """Return the outcome of a step on these picks; `none` has what is not known."""
        labels, ids = held.labels[picks.rows], held.ids[picks.rows]
        if picks.weights is not None:
            ids = ids.masked_fill(picks.weights == 0, -1)
        purity, search = purity_of(held, picks), picks.search
        return cls(
            ids,
            count_classes(labels, classes, picks.weights),
            loss,
            none.purity if purity is None else purity,
            search.stayed if search else none.stayed,
            search.price if search else none.price,
        )


class Compared(NamedTuple):
    """The share of arriving labels that were predicted, and counts by class of both."""

    agreement: Tensor
    arrived: Tensor
    predicted: Tensor


class Arrivals(NamedTuple):
    """Rows accepted and rejected since the start, the number of classes, predictions made now.

    `room` is where rows wait for their labels, if anywhere.
    """

    seen: int
    rejected: int
    classes: int
    compared: Compared | None
    room: WaitingRoom | None = None


class SlotReport:
    """Makes the record of each slot; counts shares of a large buffer only now and then."""

    def __init__(self) -> None:
        self._shares = shares_of(NO_SAMPLES, 0)
        self._counted = self._count_next = 0

    def slot(
        self,
        slots: int,
        held: Samples,
        outcome: Outcome,
        arrivals: Arrivals,
        *,
        warm_up: int,
        select_seconds: float,
        started: float,
    ) -> Slot:
        """Return the record of the slot that ends now, after so many slots."""
        if slots >= self._count_next or len(held) > 2 * self._counted:
            self._shares, self._counted = shares_of(held, arrivals.classes), len(held)
            self._count_next = slots + max(1, len(held) // COUNTED)
        compared, room = arrivals.compared, arrivals.room
        return Slot(
            number=slots - 1,
            warm_up=slots <= warm_up,
            seen=arrivals.seen,
            held=len(held),
            skipped=arrivals.rejected,
            picked=outcome.picked,
            class_picks=outcome.class_picks,
            class_held=self._shares.class_held,
            figures={
                "loss": outcome.loss,
                "agreement": compared and compared.agreement,
                "purity": outcome.purity,
                "recall": self._shares.recall,
                "coverage": self._shares.coverage,
                "stayed": outcome.stayed,
                "price": outcome.price,
            },
            select_seconds=select_seconds,
            seconds=perf_counter() - started,
            class_arrived=compared and compared.arrived,
            class_predicted=compared and compared.predicted,
            waiting=0 if room is None else len(room),
            labelled=None if room is None else room.labelled,
        )

    def grow(self, classes: int) -> None:
        """Count rows held by so many classes."""
        held = self._shares.class_held
        grown = functional.pad(held, (0, max(0, classes - len(held))))
        self._shares = self._shares._replace(class_held=grown)

    def state_dict(self) -> dict[str, Any]:
        """Return the shares counted last, and when they are counted next."""
        counts = {"counted": self._counted, "next": self._count_next}
        return {"shares": self._shares._asdict(), "counts": counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._shares = Shares(**state["shares"])
        self._counted, self._count_next = state["counts"]["counted"], state["counts"]["next"]
