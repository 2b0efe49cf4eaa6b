"""A line of the matrix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A fault, how often it was tried and withstood, the figure, its bar, and whether it is met."""

    fault: str
    trials: int
    passed: int
    figure: str
    bar: str
    met: bool

    def __str__(self) -> str:
        verdict = "met" if self.met else "NOT MET"
        return f"{self.fault}: {self.figure} (bar: {self.bar}; {verdict})"
