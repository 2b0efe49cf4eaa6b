"""What happened, in numbers: monitor, log, experiment trackers, progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tamis.monitoring.monitor import Accuracy, CollapseWarning, Line, Monitor
from tamis.monitoring.numbers import Logger, NoTrackerError
from tamis.monitoring.to_mlflow import ToMLflow
from tamis.monitoring.to_tensorboard import ToTensorBoard
from tamis.monitoring.to_wandb import ToWandB

LOGGERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Logger]] = {
    "tensorboard": ToTensorBoard,
    "mlflow": ToMLflow,
    "wandb": ToWandB,
}


__all__ = [
    "LOGGERS",
    "Accuracy",
    "CollapseWarning",
    "Line",
    "Logger",
    "Monitor",
    "NoTrackerError",
    "ToMLflow",
    "ToTensorBoard",
    "ToWandB",
]
