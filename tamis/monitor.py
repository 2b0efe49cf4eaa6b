"""What happened, in numbers: one JSON line a slot, and a warning where selection collapses."""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TextIO

import torch
from torch import Tensor

from tamis.data import Picks, Samples, Slot


class Accuracy(NamedTuple):
    """Share of test labels predicted, by the model as it is and by its running average."""

    raw: float
    ema: float | None = None


class CollapseWarning(UserWarning):
    """Selection has narrowed to something that a model should not be trained on."""


def purity_of(held: Samples, picks: Picks) -> Tensor | None:
    """Clean share of the picks that keep their label, on the device, where it is known."""
    if held.clean is None:
        return None
    clean = held.clean[picks.rows]
    real = torch.ones_like(clean) if picks.weights is None else picks.weights > 0
    if picks.targets is not None:
        real = real & (picks.targets.argmax(dim=1) == held.labels[picks.rows])
    return (clean & real).sum() / real.sum()


class Shares(NamedTuple):
    """What is held and what of it was ever picked, on the device."""

    coverage: Tensor
    recall: Tensor | None
    class_held: Tensor


def shares_of(held: Samples, classes: int) -> Shares:
    """Go through all rows held: the share ever picked, that of the clean ones, rows a class."""
    used = held.uses > 0
    recall = None if held.clean is None else (used & held.clean).sum() / held.clean.sum()
    return Shares(used.float().mean(), recall, count_classes(held.labels, classes))


def count_classes(labels: Tensor, classes: int, weights: Tensor | None = None) -> Tensor:
    """Count labels by class; those of weight 0 do not count."""
    ones = torch.ones_like(labels) if weights is None else (weights > 0).long()
    return labels.new_zeros(classes).index_add_(0, labels, ones)


@dataclass(frozen=True)
class Line:
    """One slot as it stands in the log."""

    slot: Slot
    accuracy: Accuracy | None
    warnings: tuple[str, ...]

    def to_json(self) -> str:
        """Write the line as one JSON object."""
        slot, ids = self.slot, self.slot.ids
        return json.dumps(
            {
                "slot": slot.number,
                "warm_up": slot.warm_up,
                "seen": slot.seen,
                "held": slot.held,
                "skipped": slot.skipped,
                "picks": len(ids),
                "distinct": len(ids.unique()),
                "loss": slot.loss,
                "agreement": slot.agreement,
                "accuracy": self.accuracy and self.accuracy.raw,
                "accuracy_ema": self.accuracy and self.accuracy.ema,
                "purity": slot.purity,
                "recall": slot.recall,
                "coverage": slot.coverage,
                "class_picks": slot.class_picks.tolist(),
                "stayed": slot.stayed,
                "price": slot.price,
                "select_seconds": round(slot.select_seconds, 6),
                "seconds": round(slot.seconds, 6),
                "warnings": list(self.warnings),
            },
            allow_nan=False,
        )


class Monitor:
    """Records slots: to a file as they come, and in memory the slots that were tested.

    `evaluate` measures accuracy on held-out data, every `every` slots; that data is never
    filtered. Collapse is looked for over the last `patience` slots after the warm-up.
    """

    def __init__(
        self,
        file: Path | None = None,
        evaluate: Callable[[], Accuracy] | None = None,
        every: int = 100,
        patience: int = 100,
    ) -> None:
        self.evaluate = evaluate
        self.every = every
        self.tested: list[Line] = []
        self.slots = 0
        self.seconds = 0.0
        self.warnings: list[str] = []
        self._recent: deque[Slot] = deque(maxlen=patience)
        self._purities = 0.0
        self._judged = 0
        self._file: TextIO | None = None
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("w", encoding="utf-8")

    def record(self, slot: Slot) -> Line:
        """Take a slot down, test the model if it is time, and warn of a collapse once."""
        self.slots += 1
        self.seconds += slot.seconds
        if slot.purity is not None and not slot.warm_up:
            self._purities += slot.purity
            self._judged += 1
        due = self.evaluate and (slot.number + 1) % self.every == 0
        line = Line(slot, self.evaluate() if due and self.evaluate else None, self._warn(slot))
        if line.accuracy:
            self.tested.append(line)
        if self._file:
            self._file.write(line.to_json() + "\n")
        return line

    @property
    def purity(self) -> float | None:
        """Mean clean share of the picks after the warm-up."""
        return self._purities / self._judged if self._judged else None

    def close(self) -> None:
        """Finish the file."""
        if self._file:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _warn(self, slot: Slot) -> tuple[str, ...]:
        if slot.warm_up or not len(slot.picked):
            return ()
        self._recent.append(slot)
        if len(self._recent) < (self._recent.maxlen or 0):
            return ()
        news = [text for text in collapses(list(self._recent)) if text not in self.warnings]
        for text in news:
            warnings.warn(f"Slot {slot.number}: {text}.", CollapseWarning, stacklevel=3)
        self.warnings += news
        return tuple(news)


def collapses(slots: list[Slot]) -> list[str]:
    """Say how the picks of these slots have collapsed, if they have."""
    found = []
    held = slots[-1].class_held.cpu()
    picks = torch.stack([slot.class_picks for slot in slots]).sum(dim=0).cpu()
    expected = picks.sum() * held / held.sum()
    for label in ((picks == 0) & (expected >= 5)).nonzero()[:, 0].tolist():
        found.append(f"class {label} has vanished from the picks")
    stayed = [slot.stayed for slot in slots if slot.stayed is not None]
    if stayed and min(stayed) >= 1:
        found.append("no chain has moved: the step is too small, so picks are at chance")
    ids = torch.cat([slot.ids for slot in slots])
    room = min(len(ids), slots[-1].held)
    if len(ids.unique()) < 0.05 * room:
        found.append(f"picks crowd on {len(ids.unique())} samples of {slots[-1].held}")
    return found
