"""The numbers of a slot, as experiment trackers get them."""

from __future__ import annotations

from typing import Protocol

from tamis.errors import TamisError
from tamis.monitoring.monitor import Line


class NoTrackerError(TamisError, ImportError):
    """The package of a tracker is missing."""


class Logger(Protocol):
    """Takes the lines that a monitor returns, one a slot."""

    def update(self, line: Line) -> None:
        """Send the numbers of a slot."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


def numbers_of(line: Line) -> dict[str, float]:
    """Return the known numbers of a slot by name."""
    slot, accuracy = line.slot, line.accuracy
    found = {
        "loss": slot.loss,
        "agreement": slot.agreement,
        "accuracy": accuracy and accuracy.raw,
        "accuracy_ema": accuracy and accuracy.ema,
        "purity": slot.purity,
        "coverage": slot.coverage,
        "held": slot.held,
        "skipped": slot.skipped,
        "seconds": slot.seconds,
    }
    return {name: float(value) for name, value in found.items() if value is not None}
