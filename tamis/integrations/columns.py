"""Which parts of a batch are inputs, labels and ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Columns:
    """Positions in a batch that is a tuple or list, names in one that is a dict.

    Several names of inputs are what the model takes by name, as token ids and their mask. Without
    `ids` rows are numbered as they come: right for a stream, wrong for rows that come again.

    >>> columns = Columns(inputs=("words", "mask"), labels="labels", ids="row")
    >>> batch = {name: torch.arange(3) for name in ("words", "mask", "labels", "row")}
    >>> columns.chosen(batch, torch.tensor([2]), torch.tensor([0]))["words"].tolist()
    [2]
    """

    inputs: int | str | tuple[str, ...] = 0
    labels: int | str = 1
    ids: int | str | None = None

    def parts(self, batch: Any) -> tuple[Inputs, Tensor, Tensor | None]:
        """Return the inputs, labels and ids of a batch."""
        inputs = (
            {name: batch[name] for name in self.inputs}
            if isinstance(self.inputs, tuple)
            else batch[self.inputs]
        )
        return inputs, batch[self.labels], None if self.ids is None else batch[self.ids]

    def chosen(self, batch: Any, rows: Tensor, targets: Tensor) -> Any:
        """Return a batch of the same kind with these rows, and targets in place of their labels."""
        named = batch if isinstance(batch, Mapping) else dict(enumerate(batch))
        parts = {
            key: part[rows] if isinstance(part, Tensor) else part for key, part in named.items()
        }
        parts[self.labels] = targets
        return parts if isinstance(batch, Mapping) else type(batch)(parts.values())


def to_device(batch: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on a device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: to_device(part, device) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(to_device(part, device) for part in batch)
    return batch


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model."""
    return next(model.parameters()).device
