"""What review needs of a trainer, so that it need not import one."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.model_view import ModelView


class ReviewedTrainer(Protocol):
    """A trainer whose rows can be judged, relabelled and removed, as `tamis.Trainer` is."""

    @property
    def held_count(self) -> int:
        """Number of rows held in this process."""
        ...

    @property
    def kept_count(self) -> int:
        """Number of rows held in this process, and of those that wait for their labels."""
        ...

    def kept_ids(self) -> list[int]:
        """Return the ids of the rows held in this process, and of those that wait."""
        ...

    def held(self) -> Samples:
        """Return the rows held in this process."""
        ...

    @property
    def averaged(self) -> ModelView:
        """The model that judges rows: with averaged weights, where an average is kept."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        ...

    def on_any_rank(self, flag: bool) -> bool:
        """Return whether a flag is set here, or on any rank that trains the same model."""
        ...

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed."""
        ...

    def remove(self, ids: Tensor) -> int:
        """Remove rows held; return how many."""
        ...


class AuditedTrainer(ReviewedTrainer, Protocol):
    """A trainer that learns from an audit as well."""

    seed: int

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Pass on which rows came with a right label: 1, 0, or -1 where that was undone."""
        ...
