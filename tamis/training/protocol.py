"""What a run needs of its trainer and its checkpoints: rows may be in other processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer

from tamis.buffers import WaitingRoom
from tamis.checkpoint import Restored
from tamis.data import Samples, Slot
from tamis.model_view import Average
from tamis.monitoring import Accuracy
from tamis.noise import JointLabels, Tracker
from tamis.review.protocol import AuditedTrainer
from tamis.selectors import Selector
from tamis.sources import Validator


class RecordedTrainer(AuditedTrainer, Protocol):
    """A trainer that a `TrainingRun` owns, as `tamis.Trainer` is."""

    grown: int
    changed: list[int]
    joined: Samples
    validator: Validator
    selector: Selector
    tracker: Tracker | None
    annotators: JointLabels | None
    waiting: WaitingRoom | None
    model: nn.Module
    optimizer: Optimizer
    average: Average | None

    @property
    def slots(self) -> int:
        """Slots so far."""
        ...

    @property
    def skipped_steps(self) -> int:
        """Steps that were not taken, since the start."""
        ...

    def step(self, item: Any = None) -> Slot:
        """Do one slot with what has arrived, if anything."""
        ...

    def held_parts(self) -> Iterator[Samples]:
        """Yield all rows held, some at a time where they are in other processes."""
        ...

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        ...

    def accuracy(self, inputs: Any, labels: Any) -> Accuracy:
        """Return the share of labels that the model predicts, and that its average does."""
        ...

    def settings(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on and that does not change."""
        ...


class RunCheckpoints(Protocol):
    """Saves and restores a run, as `Checkpoints` does."""

    folder: Path
    failed: int
    damaged: dict[int, str]

    def save(self, run: Any, offset: Any = None, others: Mapping[str, object] | None = None) -> int:
        """Save a run, and return the number of the checkpoint once it is safe."""
        ...

    def load(
        self,
        run: Any,
        others: Mapping[str, object] | None = None,
        allow_mismatch: bool = False,
    ) -> Restored:
        """Restore the newest checkpoint that can be read."""
        ...

    def generations(self) -> list[int]:
        """List the checkpoints there."""
        ...

    def clear(self) -> None:
        """Remove all checkpoints."""
        ...
