"""Ways to change picked rows on their way to the optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import to_device

Augment = Callable[[Tensor, Tensor, int, Generator], tuple[Tensor, Tensor]]
"""From inputs, targets (class numbers or shares), classes and a generator to inputs and targets."""


@dataclass(frozen=True)
class Mixup:
    """Mix every row with another, targets too: Zhang, Cisse, Dauphin and Lopez-Paz, ICLR 2018.

    In the paper's letters: strength is alpha. The share lambda of the row itself comes from
    Beta(alpha, alpha), one draw a batch; the other row from a random permutation of the batch.
    """

    strength: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.strength < np.inf:
            raise ValueError(f"The strength of Mixup lies in (0, inf), got {self.strength}.")

    def __call__(
        self, inputs: Tensor, targets: Tensor, classes: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return mixed inputs, and their targets as rows of shares."""
        if not inputs.is_floating_point():
            raise TypeError(f"Inputs of type {inputs.dtype} cannot be mixed: turn them to floats.")
        seed = int(torch.randint(2**63 - 1, (), generator=generator))
        share = float(np.random.default_rng(seed).beta(self.strength, self.strength))
        others = to_device(torch.randperm(len(inputs), generator=generator), inputs.device)
        if not targets.is_floating_point():
            targets = functional.one_hot(targets, classes).to(inputs.dtype)
        return mix(inputs, others, share), mix(targets, others, share)


def mix(rows: Tensor, others: Tensor, share: float) -> Tensor:
    """Return a share of each row plus the rest of the other."""
    return share * rows + (1 - share) * rows[others]


@dataclass(frozen=True)
class ShiftAndFlip:
    """Move every image by up to `pad` pixels each way, and mirror half of them, if `flip`.

    What a move uncovers is 0. This is the random crop after padding that CIFAR-10 is commonly
    trained with. Images are (rows, channels, height, width) or (rows, height, width). Do not flip
    what a mirror makes wrong, as digits.
    """

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        if self.pad < 0:
            raise ValueError(f"Images are padded by at least 0 pixels, got pad={self.pad}.")

    def __call__(
        self, inputs: Tensor, targets: Tensor, classes: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return moved images, and the targets as they are."""
        if inputs.dim() not in (3, 4):
            raise TypeError(f"Inputs of shape {tuple(inputs.shape)} are not images.")
        count, (height, width) = len(inputs), inputs.shape[-2:]
        corners = torch.randint(2 * self.pad + 1, (2, count, 1), generator=generator)
        lines = corners[0] + torch.arange(height)
        columns = corners[1] + torch.arange(width)
        if self.flip:
            mirrored = torch.rand(count, 1, generator=generator) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        lines, columns = (to_device(part, inputs.device) for part in (lines, columns))
        padded = functional.pad(inputs, [self.pad] * 4)
        # Channels go last, so that one look-up a row fetches them all.
        at = torch.arange(count, device=inputs.device)[:, None, None]
        found = padded.movedim(-3, -1) if inputs.dim() == 4 else padded
        found = found[at, lines[:, :, None], columns[:, None, :]]
        return (found.movedim(-1, -3) if inputs.dim() == 4 else found), targets


@dataclass(frozen=True)
class DropTokens:
    """Leave out a share of the tokens of every text: rows are ids of tokens, where 0 is none."""

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"A share of tokens lies in [0, 1), got share={self.share}.")

    def __call__(
        self, inputs: Tensor, targets: Tensor, classes: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return texts with fewer tokens, and the targets as they are."""
        kept = torch.rand(inputs.shape, generator=generator) >= self.share
        return inputs * to_device(kept, inputs.device), targets


@dataclass(frozen=True)
class Both:
    """One change after another."""

    first: Augment
    second: Augment

    def __call__(
        self, inputs: Tensor, targets: Tensor, classes: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return what the second makes of what the first made."""
        inputs, targets = self.first(inputs, targets, classes, generator)
        return self.second(inputs, targets, classes, generator)


@dataclass(frozen=True)
class TwoViews:
    """Two views of every row: all rows by a weak change, then all of them by a strong one.

    None is the row as it is. It makes a batch twice as long, so picks must have no weights.
    """

    strong: Augment | None = None
    weak: Augment | None = None

    def __call__(
        self, inputs: Tensor, targets: Tensor, classes: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the inputs of both views, and the targets of both."""
        views = [
            (inputs, targets) if change is None else change(inputs, targets, classes, generator)
            for change in (self.weak, self.strong)
        ]
        return torch.cat([seen for seen, _ in views]), torch.cat([to for _, to in views])
