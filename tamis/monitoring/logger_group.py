"""Several experiment trackers as one; a tracker that fails is dropped, and training goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tamis.errors import TamisError
from tamis.monitoring.numbers import Logger
from tamis.monitoring.record import SlotRecord
from tamis.monitoring.to_mlflow import ToMLflow
from tamis.monitoring.to_tensorboard import ToTensorBoard
from tamis.monitoring.to_wandb import ToWandB

LOGGERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Logger]] = {
    "tensorboard": ToTensorBoard,
    "mlflow": ToMLflow,
    "wandb": ToWandB,
}


class LoggerGroup:
    """Sends the numbers of every slot to trackers; `warnings` names those that missed some."""

    def __init__(self, loggers: Mapping[str, Logger] | Iterable[tuple[str, Logger]] = ()) -> None:
        named = (
            loggers
            if isinstance(loggers, Mapping)
            else {type(one).__name__: one for one in loggers}
        )
        self.warnings: list[str] = []
        self._loggers = dict(named)

    @classmethod
    def of(cls, names: Sequence[str], folder: Path, settings: Mapping[str, Any]) -> Self:
        """Open trackers by name; see `LOGGERS`."""
        group = cls()
        for name in dict.fromkeys(names):
            try:
                group._loggers[name] = LOGGERS[name](folder, settings)
            except Exception as error:  # each library has errors of its own
                group.close()
                raise LoggerError(f"{name}: {first_line(error)}") from None
        return group

    def update(self, record: SlotRecord) -> None:
        """Send the numbers of a slot."""
        for name, logger in list(self._loggers.items()):
            try:
                logger.update(record)
            except Exception as error:  # the numbers are in the log all the same
                del self._loggers[name]
                self._warn(name, error)

    def close(self) -> None:
        """Send what is left."""
        for name, logger in self._loggers.items():
            try:
                logger.close()
            except Exception as error:
                self._warn(name, error)
        self._loggers.clear()

    def _warn(self, name: str, error: Exception) -> None:
        text = first_line(error).rstrip(".")
        self.warnings.append(f"{name} did not get all numbers ({text})")


class LoggerError(TamisError):
    """A tracker that cannot be opened."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
