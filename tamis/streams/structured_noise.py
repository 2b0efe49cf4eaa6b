"""Label noise with structure: dense near boundaries, in some classes, or in the work of one person.

Models and neighbours learn such wrong labels and then agree with them, as they do not with wrong
labels that are scattered evenly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from tamis.streams.annotators import Crowd
from tamis.streams.noise import Confusion, Corrupted, relabel, uniform


class Boundary:
    """Rows near a decision boundary get the runner-up class, as if people had taken it for theirs.

    A teacher, a small perceptron, is fitted to the right `labels` of `reference`, inputs like those
    of the stream. The margin of a row is the teacher's logit of the right class minus its highest
    other one, and that other class is what a wrong label names. Rows are ranked by their margin
    among those of `reference`, from 0 for the closest to 1: up to `softness` below the noise rate
    all are wrong, from as much above it on all are right, and in between the probability falls in a
    straight line. That is symmetric about the noise rate, so that uniform ranks keep the mean
    there. Rows of one margin are ranked at random.
    """

    def __init__(
        self, classes: int, reference: Tensor, labels: Tensor, softness: float = 0.2, seed: int = 0
    ) -> None:
        self.classes = classes
        self.softness = softness
        flat = reference.flatten(1).float()
        self._centre = flat.mean(dim=0)
        self._scale = flat.std(dim=0).clamp_min(1e-6)
        self._teacher = fit_teacher(self._scaled(reference), labels, classes, seed)
        self._margins = self.margins(reference, labels)[0].sort().values

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Corrupt the labels of rows that are close to a boundary."""
        margins, runner_up = self.margins(inputs, labels)
        wrong = uniform(labels, generator) < self.rates(margins, noise_rate, generator)
        return relabel(inputs, labels, torch.where(wrong, runner_up, labels))

    def margins(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far the right class is ahead of the best other one, and which that is."""
        with torch.no_grad():
            logits = self._teacher(self._scaled(inputs))
        right = logits.gather(1, labels[:, None])[:, 0]
        best, runner_up = logits.scatter(1, labels[:, None], -torch.inf).max(dim=1)
        return right - best, runner_up

    def rates(self, margins: Tensor, noise_rate: float, generator: Generator) -> Tensor:
        """Return the probability that the label of a row with this margin is wrong."""
        first, last = (
            torch.searchsorted(self._margins, margins, right=right) for right in (False, True)
        )
        rank = (first + (last - first) * uniform(margins, generator)) / len(self._margins)
        reach = max(min(self.softness, noise_rate, 1 - noise_rate), 1e-9)
        return (0.5 + (noise_rate - rank) / (2 * reach)).clamp(0, 1)

    def _scaled(self, inputs: Tensor) -> Tensor:
        scaled = (inputs.flatten(1).float() - self._centre) / self._scale
        return scaled.clamp(-5, 5)  # a pixel that is hardly ever set has next to no deviation


@dataclass(frozen=True)
class ClassLocal:
    """Labels of some classes are wrong, those of all others right.

    A wrong label is any other class, or always the next one if `to_next`. `shares` are those of the
    classes in the data, uniform by default: the classes of `hit` are wrong as often as it takes to
    make the noise rate of all rows the one given.

    >>> noise = ClassLocal(4, hit=(1,))
    >>> generator = torch.Generator().manual_seed(0)
    >>> noise.corrupt(torch.zeros(4, 1), torch.arange(4), 0.25, generator).clean.tolist()
    [True, False, True, True]
    """

    classes: int
    hit: tuple[int, ...]
    to_next: bool = False
    shares: Tensor | None = None

    def __post_init__(self) -> None:
        if not self.hit or not set(self.hit) <= set(range(self.classes)):
            raise ValueError(f"There are classes 0 to {self.classes - 1}, got {self.hit}.")

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Corrupt labels of the classes that are hit."""
        right = torch.eye(self.classes)
        wrong = right.roll(1, dims=1) if self.to_next else (1 - right) / (self.classes - 1)
        struck = torch.zeros(self.classes, 1).index_fill(0, torch.tensor(self.hit), 1)
        matrix = struck * wrong + (1 - struck) * right
        return Confusion(matrix, self.shares).corrupt(inputs, labels, noise_rate, generator)


@dataclass(frozen=True)
class AnnotatorTurns:
    """Annotators take turns: every so many `rows` are labelled by another one, with errors of his.

    What a class is taken for is drawn for each of them as in `Crowd`. Their noise rates run evenly
    from `spread` below the given one to as much above it, in random order. A call of `corrupt`
    begins with a new annotator; one of fewer rows has one alone, of a random rate.
    """

    classes: int
    rows: int = 50
    spread: float = 0.3

    def corrupt(
        self, inputs: Tensor, labels: Tensor, noise_rate: float, generator: Generator
    ) -> Corrupted:
        """Corrupt labels as the annotator of each stretch of rows does."""
        turns = -(-len(labels) // self.rows)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        crowd = Crowd.draw(turns, self.classes, accuracy=0, seed=seed)
        order = torch.randperm(turns, generator=generator)
        rank = (order + torch.rand(turns, generator=generator)) / turns
        rates = noise_rate + min(self.spread, noise_rate, 1 - noise_rate) * (2 * rank - 1)
        who = torch.arange(len(labels)) // self.rows
        wrong = uniform(labels, generator) < rates[who]
        given = crowd.label(labels, who, 0, generator)
        return relabel(inputs, labels, torch.where(wrong, given, labels))


def fit_teacher(
    inputs: Tensor,
    labels: Tensor,
    classes: int,
    seed: int,
    hidden: int = 64,
    steps: int = 400,
    batch: int = 128,
) -> nn.Module:
    """Return a perceptron fitted to rows; the seed determines its weights and its batches."""
    generator = torch.Generator().manual_seed(seed)
    first, last = (
        nn.utils.skip_init(nn.Linear, *size)
        for size in ((inputs.shape[1], hidden), (hidden, classes))
    )
    for layer in (first, last):
        bound = layer.in_features**-0.5
        for part in layer.parameters():
            nn.init.uniform_(part, -bound, bound, generator=generator)
    teacher = nn.Sequential(first, nn.ReLU(), last)
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=3e-3, weight_decay=1e-2)
    for _ in range(steps):
        rows = torch.randint(len(labels), (batch,), generator=generator)
        loss = nn.functional.cross_entropy(teacher(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return teacher.requires_grad_(False)
