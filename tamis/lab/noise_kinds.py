"""The kinds of label noise that the experiments name, built for the rows of a stream."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from tamis.streams import (
    AnnotatorTurns,
    Boundary,
    ClassLocal,
    InstanceDependent,
    Noise,
    OpenSet,
    PairFlip,
    Symmetric,
)

Build = Callable[[int, Tensor, Tensor], Noise]
"""Makes noise of the number of classes, and the inputs and right labels of the stream."""
STRANGERS = 5000
"""Strangers at the most."""


def hit_classes(classes: int) -> tuple[int, ...]:
    """Return the classes with wrong labels where noise is local: three of ten, two apart."""
    return tuple(range(0, classes, 3))[: max(1, round(0.3 * classes))]


def class_local(classes: int, labels: Tensor, to_next: bool = False) -> Noise:
    """Return noise in some classes, by the shares of the classes in these labels."""
    shares = torch.bincount(labels, minlength=classes).float()
    return ClassLocal(classes, hit_classes(classes), to_next, shares)


def annotators(classes: int, rows: int) -> Noise:
    """Return noise of annotators in turn, 30 of them where there are rows enough."""
    return AnnotatorTurns(classes, rows=min(50, max(10, rows // 30)))


def strangers(inputs: Tensor) -> Tensor:
    """Return inputs of no class: images with their pixels permuted, rows of shuffled columns."""
    generator = Generator().manual_seed(0)
    rows = inputs[torch.randperm(len(inputs), generator=generator)[:STRANGERS]]
    flat = rows.flatten(1)
    if inputs.dim() > 2:
        flat = flat[:, torch.randperm(flat.shape[1], generator=generator)]
    else:
        flat = flat.gather(0, torch.rand(flat.shape, generator=generator).argsort(dim=0))
    return flat.reshape(rows.shape)


NOISES: dict[str, Build] = {
    "symmetric": lambda classes, inputs, labels: Symmetric(classes),
    "pair": lambda classes, inputs, labels: PairFlip(classes),
    "boundary": Boundary,
    "instance": lambda classes, inputs, labels: InstanceDependent(classes, inputs),
    "class-local": lambda classes, inputs, labels: class_local(classes, labels),
    "class-local-next": lambda classes, inputs, labels: class_local(classes, labels, to_next=True),
    "annotators": lambda classes, inputs, labels: annotators(classes, len(labels)),
    "open-set": lambda classes, inputs, labels: OpenSet(strangers(inputs)),
}
SCATTERED = ("symmetric", "pair")
"""Kinds of a fixed confusion, the same in every region: those of the board."""
