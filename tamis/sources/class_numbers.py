"""Numbers of classes by their names; in an open set a new name gets the next number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.sources.protocol import BadRecordError

BEYOND_LIMIT = "label beyond the limit of classes"
NOT_A_CLASS = "label is not a class"
UNNAMED = "(no label yet)"
"""Stands for the name of a class that is there because a model needs two: see `at_least_two`."""


class ClassNumbers(dict[str, int]):
    """The number of each class by its name, in the order of the numbers.

    `classes` are the names, or a count, where the labels are the numbers below it. With
    `max_classes` the set is open: a name that is not in it is added, up to so many in all. Where
    labels are numbers, all numbers up to a new one are added with it.

    >>> numbers = ClassNumbers(["ant", "bee"], max_classes=3)
    >>> numbers.add("cow"), list(numbers)
    (2, ['ant', 'bee', 'cow'])
    """

    def __init__(self, classes: Sequence[Any] | int, max_classes: int | None = None) -> None:
        self.numbered = isinstance(classes, int)
        names = range(classes) if isinstance(classes, int) else classes
        super().__init__((str(name), number) for number, name in enumerate(names))
        if max_classes is not None and max_classes < len(self):
            raise ValueError(f"{len(self)} classes are more than max_classes={max_classes}.")
        self.max_classes = max_classes

    @property
    def open(self) -> bool:
        """Whether names can be added."""
        return self.max_classes is not None

    def add(self, name: str) -> int:
        """Return the number of a new class; raise beyond the limit."""
        if self.numbered and not (name.isascii() and name.isdecimal() and str(int(name)) == name):
            raise BadRecordError(NOT_A_CLASS, name[:100])
        if free := [number for known, number in self.items() if known.startswith(UNNAMED)]:
            self.set_names([name if at == free[0] else known for at, known in enumerate(self)])
            return free[0]
        number = int(name) if self.numbered else len(self)
        if self.max_classes is None or number >= self.max_classes:
            raise BadRecordError(BEYOND_LIMIT, f"{name[:80]} after {len(self)} classes")
        self.grow(number)
        self[name] = number
        return number

    def grow(self, classes: int) -> None:
        """Add numbers as names, up to so many classes."""
        for number in range(len(self), classes):
            self[str(number)] = number

    def set_names(self, names: Sequence[str]) -> None:
        """Replace all names, as when a stream is read again from an earlier place."""
        self.clear()
        self.update({name: number for number, name in enumerate(names)})

    def keep(self, numbers: Sequence[int], *, first: int) -> dict[int, int]:
        """Remove the names from `first` on but for these; return their new numbers by the old."""
        names, kept = list(self), [at for at in dict.fromkeys(numbers) if at >= first]
        if self.numbered:
            kept = list(range(first, max([first - 1, *kept]) + 1))
        self.set_names([*names[:first], *(names[number] for number in kept)])
        return {old: first + at for at, old in enumerate(kept)}


def at_least_two(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of classes, two at the least; new names take the places without one.

    >>> at_least_two(["ant"])
    ('ant', '(no label yet)')
    """
    missing = range(2 - len(names))
    return (*names, *(UNNAMED if not at else f"{UNNAMED} {at + 1}" for at in missing))
