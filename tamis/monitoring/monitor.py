"""What happened, in numbers: one JSON line a slot, and a warning where selection collapses."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from tamis.data import Picks, Samples, Slot

FADES_OVER = 500
"""Rows over which half of what is known about predictions fades."""
NO_LEAD = 1.0
"""Deviations below which predictions are no better than naming the commonest label."""
SURE_ROWS = 4000
"""Rows after which a model should have found something, if there is something to be found: from
digits with 8 in 10 labels wrong it has a lead of 5 deviations and more by then."""
NO_INFORMATION = (
    "the labels carry no information, or none that this model can find: it predicts those that "
    "arrive no better than by always naming the commonest"
)


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


class Guesses:
    """How often labels were predicted before they were learned. Half fades over 500 rows."""

    def __init__(self) -> None:
        self.rows_in_all = 0
        self._numbers = dict.fromkeys(("agreed", "commonest", "rows", "squares"), 0.0)
        self._seen = 0

    def update(self, slot: Slot) -> None:
        """Take down how the labels that have come were predicted."""
        arrived, self._seen = slot.seen - self._seen, slot.seen
        held = slot.class_held
        if slot.agreement is None or not arrived or not len(held):
            return
        fade = 0.5 ** (arrived / FADES_OVER)
        share = (held.max() / held.sum().clamp_min(1)).item()
        new = {"agreed": slot.agreement, "commonest": share, "rows": 1.0, "squares": 1.0}
        for name, value in new.items():
            faded = fade**2 if name == "squares" else fade
            self._numbers[name] = faded * self._numbers[name] + arrived * value
        self.rows_in_all += arrived

    def lead(self) -> float:
        """Say by how many deviations labels were predicted better than by naming the commonest."""
        agreed, commonest, rows, squares = self._numbers.values()
        chance = commonest / rows
        deviation = math.sqrt(max(chance * (1 - chance), 1e-9) * squares) / rows
        return (agreed / rows - chance) / deviation

    def state_dict(self) -> dict[str, Any]:
        """Return what is counted."""
        return {**self._numbers, "rows_in_all": self.rows_in_all, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Count on from what `state_dict` gave."""
        self._numbers = {name: state[name] for name in self._numbers}
        self.rows_in_all, self._seen = state["rows_in_all"], state["seen"]


class Log:
    """Lines of a file, each there whole or not at all. It is opened by the first.

    Of what the file held before, `keep` bytes are kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep = self.lost = 0
        self._file: FileIO | None = None

    def write(self, line: str) -> None:
        """Add a line; one that finds no room is counted as lost, and training goes on."""
        content = (line + "\n").encode()
        try:
            file = self._open()
            if file.write(content) == len(content):
                self.keep += len(content)
                return
        except OSError:
            pass
        self.lost += 1
        with suppress(OSError):
            if self._file:
                self._file.truncate(self.keep)
                self._file.seek(self.keep)

    def sync(self) -> int:
        """Say where the file ends, once the disk has it up to there."""
        if self._file:
            os.fsync(self._file.fileno())
        return self.keep

    def close(self) -> None:
        """Finish the file."""
        if self._file:
            self._file.close()

    def _open(self) -> FileIO:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            self._file = FileIO(self.path, "r+")
            self.keep = min(self.keep, self.path.stat().st_size)
            self._file.truncate(self.keep)
            self._file.seek(self.keep)
        return self._file


def told(slot: Slot) -> dict[str, Any]:
    """Write a slot down with its figures as plain numbers."""
    names = (field.name for field in fields(slot) if field.name != "figures")
    return {name: getattr(slot, name) for name in names} | {"figures": slot.read()}


def slot_of(state: dict[str, Any]) -> Slot:
    """Make a slot of what `told` wrote."""
    figures = {
        name: None if value is None else torch.tensor(value)
        for name, value in state["figures"].items()
    }
    return Slot(**{**state, "figures": figures})


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
        self._guesses = Guesses()
        self._log = Log(file) if file else None

    def update(self, slot: Slot) -> Line:
        """Take a slot down, test the model if it is time, and warn of a collapse once."""
        self.slots += 1
        self.seconds += slot.seconds
        if slot.purity is not None and not slot.warm_up:
            self._purities += slot.purity
            self._judged += 1
        self._guesses.update(slot)
        due = self.evaluate and (slot.number + 1) % self.every == 0
        line = Line(slot, self.evaluate() if due and self.evaluate else None, self._warn(slot))
        if line.accuracy:
            self.tested.append(line)
        if self._log:
            self._log.write(line.to_json())
        return line

    @property
    def purity(self) -> float | None:
        """Mean clean share of the picks after the warm-up."""
        return self._purities / self._judged if self._judged else None

    def uninformative(self) -> bool:
        """Say whether labels tell nothing, as far as the model can see, once enough have come."""
        return self._guesses.rows_in_all >= SURE_ROWS and self._guesses.lead() < NO_LEAD

    @property
    def lost(self) -> int:
        """Lines that could not be written, as on a full disk."""
        return self._log.lost if self._log else 0

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted, the slots that collapse is looked for in, and the log's end.

        Slots that were tested are not in it, since they are in the file.
        """
        return {
            "slots": self.slots,
            "seconds": self.seconds,
            "warnings": list(self.warnings),
            "purities": self._purities,
            "judged": self._judged,
            "recent": [told(slot) for slot in self._recent],
            "guesses": self._guesses.state_dict(),
            "end": self._log.sync() if self._log else 0,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; lines that were written since then are taken back."""
        self.slots, self.seconds = state["slots"], state["seconds"]
        self.warnings = list(state["warnings"])
        self._purities, self._judged = state["purities"], state["judged"]
        self._recent.clear()
        self._recent.extend(slot_of(slot) for slot in state["recent"])
        self._guesses.load_state_dict(state["guesses"])
        if self._log:
            self._log.keep = state["end"]

    def close(self) -> None:
        """Finish the file."""
        if self._log:
            self._log.close()

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
        found = collapses(list(self._recent))
        found += [NO_INFORMATION] if self.uninformative() else []
        news = [text for text in found if text not in self.warnings]
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
