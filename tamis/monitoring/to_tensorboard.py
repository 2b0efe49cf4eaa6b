"""TensorBoard: event files in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tamis.monitoring.numbers import NoTrackerError, numbers_of
from tamis.monitoring.record import SlotRecord


class ToTensorBoard:
    """Writes to FOLDER/tensorboard; `tensorboard --logdir FOLDER` shows it."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise NoTrackerError(
                "TensorBoard is missing: pip install 'tamis[tensorboard]'."
            ) from None
        self._writer = SummaryWriter(str(folder / "tensorboard"))
        text = "\n".join(f"    {name}: {value}" for name, value in settings.items())
        self._writer.add_text("settings", text)

    def update(self, record: SlotRecord) -> None:
        """Write the numbers of a slot."""
        for name, value in numbers_of(record).items():
            self._writer.add_scalar(name, value, record.slot)
        for text in record.warnings:
            self._writer.add_text("warnings", text, record.slot)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
