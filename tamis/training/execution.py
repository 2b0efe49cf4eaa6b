"""How a run executes: where, in which precision, and what it saves itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Execution:
    """Device, precision, CUDA graphs and feature cache of a trainer.

    On a GPU no slot waits for the device: numbers are copied when they are read, and
    `DivergedError` is raised some slots late.

    Parameters
    ----------
    device: where the model and the buffer are.
    precision: type that passes run in, such as torch.bfloat16; None is the model's own.
    graphed: replay selection and step as one CUDA graph, or, where random numbers are drawn
        between them, the model's passes as graphs of their own.
    refresh: cache the features of every row in the buffer and recompute those of so many rows a
        slot, in turn. A selector then needs no pass of its own; features are held / refresh slots
        old at most. None caches none.
    """

    device: str | torch.device = "cpu"
    precision: torch.dtype | None = None
    graphed: bool = False
    refresh: int | None = None

    def __post_init__(self) -> None:
        if self.refresh is not None and self.refresh < 1:
            raise ValueError(
                f"refresh recomputes the features of at least 1 row a slot, got {self.refresh}."
            )


CPU = Execution()
"""The default."""
