"""Weights & Biases: a run as its own settings (WANDB_PROJECT, WANDB_MODE and others) define."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tamis.monitoring.numbers import NoTrackerError, numbers_of
from tamis.monitoring.record import SlotRecord


class ToWandB:
    """Begins a run named after the folder, and ends it."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            wandb = import_module("wandb")
        except ImportError:
            raise NoTrackerError(
                "Weights & Biases is missing: pip install 'tamis[wandb]'."
            ) from None
        self._run = wandb.init(
            name=folder.resolve().name,
            dir=str(folder),
            config={name: str(value) for name, value in settings.items()},
        )

    def update(self, record: SlotRecord) -> None:
        """Send the numbers of a slot."""
        self._run.log(numbers_of(record), step=record.slot)

    def close(self) -> None:
        """End the run."""
        self._run.finish()
