"""Signs that selection has collapsed, or that the labels carry no information."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tamis.data import Slot

HALF_LIFE = 500
"""Rows after which predictions count half."""
NO_LEAD = 2.0
"""Standard deviations below which predictions are no better than independent ones."""
ENOUGH_ROWS = 4000
"""Rows after which a model should have found something, if there is anything to be found: from
digits with 8 in 10 labels wrong it leads by 5 standard deviations and more by then."""
NO_INFORMATION = (
    "the labels carry no information, or none that this model can find: it predicts those that "
    "arrive no better than if it did not see their rows"
)


class CollapseWarning(UserWarning):
    """Selection has narrowed to something that a model should not be trained on."""


class PredictionRecord:
    """How often arriving labels were predicted before they were learned from, with a half-life.

    The lead is Cohen's kappa in standard deviations: agreement beyond that of independent labels
    and predictions of the same class shares. So a rare class counts, once it is predicted, and
    naming the commonest label always has no lead.
    """

    def __init__(self) -> None:
        self.rows_in_all = 0
        self._numbers = dict.fromkeys(("agreed", "rows", "squares"), 0.0)
        self._arrived = self._predicted = torch.zeros(0, dtype=torch.float64)
        self._seen = 0

    def update(self, slot: Slot) -> None:
        """Count the predictions of the labels that have arrived."""
        arrived, self._seen = slot.seen - self._seen, slot.seen
        labels, predicted = slot.class_arrived, slot.class_predicted
        if slot.agreement is None or labels is None or predicted is None or not arrived:
            return
        fade = 0.5 ** (arrived / HALF_LIFE)
        new = {"agreed": slot.agreement, "rows": 1.0, "squares": 1.0}
        for name, value in new.items():
            faded = fade**2 if name == "squares" else fade
            self._numbers[name] = faded * self._numbers[name] + arrived * value
        self._arrived = add_faded(self._arrived, fade, labels, arrived)
        self._predicted = add_faded(self._predicted, fade, predicted, arrived)
        self.rows_in_all += arrived

    def lead(self) -> float:
        """Return the lead over predictions that are independent of the labels, in deviations."""
        agreed, rows, squares = self._numbers.values()
        arrived, predicted = self._arrived / rows, self._predicted / rows
        both = arrived * predicted
        baseline = both.sum().item()
        # The variance of the agreement if the two are independent (Fleiss et al., 1969).
        variance = baseline + baseline**2 - (both @ (arrived + predicted)).item()
        deviation = math.sqrt(max(variance, 1e-9) * squares) / rows
        return (agreed / rows - baseline) / deviation

    def uninformative(self) -> bool:
        """Return whether, after enough rows, the model still has no lead."""
        return self.rows_in_all >= ENOUGH_ROWS and self.lead() < NO_LEAD

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        counts = {"arrived": self._arrived.clone(), "predicted": self._predicted.clone()}
        return {**self._numbers, **counts, "rows_in_all": self.rows_in_all, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts."""
        self._numbers = {name: state[name] for name in self._numbers}
        self._arrived, self._predicted = state["arrived"].clone(), state["predicted"].clone()
        self.rows_in_all, self._seen = state["rows_in_all"], state["seen"]


def add_faded(counts: Tensor, fade: float, newest: Tensor, rows: int) -> Tensor:
    """Return counts by class, faded, with those of a slot that stand for so many rows."""
    newest = newest.to("cpu", torch.float64)
    before = functional.pad(counts, (0, len(newest) - len(counts)))  # classes may have come up
    return fade * before + newest * (rows / newest.sum().clamp_min(1))


class SlotPicks(NamedTuple):
    """What collapse is detected from: the picks of a slot, by row and by class.

    Classes without picks are left out: there may be thousands of them.
    """

    ids: Tensor
    labels: Tensor
    counts: Tensor
    held: int
    stayed: float | None


class CollapseDetector:
    """Looks for a collapse in the last `patience` slots after the warm-up."""

    def __init__(self, patience: int = 100) -> None:
        self._recent: deque[SlotPicks] = deque(maxlen=patience)
        self._class_held = torch.zeros(0, dtype=torch.long)
        self._came_up: list[int] = []  # slots since each class came up after the first slot

    def update(self, slot: Slot) -> list[str]:
        """Add a slot, and return how the picks have collapsed; an empty list if not."""
        self._came_up = [slots + 1 for slots in self._came_up]
        if len(self._class_held):
            self._came_up += [0] * (len(slot.class_held) - len(self._class_held))
        counts = slot.class_picks.cpu()
        labels = counts.nonzero()[:, 0]
        self._recent.append(SlotPicks(slot.ids, labels, counts[labels], slot.held, slot.stayed))
        self._class_held = slot.class_held.cpu()
        if not self.ready():
            return []
        young = sum(slots < len(self._recent) for slots in self._came_up)
        return collapses(list(self._recent), self._class_held, len(self._class_held) - young)

    def ready(self) -> bool:
        """Return whether `patience` slots are known."""
        return len(self._recent) == self._recent.maxlen

    def state_dict(self) -> dict[str, Any]:
        """Return the slots, and the rows held by class."""
        recent = [picked._asdict() for picked in self._recent]
        return {"recent": recent, "class_held": self._class_held, "came_up": self._came_up}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the slots."""
        self._recent.clear()
        self._recent.extend(SlotPicks(**picked) for picked in state["recent"])
        self._class_held, self._came_up = state["class_held"], list(state["came_up"])


def collapses(slots: list[SlotPicks], held: Tensor, judged: int | None = None) -> list[str]:
    """Return how the picks of some slots have collapsed, one text for each sign.

    `held`: rows held by class. Only the first `judged` classes were there in all of the slots.
    """
    found = []
    labels, counts = (
        torch.cat(parts) for parts in zip(*((s.labels, s.counts) for s in slots), strict=True)
    )
    picks = torch.zeros_like(held).index_add_(0, labels, counts)
    expected = picks.sum() * held / held.sum()
    for label in ((picks == 0) & (expected >= 5))[:judged].nonzero()[:, 0].tolist():
        found.append(f"class {label} has vanished from the picks")
    stayed = [slot.stayed for slot in slots if slot.stayed is not None]
    if stayed and min(stayed) >= 1:
        found.append("no chain has moved: the step is too small, so picks are random")
    ids = torch.cat([slot.ids for slot in slots])
    room = min(len(ids), slots[-1].held)
    if len(ids.unique()) < 0.05 * room:
        found.append(f"picks crowd on {len(ids.unique())} samples of {slots[-1].held}")
    return found
