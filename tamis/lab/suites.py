"""Named lists of cells for the board: a place, a kind of noise and a clean ratio each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from tamis.lab.scene import PLACES

BLURRY = ("digits-blurry", "mnist-blurry", "cifar10-blurry")
TEN_CLASSES = ("digits", "mnist", "cifar10", "made-table")


class Spot(NamedTuple):
    """A cell without its method and seed."""

    data: str
    noise: str
    clean_ratio: float

    def __str__(self) -> str:
        return f"{self.data}, {self.noise}, {self.clean_ratio:g}"


def spots(
    data: Sequence[str], noises: Sequence[str], clean_ratios: Sequence[float]
) -> tuple[Spot, ...]:
    """Return every combination."""
    return tuple(Spot(*each) for each in product(data, noises, clean_ratios))


def of_ten_classes(name: str) -> tuple[Spot, ...]:
    """Return the cells of a data set of ten classes.

    Where noise is local to three of them, 60% of their labels are wrong, or 40% the next class.
    """
    return (
        *spots([name], ["symmetric"], [0.9, 0.7, 0.5, 0.3]),
        Spot(name, "pair", 0.7),
        Spot(name, "boundary", 0.7),
        Spot(name, "instance", 0.6),
        Spot(name, "class-local", 0.82),
        Spot(name, "class-local-next", 0.88),
        Spot(name, "annotators", 0.6),
        Spot(name, "open-set", 0.7),
        *(Spot(place, "symmetric", 0.7) for place in places_of(name, "tail")),
        *(Spot(place, "symmetric", 0.5) for place in places_of(name, "few")),
        *spots(places_of(name, "fall"), ["symmetric"], [0.3, 0.15]),
    )


def of_two_classes(name: str) -> tuple[Spot, ...]:
    """Return the cells of two classes, where less than half of the labels right is no noise.

    Noise to the next class and to all others is the same there.
    """
    return (
        *spots([name], ["symmetric"], [0.9, 0.7]),
        Spot(name, "boundary", 0.7),
        Spot(name, "instance", 0.6),
        Spot(name, "class-local-next", 0.8),
        Spot(name, "annotators", 0.6),
        Spot(name, "open-set", 0.7),
        *(Spot(place, "symmetric", 0.7) for place in places_of(name, "tail")),
        *(Spot(place, "symmetric", 0.7) for place in places_of(name, "few")),
        *spots(places_of(name, "fall"), ["symmetric"], [0.6]),
    )


def places_of(name: str, kind: str) -> list[str]:
    """Return the places of a data set that are of a kind."""
    return [place for place in PLACES if place.startswith(f"{name}-{kind}")]


def belongs(place: str, name: str) -> bool:
    """Return whether a place is the one named, or one of its variants."""
    return place == name or place.startswith(f"{name}-")


SUITES: dict[str, tuple[Spot, ...]] = {
    "structure": (
        *(spot for name in TEN_CLASSES for spot in of_ten_classes(name)),
        *of_two_classes("gaussians"),
    ),
    "blurry": spots(BLURRY, ["symmetric"], [0.8, 0.6, 0.4]),
}
