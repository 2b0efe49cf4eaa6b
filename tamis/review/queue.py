"""The suspects worth a look now: a fixed number, none twice, older ones fading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from tamis.review.suspects import Suspect


@dataclass(frozen=True)
class Entry:
    """A suspect, and the slot that it was last offered in."""

    suspect: Suspect
    slot: int


class Queue:
    """Holds the `size` worst suspects, each once.

    A suspect weighs by its score beyond even odds, halved over `half_life` slots since it was
    offered: what came lately is looked at first, and a queue that nobody works off does not fill
    up with what was long ago. Offered again, a suspect counts anew. What was decided is
    out, and is not taken in again.

    >>> queue = Queue(size=2)
    >>> queue.update([Suspect(name, 0, 1, score) for name, score in zip("abc", (0.7, 0.9, 0.8))], 0)
    >>> [suspect.id for suspect in queue.ranked()]
    ['b', 'c']
    """

    def __init__(self, size: int = 1000, half_life: float = 10_000.0) -> None:
        if size < 1 or half_life <= 0:
            raise ValueError(f"A queue has room and time above 0, got {size}, {half_life}.")
        self.size = size
        self.half_life = half_life
        self.now = 0
        self._entries: dict[str, Entry] = {}
        self._settled: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def update(self, suspects: Iterable[Suspect], slot: int) -> None:
        """Take suspects in, and let the least of all go where there is no room."""
        self.now = max(self.now, slot)
        for suspect in suspects:
            if suspect.id not in self._settled:
                self._entries[suspect.id] = Entry(suspect, slot)
        if len(self._entries) > self.size:
            kept = self._in_order()[: self.size]
            self._entries = {entry.suspect.id: entry for entry in kept}

    def rescore(self, name: str, score: float, suggested: int) -> None:
        """Give a suspect another score; one that is believed now leaves. Its age stays."""
        entry = self._entries.get(name)
        if entry is None:
            return
        if score <= 0.5:
            del self._entries[name]
            return
        changed = replace(entry.suspect, score=score, suggested=suggested)
        self._entries[name] = replace(entry, suspect=changed)

    def settle(self, names: Iterable[str]) -> None:
        """Know all that is decided: it is out, and not taken in again until it is undone."""
        self._settled = set(names)
        for name in self._settled & self._entries.keys():
            del self._entries[name]

    def ranked(self) -> list[Suspect]:
        """Return the suspects, the one to look at first in front."""
        return [entry.suspect for entry in self._in_order()]

    def state_dict(self) -> dict[str, Any]:
        """Return what is in the queue; what is settled is in the file of decisions."""
        return {"now": self.now, "entries": [asdict(entry) for entry in self._entries.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hold what `state_dict` gave."""
        self.now = state["now"]
        entries = [Entry(Suspect(**found["suspect"]), found["slot"]) for found in state["entries"]]
        self._entries = {entry.suspect.id: entry for entry in entries}

    def _in_order(self) -> list[Entry]:
        return sorted(self._entries.values(), key=self._weight, reverse=True)

    def _weight(self, entry: Entry) -> float:
        age = self.now - entry.slot
        return float((entry.suspect.score - 0.5) * 0.5 ** (age / self.half_life))
