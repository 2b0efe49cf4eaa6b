"""The columns of cleanlab's `find_label_issues`, so that what reads those reads these."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from tamis.checkpoint import write_atomically
from tamis.review.exchange.reviewed import Reviewed, UnreadableFileError, from_cells
from tamis.review.exchange.tables import cell_of, read_cells

COLUMNS = (
    "id", "is_label_issue", "label_quality", "given_label", "predicted_label", "row", "slot",
    "decision", "label", "author", "time",
)  # fmt: skip
QUALITIES = ("label_quality", "label_score")
"""What `CleanLearning` calls it, and what `Datalab` does."""


def write_table(reviewed: Sequence[Reviewed], classes: Sequence[str], path: Path) -> None:
    """Write CSV. The quality of a label is 1 minus its score; who kept a label has no issue."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for one in reviewed:
        quality = None if one.score is None else 1 - one.score
        cells = [
            one.id, one.decision != "keep", quality, one.given, one.suggested, one.row, one.slot,
            one.decision, one.label, one.author, one.time,
        ]  # fmt: skip
        writer.writerow([cell_of(cell) for cell in cells])
    write_atomically(path, out.getvalue().encode())


def read_table(path: Path) -> list[Reviewed]:
    """Read such a table, of ours or of cleanlab's with ids beside it."""
    found = []
    for cells in read_cells(path):
        quality = next((cells[name] for name in QUALITIES if cells.get(name)), "")
        try:
            score = 1 - float(quality) if quality else ""
        except ValueError:
            raise UnreadableFileError(f"{path} has a label quality that is no number.") from None
        renamed = {"given": cells.get("given_label"), "suggested": cells.get("predicted_label")}
        found.append(from_cells({**cells, **renamed, "score": score}))
    return found
