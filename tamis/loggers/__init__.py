"""The log of a run, sent to trackers of experiments as well: one small file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tamis.loggers.numbers import Logger, NoTracker
from tamis.loggers.to_mlflow import ToMLflow
from tamis.loggers.to_tensorboard import ToTensorBoard
from tamis.loggers.to_wandb import ToWandB

LOGGERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Logger]] = {
    "tensorboard": ToTensorBoard,
    "mlflow": ToMLflow,
    "wandb": ToWandB,
}

__all__ = ["LOGGERS", "Logger", "NoTracker", "ToMLflow", "ToTensorBoard", "ToWandB"]
