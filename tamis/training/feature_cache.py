"""Features of the rows held, computed as they arrive and recomputed in turn."""

from __future__ import annotations

from dataclasses import replace

from tamis.data import Samples
from tamis.model_view import ModelView

LEAST_ROWS = 128
"""Rows recomputed in one pass, at the least: fewer at a time waste the pass."""


class FeatureCache:
    """Keeps the features of every row held, and recomputes those of `refresh` rows a slot."""

    def __init__(self, refresh: int, view: ModelView) -> None:
        self.refresh = refresh
        self.view = view
        self._next = 0

    def add(self, samples: Samples) -> Samples:
        """Return the rows with their features."""
        return replace(samples, features=self.view.features(samples.inputs))

    def update(self, held: Samples, slot: int) -> None:
        """Recompute, in place, the features of the rows whose turn it is in this slot."""
        every = -(-LEAST_ROWS // self.refresh)
        if held.features is None or slot % every:
            return
        count = min(every * self.refresh, len(held))
        first = self._next % len(held)
        for rows in (slice(first, first + count), slice(0, max(0, first + count - len(held)))):
            inputs = held.inputs[rows]
            if len(inputs):
                held.features[rows] = self.view.features(inputs).to(held.features.dtype)
        self._next = first + count

    def state_dict(self) -> dict[str, int]:
        """Return where the next turn begins."""
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore what `state_dict` returned."""
        self._next = state["next"]
