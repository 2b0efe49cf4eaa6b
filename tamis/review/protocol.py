"""What review needs of a trainer, so that it need not import one."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from tamis.buffers import Buffer
from tamis.model_view import ModelView


class ReviewedTrainer(Protocol):
    """A trainer whose rows can be judged, relabelled and removed, as `tamis.Trainer` is."""

    @property
    def buffer(self) -> Buffer:
        """The rows held."""
        ...

    @property
    def averaged(self) -> ModelView:
        """The model that judges rows: with averaged weights, where an average is kept."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        ...

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed."""
        ...

    def remove(self, ids: Tensor) -> int:
        """Remove rows held; return how many."""
        ...
