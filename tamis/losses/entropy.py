"""Cross entropy: the loss that all others are compared with."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from tamis.losses.targets import NO_LABEL_IS_IGNORED


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy per row; a label that the model has no output for raises."""
    return functional.cross_entropy(
        logits, targets, reduction="none", ignore_index=NO_LABEL_IS_IGNORED
    )
