"""Customers who stayed or left: a mixed table, and the run that `tamis train` makes of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from tamis.cli.main import main

NAMES = ["name", "age", "town", "joined", "note", "left"]


def customers(rows: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return customers with text, dates and 8% missing values; town and note decide who left."""
    rng = np.random.default_rng(seed)
    found = []
    for row in range(rows):
        left = bool(rng.random() < 0.4)
        cells = [
            int(rng.integers(18, 80)),
            ("Oslo" if left else "Rome") if rng.random() < 0.9 else "Bern",
            f"2024-0{rng.integers(1, 10)}-1{rng.integers(10)}",
            f"parcel came {'late' if left else 'early'}",
        ]
        kept = [None if rng.random() < 0.08 else cell for cell in cells]
        values = [f"C{seed}{row:04d}", *kept, "yes" if left else "no"]
        found.append(dict(zip(NAMES, values, strict=True)))
    return found


def write_csv(path: Path, records: list[dict[str, Any]], names: list[str] = NAMES) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    return path


def train(folder: Path, *more: str) -> Path:
    """Return the folder of a run on a mixed table, whose file is gone."""
    table = write_csv(folder / "customers.csv", customers(300))
    words = ["train", str(table), "--label", "left", "--id", "name", "--slots", "80"]
    assert main([*words, *more, "--out", str(folder / "run")]) == 0
    table.unlink()
    return folder / "run"
