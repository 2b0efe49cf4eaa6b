"""The monitor: one line of JSON a slot, and a warning where selection collapses."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tamis.data import Slot
from tamis.monitoring.collapse import (
    NO_INFORMATION,
    CollapseDetector,
    CollapseWarning,
    PredictionRecord,
)
from tamis.monitoring.log import LineFile
from tamis.monitoring.record import Accuracy, SlotRecord


class Monitor:
    """Records slots: all of them in a file, and in memory those that were tested.

    `evaluate` measures accuracy on held-out data every `every` slots; that data is never filtered.
    A collapse is looked for over the last `patience` slots after the warm-up.
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
        self.tested: list[SlotRecord] = []
        self.slots = 0
        self.seconds = 0.0
        self.warnings: list[str] = []
        self._purity_sum = 0.0
        self._purity_count = 0
        self._predictions = PredictionRecord()
        self._collapse = CollapseDetector(patience)
        self._log = LineFile(file) if file else None

    def update(self, slot: Slot) -> SlotRecord:
        """Record a slot, test the model when it is due, and warn of a collapse once."""
        self.slots += 1
        self.seconds += slot.seconds
        if slot.purity is not None and not slot.warm_up:
            self._purity_sum += slot.purity
            self._purity_count += 1
        self._predictions.update(slot)
        due = self.evaluate and (slot.number + 1) % self.every == 0
        accuracy = self.evaluate() if due and self.evaluate else None
        record = SlotRecord.of(slot, accuracy, self._warn(slot))
        if accuracy:
            self.tested.append(record)
        if self._log:
            self._log.write(json.dumps(record.to_json(), allow_nan=False))
        return record

    @property
    def purity(self) -> float | None:
        """Mean clean share of the picks after the warm-up."""
        return self._purity_sum / self._purity_count if self._purity_count else None

    def uninformative(self) -> bool:
        """Return whether the labels carry no information that the model could find."""
        return self._predictions.uninformative()

    @property
    def lost(self) -> int:
        """Lines that could not be written, as on a full disk."""
        return self._log.lost if self._log else 0

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, the slots that collapse is looked for in, and the log's size.

        Slots that were tested are left out, since they are in the file.
        """
        return {
            "slots": self.slots,
            "seconds": self.seconds,
            "warnings": list(self.warnings),
            "purity_sum": self._purity_sum,
            "purity_count": self._purity_count,
            "collapse": self._collapse.state_dict(),
            "predictions": self._predictions.state_dict(),
            "end": self._log.sync() if self._log else 0,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state; lines that were written since then are removed."""
        self.slots, self.seconds = state["slots"], state["seconds"]
        self.warnings = list(state["warnings"])
        self._purity_sum, self._purity_count = state["purity_sum"], state["purity_count"]
        self._collapse.load_state_dict(state["collapse"])
        self._predictions.load_state_dict(state["predictions"])
        if self._log:
            self._log.keep = state["end"]

    def close(self) -> None:
        """Close the file."""
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
        found = self._collapse.update(slot)
        if not self._collapse.ready():
            return ()
        found += [NO_INFORMATION] if self.uninformative() else []
        new = [text for text in found if text not in self.warnings]
        for text in new:
            warnings.warn(f"Slot {slot.number}: {text}.", CollapseWarning, stacklevel=3)
        self.warnings += new
        return tuple(new)
