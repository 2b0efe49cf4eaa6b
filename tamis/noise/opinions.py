"""What may have an opinion of the clean ratio."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tamis.noise.tracker import Estimate


@runtime_checkable
class Estimates(Protocol):
    """A selector that estimates the clean ratio of the rows that it picks from."""

    def estimate(self) -> Estimate | None:
        """Return the clean ratio with its band; None before the first slot."""
        ...


@runtime_checkable
class SeesMemorising(Protocol):
    """A selector that notices when labels are learned by heart, right or wrong."""

    def learned_by_heart(self) -> tuple[float, float] | None:
        """Return the clean ratio by rows when they were seen first, and now; None where they agree.

        They differ where rows were trained on so often that every label seems right.
        """
        ...
