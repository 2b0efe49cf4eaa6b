"""What happened, in numbers: monitor, log, experiment trackers, progress."""

from __future__ import annotations

from tamis.monitoring.collapse import CollapseWarning
from tamis.monitoring.logger_group import LOGGERS, LoggerError, LoggerGroup
from tamis.monitoring.monitor import Monitor
from tamis.monitoring.numbers import Logger, NoTrackerError
from tamis.monitoring.record import Accuracy, SlotRecord
from tamis.monitoring.to_mlflow import ToMLflow
from tamis.monitoring.to_tensorboard import ToTensorBoard
from tamis.monitoring.to_wandb import ToWandB

__all__ = [
    "LOGGERS",
    "Accuracy",
    "CollapseWarning",
    "Logger",
    "LoggerError",
    "LoggerGroup",
    "Monitor",
    "NoTrackerError",
    "SlotRecord",
    "ToMLflow",
    "ToTensorBoard",
    "ToWandB",
]
