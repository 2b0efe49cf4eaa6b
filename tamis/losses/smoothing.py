"""Label smoothing: Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, CVPR 2016, section 7."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from tamis.losses.targets import NO_LABEL_IS_IGNORED


@dataclass(frozen=True)
class LabelSmoothing:
    """Cross entropy, with a share of each target spread evenly over all classes.

    `amount` is the paper's epsilon.
    """

    amount: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.amount <= 1:
            raise ValueError(f"Label smoothing spreads a share in [0, 1], got {self.amount}.")

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""
        return functional.cross_entropy(
            logits,
            targets,
            reduction="none",
            ignore_index=NO_LABEL_IS_IGNORED,
            label_smoothing=self.amount,
        )
