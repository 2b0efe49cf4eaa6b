"""A run on a table to look at, written without training: suspects, neighbours, probabilities."""

from __future__ import annotations

from pathlib import Path

from tamis.review.neighbours import Neighbour, write_neighbours
from tamis.runs import RunMetadata, Suspect, write_metadata, write_suspects

LONG = "The parcel came late, and nobody answered the telephone. " * 20
CLASSES = ("left", "stayed", "unsure")


def cells(row: int, columns: int) -> dict[str, str | None]:
    """Return the cells of a row as somebody wrote them: a date, an amount, a gap, a long text."""
    first = {"joined": f"0{1 + row % 9}.02.2020", "income": f"1.{200 + row},50 €", "town": None}
    return {
        **first, "note": f"{row}: {LONG}",
        **{f"measure {at}": str(10 * at + row) for at in range(columns - 4)},
    }  # fmt: skip


def make_table_run(folder: Path, *, columns: int = 8, suspects: int = 5) -> Path:
    """Write a run whose suspects differ from their neighbours in the last column and in income."""
    folder.mkdir(parents=True, exist_ok=True)
    write_metadata(folder, RunMetadata("customers.csv", CLASSES, (columns,), ended="done"))
    found, near = [], {}
    for row in range(suspects):
        own = cells(row, columns) | {"income": "90.000,00 €"}
        preview = {"columns": own, "differs": ["income", list(own)[-1]]}
        shares = {"stayed": 0.9, "left": 0.08, "unsure": 0.02}
        name = f"C-{row}"
        found.append(Suspect(name, "left", "stayed", 0.9 - row / 100, row, 1, preview, shares))
        near[name] = [
            Neighbour(f"N-{at}", "stayed", 0.9, {"columns": cells(100 + at, columns)})
            for at in range(5)
        ]
    write_suspects(folder, found)
    write_neighbours(folder, near)
    return folder
