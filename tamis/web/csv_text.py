"""CSV as text, and as an address."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence

from tamis.runs.spreadsheet import disarm


def as_data(content: str) -> str:
    """Put content into an address, so that it can be saved from a page without a network."""
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(content.encode()).decode()


def to_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write rows as CSV, none of them a formula."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(header)
    for row in rows:
        writer.writerow([disarm(cell) if isinstance(cell, str) else cell for cell in row])
    return out.getvalue()
