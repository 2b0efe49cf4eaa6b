"""Losses of one number a row: a trainer weighs rows, so it must see them one by one."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

Criterion = Callable[[Tensor, Tensor], Tensor]
"""Logits and labels (classes, or shares over classes) to one loss per row."""

NO_LABEL_IS_IGNORED = -(2**40)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy per row.

    Torch gives label -100 a loss of zero, so that a row with no label would look perfectly clean.
    Here it is out of range, as any other label that the model has no output for.
    """
    return functional.cross_entropy(
        logits, labels, reduction="none", ignore_index=NO_LABEL_IS_IGNORED
    )
