"""The columns of a row as pages show them: those that differ from the neighbours first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tamis.review.previews import Preview

MOST_LISTED = 40
"""Columns of a suspect in a list of many."""
LONGEST_LISTED = 300
"""Characters of a cell in a list of many."""


@dataclass(frozen=True)
class Cell:
    """A column of a row: its name, its value as text, None where it is missing."""

    name: str
    value: str | None
    differs: bool


def cells_of(preview: Mapping[str, Any]) -> list[Cell]:
    """Return the columns of a preview, those that differ first; none where it has none."""
    columns, marked = preview.get("columns"), preview.get("differs")
    if not isinstance(columns, dict):
        return []
    differs = {str(name) for name in marked} if isinstance(marked, list) else set()
    cells = [
        Cell(str(name), None if value is None or value == "" else str(value), str(name) in differs)
        for name, value in columns.items()
    ]
    return sorted(cells, key=lambda cell: not cell.differs)


def listed(preview: Mapping[str, Any]) -> Preview:
    """Return a preview for a list of many: few columns, and those not long; `cut` if any is."""
    cells = cells_of(preview)
    if not cells:
        return dict(preview)
    kept = cells[:MOST_LISTED]
    cut = len(cells) > len(kept) or any(len(cell.value or "") > LONGEST_LISTED for cell in kept)
    return {
        **preview,
        "columns": {c.name: c.value and c.value[:LONGEST_LISTED] for c in kept},
        "differs": [cell.name for cell in kept if cell.differs],
        "count": len(cells),
        "cut": cut,
    }
