"""What happened, in numbers: monitor, log, experiment trackers, progress."""

from __future__ import annotations

from tamis.monitoring.logger_group import LOGGERS, LoggerError, LoggerGroup
from tamis.monitoring.monitor import Accuracy, CollapseWarning, Line, Monitor
from tamis.monitoring.numbers import Logger, NoTrackerError
from tamis.monitoring.to_mlflow import ToMLflow
from tamis.monitoring.to_tensorboard import ToTensorBoard
from tamis.monitoring.to_wandb import ToWandB

__all__ = [
    "LOGGERS",
    "Accuracy",
    "CollapseWarning",
    "Line",
    "Logger",
    "LoggerError",
    "LoggerGroup",
    "Monitor",
    "NoTrackerError",
    "ToMLflow",
    "ToTensorBoard",
    "ToWandB",
]
