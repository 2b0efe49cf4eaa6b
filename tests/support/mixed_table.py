"""A table as people have them: ids, texts, dates, local numbers, gaps, wrong labels."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np

BOUGHT = ("bread and milk", "a new phone, blue", 'a "large" sofa', "two tickets to Rome")
HEADER = ("customer", "age", "town", "joined", "income", "member", "note", "churn")


def mixed_rows(rows: int, *, wrong: float = 0.15, seed: int = 0) -> list[list[str]]:
    """Return rows whose label depends on town, income and date, with 8% of the cells empty."""
    rng = np.random.default_rng(seed)
    found = []
    for row in range(rows):
        leaves = rng.random() < 0.5
        income = rng.normal(2000 if leaves else 5000, 500)
        units, cents = divmod(round(income * 100), 100)
        cells = [
            str(rng.integers(18, 80)),
            str(rng.choice(["Bern", "Oslo"] if leaves else ["Rome", "Lima"])),
            f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{2015 if leaves else 2022}",
            f"{units:,}".replace(",", ".") + f",{cents:02d} €",
            str(rng.choice(["yes", "no"])),
            f"bought {BOUGHT[int(rng.integers(4))]} on visit {row}",
        ]
        gaps = rng.random(len(cells)) < 0.08
        cells = ["" if gap else cell for gap, cell in zip(gaps, cells, strict=True)]
        label = leaves != (rng.random() < wrong)
        found.append([f"C-{row:05d}", *cells, "left" if label else "stayed"])
    return found


def write_mixed(path: Path, rows: int, **options: float) -> list[dict[str, str]]:
    """Write such a table as CSV or JSON lines, and return its records."""
    records = [dict(zip(HEADER, row, strict=True)) for row in mixed_rows(rows, **options)]  # type: ignore[arg-type]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return records
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, HEADER, delimiter=";")
    writer.writeheader()
    writer.writerows(records)
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    return records
