"""Offsets of a Redis stream."""

from __future__ import annotations

from typing import Any, NamedTuple


class Offset(NamedTuple):
    """The last id read, the ids claimed since, and the entries lost so far by the server's count.

    As JSON it is the id alone where there is nothing more to keep.
    """

    id: str | None
    claimed: tuple[str, ...] = ()
    lost: int = 0

    @classmethod
    def from_json(cls, offset: Any) -> Offset:
        """Return an offset as it was saved."""
        if isinstance(offset, dict):
            return cls(offset["id"], tuple(offset["claimed"]), offset["lost"])
        return cls(offset)

    def to_json(self) -> Any:
        """Return it as JSON.

        >>> Offset("9-1").to_json(), Offset("9-1", lost=2).to_json()
        ('9-1', {'id': '9-1', 'claimed': [], 'lost': 2})
        """
        if not self.claimed and not self.lost:
            return self.id
        return {"id": self.id, "claimed": list(self.claimed), "lost": self.lost}
