"""Ways in which a label goes wrong.

Every kind corrupts exactly the given share of labels, on average over draws, and returns which.
"Wrong" is never "redrawn": a label redrawn over all classes is sometimes the right one, and public
generators that ignore this are off by 1/classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor


class Corrupted(NamedTuple):
    """Rows as they arrive, and which of their labels are right."""

    inputs: Tensor
    labels: Tensor
    clean: Tensor


class Noise(Protocol):
    """A way for labels to go wrong."""

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Return the rows with a share of their labels wrong."""
        ...


@dataclass(frozen=True)
class Symmetric:
    """A wrong label is any other class, all equally likely."""

    classes: int

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Move a share of the labels to a random other class."""
        wrong = uniform(labels, generator) < noise_rate
        shift = torch.randint(1, max(2, self.classes), labels.shape, generator=generator)
        return relabel(inputs, labels, torch.where(wrong, (labels + shift) % self.classes, labels))


@dataclass(frozen=True)
class Redrawn:
    """A label is redrawn over all classes, the right one among them, as papers often have it.

    More labels are redrawn than go wrong, so at most 1 - 1/classes of them can be wrong.
    """

    classes: int

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Redraw as many labels as it takes to make the share wrong."""
        redrawn_rate = noise_rate * self.classes / max(1, self.classes - 1)
        if redrawn_rate > 1 + 1e-9:
            raise ValueError(
                f"Labels redrawn over {self.classes} classes cannot be wrong more often than"
                f" {1 - 1 / self.classes:.3f}, got a noise rate of {noise_rate:.3f}."
            )
        redrawn = uniform(labels, generator) < redrawn_rate
        drawn = torch.randint(self.classes, labels.shape, generator=generator)
        return relabel(inputs, labels, torch.where(redrawn, drawn, labels))


@dataclass(frozen=True)
class PairFlip:
    """A wrong label is the next class: each class is taken for one that it resembles."""

    classes: int

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Move a share of the labels on by one class."""
        wrong = uniform(labels, generator) < noise_rate
        return relabel(inputs, labels, torch.where(wrong, (labels + 1) % self.classes, labels))


@dataclass(frozen=True)
class Confusion:
    """Wrong labels follow a matrix: row is the right class, column what is given, in shares.

    A class whose row has twice the share off its diagonal is wrong twice as often. `shares` are
    those of the classes in the data, uniform by default; the rates are scaled so that with them the
    noise rate is the one given.

    >>> noise = Confusion(torch.tensor([[0.8, 0.2], [0.0, 1.0]]))
    >>> generator = torch.Generator().manual_seed(0)
    >>> noise.corrupt(torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]), 0.5, generator).labels.tolist()
    [1, 1, 1, 1]
    """

    matrix: Tensor
    shares: Tensor | None = None

    def __post_init__(self) -> None:
        rows = self.matrix.sum(dim=1)
        if self.matrix.shape[0] != self.matrix.shape[1] or (self.matrix < 0).any():
            raise ValueError("A confusion matrix is square and has no negative entry.")
        if not torch.allclose(rows, torch.ones_like(rows), atol=1e-4):
            raise ValueError(f"Each row of a confusion matrix sums to 1, got {rows.tolist()}.")

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Corrupt labels at the rate of their class, to classes drawn by the matrix."""
        wrong_rate = 1 - self.matrix.diagonal()
        shares = torch.ones_like(wrong_rate) if self.shares is None else self.shares
        mean = (shares / shares.sum() @ wrong_rate).item()
        reach = mean / max(wrong_rate.max().item(), 1e-12)
        if noise_rate > reach + 1e-6:
            raise ValueError(
                f"This confusion matrix reaches a noise rate of at most {reach:.3f},"
                f" got {noise_rate:.3f}."
            )
        rates = wrong_rate * noise_rate / max(mean, 1e-12)
        wrong = uniform(labels, generator) < rates[labels]
        others = self.matrix.clone().fill_diagonal_(0) + 1e-12
        given = torch.multinomial(others[labels], 1, generator=generator)[:, 0]
        return relabel(inputs, labels, torch.where(wrong, given, labels))


class InstanceDependent:
    """Some inputs are harder than others, and what they are taken for depends on them.

    After Xia et al., 2020: the wrong class is drawn by a fixed random projection of the input.
    The rate depends on the input as well: a further projection ranks the inputs by hardness among
    `reference`, inputs like those of the stream, and rates run evenly from `spread` below the
    noise rate to as much above it. Uniform ranks keep the mean at the given rate; rates drawn
    around it and clipped to 0 and 1 do not.
    """

    def __init__(self, classes: int, reference: Tensor, spread: float = 0.3, seed: int = 0) -> None:
        self.classes = classes
        self.spread = spread
        generator = torch.Generator().manual_seed(seed)
        flat = reference.flatten(1).float()
        self._centre = flat.mean(dim=0)
        self._projection = torch.randn(flat.shape[1], classes + 1, generator=generator)
        scores = (flat - self._centre) @ self._projection
        self._scale = scores.std(dim=0).clamp_min(1e-6)
        self._hardness = (scores / self._scale)[:, -1].sort().values

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Corrupt labels at a rate and to a class that depend on the input."""
        scores = (inputs.flatten(1).float() - self._centre) @ self._projection / self._scale
        below = torch.searchsorted(self._hardness, scores[:, -1].contiguous())
        rank = (below / len(self._hardness)).clamp(max=1)
        reach = min(self.spread, noise_rate, 1 - noise_rate)
        wrong = uniform(labels, generator) < noise_rate + reach * (2 * rank - 1)
        likely = scores[:, : self.classes].softmax(dim=1) + 1e-9
        given = torch.multinomial(likely.scatter(1, labels[:, None], 0), 1, generator=generator)
        return relabel(inputs, labels, torch.where(wrong, given[:, 0], labels))


@dataclass(frozen=True)
class OpenSet:
    """A wrong row is a stranger: an input of no known class, under a label that was right before.

    `strangers` are inputs from elsewhere, of the same shape as the stream's.
    """

    strangers: Tensor

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Replace a share of the inputs by strangers."""
        if self.strangers.shape[1:] != inputs.shape[1:]:
            raise ValueError(
                f"Strangers of shape {tuple(self.strangers.shape[1:])} do not fit a stream of"
                f" shape {tuple(inputs.shape[1:])}."
            )
        wrong = uniform(labels, generator) < noise_rate
        drawn = torch.randint(len(self.strangers), labels.shape, generator=generator)
        where = wrong.reshape(-1, *[1] * (inputs.dim() - 1))
        return Corrupted(torch.where(where, self.strangers[drawn], inputs), labels, ~wrong)


def uniform(labels: Tensor, generator: Generator) -> Tensor:
    """Return one uniform draw from [0, 1) for each row."""
    return torch.rand(labels.shape, generator=generator)


def relabel(inputs: Tensor, truth: Tensor, labels: Tensor) -> Corrupted:
    """Return the rows; a label is clean where it equals the truth."""
    return Corrupted(inputs, labels, labels == truth)
