"""Training on a stream: the trainer, its optimiser step, augmentation, methods of two models."""

from tamis.training.augment import Augment
from tamis.training.divergence import DivergedError
from tamis.training.execution import Execution
from tamis.training.folder import FolderInUseError
from tamis.training.run import NotWrittenError, SaveEvery, TrainingRun
from tamis.training.trainer import Trainer

__all__ = [
    "Augment",
    "DivergedError",
    "Execution",
    "FolderInUseError",
    "NotWrittenError",
    "SaveEvery",
    "Trainer",
    "TrainingRun",
]
