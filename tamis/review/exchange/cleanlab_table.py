"""Tables with the columns of cleanlab's `find_label_issues`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from tamis.checkpoint import write_atomically
from tamis.review.exchange.rows import ReviewedRow, UnreadableFileError, from_cells
from tamis.review.exchange.tables import read_cells, to_cell

COLUMNS = (
    "id", "is_label_issue", "label_quality", "given_label", "predicted_label", "row", "slot",
    "decision", "label", "author", "time",
)  # fmt: skip
QUALITIES = ("label_quality", "label_score")
"""Names of the quality column: that of `CleanLearning`, and that of `Datalab`."""


def write_table(rows: Sequence[ReviewedRow], classes: Sequence[str], path: Path) -> None:
    """Write a CSV. The quality of a label is 1 minus its score; a label kept is not an issue."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in rows:
        known = row.cells()
        cells = known | {
            "is_label_issue": known["decision"] != "keep",
            "label_quality": None if known["score"] is None else 1 - known["score"],
            "given_label": known["given"],
            "predicted_label": known["suggested"],
        }
        writer.writerow([to_cell(cells[name]) for name in COLUMNS])
    write_atomically(path, out.getvalue().encode())


def read_table(path: Path) -> list[ReviewedRow]:
    """Read a table of ours, or one of cleanlab's with a column of ids."""
    found = []
    for cells in read_cells(path):
        quality = next((cells[name] for name in QUALITIES if cells.get(name)), "")
        try:
            score = 1 - float(quality) if quality else ""
        except ValueError:
            raise UnreadableFileError(f"{path} has a label quality that is not a number.") from None
        renamed = {"given": cells.get("given_label"), "suggested": cells.get("predicted_label")}
        found.append(from_cells({**cells, **renamed, "score": score}))
    return found
