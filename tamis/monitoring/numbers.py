"""The numbers of a slot, as experiment trackers get them."""

from __future__ import annotations

from typing import Protocol

from tamis.errors import TamisError
from tamis.monitoring.record import SlotRecord

SENT = (
    "loss", "agreement", "accuracy", "accuracy_ema", "purity", "coverage", "held", "skipped",
    "seconds",
)  # fmt: skip
"""Fields of a slot's record that trackers receive."""


class NoTrackerError(TamisError, ImportError):
    """The package of a tracker is missing."""


class Logger(Protocol):
    """Receives the records that a monitor returns, one a slot."""

    def update(self, record: SlotRecord) -> None:
        """Send the numbers of a slot."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


def numbers_of(record: SlotRecord) -> dict[str, float]:
    """Return the numbers of a slot by name, without those that are not known."""
    found = {name: getattr(record, name) for name in SENT}
    return {name: float(value) for name, value in found.items() if value is not None}
