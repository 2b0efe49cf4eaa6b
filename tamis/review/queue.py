"""The suspects most worth a look: a bounded queue without duplicates, in which age counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tamis.runs import Suspect


class ReviewQueue:
    """Holds the `size` worst suspects, each once.

    A suspect weighs by its score, halved over every `half_life` slots since it was last added:
    recent suspects come first, and a queue that nobody works on does not fill up with old ones. A
    suspect added again is new again. What is decided is removed, and not added again.

    >>> queue = ReviewQueue(size=2)
    >>> queue.update([Suspect(id, "cat", "dog", s) for id, s in zip("abc", (0.7, 0.9, 0.8))], 0)
    >>> [suspect.id for suspect in queue.ranked()]
    ['b', 'c']
    """

    def __init__(self, size: int = 1000, half_life: float = 10_000.0) -> None:
        if size < 1 or half_life <= 0:
            raise ValueError(f"Size and half-life are above 0, got {size}, {half_life}.")
        self.size = size
        self.half_life = half_life
        self.now = 0
        self._entries: dict[str, tuple[Suspect, int]] = {}
        self._decided: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def update(self, suspects: Iterable[Suspect], slot: int) -> None:
        """Add suspects, and remove the least where the queue is full."""
        self.now = max(self.now, slot)
        for suspect in suspects:
            if suspect.id not in self._decided:
                self._entries[suspect.id] = suspect, slot
        if len(self._entries) > self.size:
            kept = self._ranked()[: self.size]
            self._entries = {suspect.id: (suspect, slot) for suspect, slot in kept}

    def rescore(self, name: str, score: float, suggested: str) -> None:
        """Change the score of a suspect, not its age."""
        if name in self._entries:
            suspect, slot = self._entries[name]
            self._entries[name] = replace(suspect, score=score, suggested=suggested), slot

    def remove(self, name: str) -> None:
        """Remove a row that is no longer a suspect."""
        self._entries.pop(name, None)

    def set_decided(self, names: Iterable[str]) -> None:
        """Set all ids that are decided: they are removed, and not added until undone."""
        self._decided = set(names)
        for name in self._decided & self._entries.keys():
            del self._entries[name]

    def ranked(self) -> list[Suspect]:
        """Return the suspects, the first to review in front."""
        return [suspect for suspect, _ in self._ranked()]

    def state_dict(self) -> dict[str, Any]:
        """Return the entries; decisions are in a file of their own."""
        entries = [
            {"suspect": suspect.to_json(), "slot": slot} for suspect, slot in self._entries.values()
        ]
        return {"now": self.now, "entries": entries}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the entries."""
        self.now = state["now"]
        found = [(Suspect.from_json(one["suspect"]), one["slot"]) for one in state["entries"]]
        self._entries = {suspect.id: (suspect, slot) for suspect, slot in found if suspect}

    def _ranked(self) -> list[tuple[Suspect, int]]:
        return sorted(self._entries.values(), key=self._weight, reverse=True)

    def _weight(self, entry: tuple[Suspect, int]) -> float:
        suspect, slot = entry
        return float(suspect.score * 0.5 ** ((self.now - slot) / self.half_life))
