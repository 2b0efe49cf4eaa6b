"""Files of measurements: one row a number, with a bar where one is set.

A bar is ">= 100", "<= 4", or the exact words that are expected.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

import torch

Row = tuple[str, str, str]
Line = dict[str, str]
ROWS = ("what", "measured", "bar")
NO = "**no**"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def machine() -> str:
    """Return the machine, the version of torch and the date."""
    threads = torch.get_num_threads()
    return (
        f"{os.cpu_count()} CPU cores, {threads} used by torch, "
        f"torch {torch.__version__}, {date.today()}"
    )


def save_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows: what was measured, the result, the bar."""
    save(path, ROWS, [dict(zip(ROWS, row, strict=True)) for row in rows])


def save_table(path: Path, columns: Sequence[str], lines: Iterable[Line]) -> None:
    """Write a table, with the machine in its last column."""
    here = {"machine": machine()}
    save(path, (*columns, "machine"), [line | here for line in lines])


def save(path: Path, columns: Sequence[str], lines: Iterable[Line]) -> None:
    """Write lines under a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read(path: Path) -> list[Line]:
    """Read lines; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def verdict(measured: str, bar: str) -> str:
    """Return whether a bar holds, and whether the interval crosses it."""
    if not bar:
        return ""
    sign, _, limit = bar.partition(" ")
    if sign not in {">=", "<="}:
        return "yes" if measured == bar else NO
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(measured)]
    holds = [
        number >= float(limit) if sign == ">=" else number <= float(limit) for number in numbers
    ]
    if not holds[0]:
        return NO
    return "yes" if all(holds) else "yes, but the interval crosses it"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *rows))
