"""The comparison on tables as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import mean
from typing import NamedTuple

from tamis.lab.pages.markdown import share
from tamis.lab.tables import Cell, Measured

OWN = "tamis"
FINDERS = (OWN, "random forest", "gradient boosting")


class Line(NamedTuple):
    """What a method made of a cell."""

    method: str
    cell: Cell
    measured: Measured


def page_of(lines: Sequence[Line]) -> str:
    """Return the tables of the page: means over tables, each table, time and memory.

    A cell that not every method has been run on does not count.
    """
    lines = in_common(lines)
    others = [method for method in names(lines) if method != OWN]
    accuracies = by_table(lines, accuracy, others, ("accuracy", "best other"))
    suspects = by_table(lines, precision, FINDERS[1:], ("suspects", "best cleanlab"))
    return "\n\n".join([means(lines), accuracies, suspects, costs(lines)])


def in_common(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the cells that every method has been run on."""
    methods = {line.method for line in lines}
    ran = Counter(line.cell for line in lines)
    return [line for line in lines if ran[line.cell] == len(methods)]


def names(lines: Sequence[Line], field: str = "method") -> list[str]:
    """Return the methods, or the tables, in the order of their names in the first lines."""
    found = [line.method if field == "method" else line.cell.table for line in lines]
    return list(dict.fromkeys(sorted(found, key=lambda name: (name != OWN, name))))


def average(
    lines: Sequence[Line], method: str, wrong: float | None, get: Callable[[Measured], float]
) -> float:
    """Return the mean over tables of each table's mean, of what was measured."""
    values: dict[str, list[float]] = {}
    for line in lines:
        value = get(line.measured)
        wanted = line.method == method and wrong in (None, line.cell.wrong)
        if wanted and not math.isnan(value):
            values.setdefault(line.cell.table, []).append(value)
    return mean(map(mean, values.values())) if values else math.nan


def accuracy(measured: Measured) -> float:
    """Return the share of test rows that are predicted right."""
    return measured.accuracy


def precision(measured: Measured) -> float:
    """Return the average precision of the suspects."""
    return measured.average_precision


def means(lines: Sequence[Line]) -> str:
    """Return the means over all tables."""
    rows = [
        "| | accuracy, 20% wrong | 40% wrong | suspects found, 20% wrong | 40% wrong |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method in names(lines):
        with_cleanlab = method if method == OWN else f"{method}; cleanlab with it"
        name = with_cleanlab if method in FINDERS else method
        cells = [share(average(lines, method, wrong, accuracy)) for wrong in (0.2, 0.4)]
        cells += [share(average(lines, method, wrong, precision)) for wrong in (0.2, 0.4)]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def by_table(
    lines: Sequence[Line],
    get: Callable[[Measured], float],
    rivals: Sequence[str],
    titles: tuple[str, str],
) -> str:
    """Return each table: tamis beside the best of its rivals in that very table."""
    what, rival = titles
    rows = [
        f"| table (seeds) | {what}, 20% wrong | {rival} | 40% wrong | {rival} |",
        "| --- " * 5 + "|",
    ]
    for table in sorted(names(lines, "table")):
        own = [line for line in lines if line.cell.table == table]
        seeds = len({line.cell.seed for line in own if line.method == OWN})
        cells = []
        for wrong in (0.2, 0.4):
            cells.append(share(average(own, OWN, wrong, get)))
            best, found = best_other(own, rivals, wrong, get)
            cells.append(f"{share(found)} {best}")
        rows.append(f"| {table} ({seeds}) | {' | '.join(cells)} |")
    return "\n".join(rows)


def best_other(
    lines: Sequence[Line], rivals: Sequence[str], wrong: float, get: Callable[[Measured], float]
) -> tuple[str, float]:
    """Return the rival with the highest mean, and that mean; one without a value comes last."""
    found = {rival: average(lines, rival, wrong, get) for rival in rivals}
    best = max(found, key=lambda name: (not math.isnan(found[name]), found[name]))
    return best, found[best]


def costs(lines: Sequence[Line]) -> str:
    """Return seconds and memory of each method, by table."""
    methods = names(lines)
    rows = [f"| table | {' | '.join(methods)} |", "| --- " * (len(methods) + 1) + "|"]
    for table in sorted(names(lines, "table")):
        own = [line for line in lines if line.cell.table == table]
        cells = []
        for method in methods:
            seconds = average(own, method, None, lambda measured: measured.seconds)
            further = average(own, method, None, lambda measured: measured.suspect_seconds)
            memory = average(own, method, None, lambda measured: measured.memory_mb)
            more = f" + {further:.1f}" if method in FINDERS else ""
            cells.append("-" if math.isnan(seconds) else f"{seconds:.1f}{more} s, {memory:.0f} MB")
        rows.append(f"| {table} | {' | '.join(cells)} |")
    return "\n".join(rows)
