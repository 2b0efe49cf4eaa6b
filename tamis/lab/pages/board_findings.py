"""Sentences about the board: its settings, and what its tables show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tamis.lab.board import Result
from tamis.lab.pages.board_tables import Table
from tamis.lab.scene import PLACES

BASELINE = "naive"


def about(results: Sequence[Result]) -> str:
    """Return on what and with which settings the board was made."""
    seeds = len({run.seed for run in results})
    slots: dict[str, set[int]] = {}
    for run in results:
        slots.setdefault(run.data, set()).add(run.slots)
    where = "; ".join(f"{name}: {setting(name, counts)}" for name, counts in slots.items())
    return (
        f"Made on {machines(results)}. Runs: {len(results):,}; seeds: {seeds}. {where}. "
        f"SGD at that rate where a method brings no optimiser of its own."
    )


def setting(name: str, slots: set[int]) -> str:
    """Return what all methods share on a data set."""
    place = PLACES[name]
    counts = ", ".join(f"{count:,}" for count in sorted(slots))
    held = "all rows" if place.held is None else f"at most {place.held:,} rows"
    arrive = "arriving over all slots" if place.once else "held from the first slot on"
    if place.kept:
        which = "a random sample of" if place.tasks else "the newest"
        arrive += f", {which} {place.kept:,} kept"
    arrive += f", in {place.tasks} tasks with blurred boundaries" if place.tasks else ""
    if place.falls:
        arrive += f", clean ratio falling from {place.drifts_from} to that of the cell"
    elif place.drifts_from is not None:
        arrive += f", clean ratio {place.drifts_from} and that of the cell by turns, twice each"
    if place.tail:
        held += f" of a long tail, {place.tail:,} of the first class for one of the last,"
    augment = f", {place.augment}" if place.augment else ""
    return (
        f"{counts} slots of {place.k} picks, {held} {arrive}, at most {place.warm_up} slots of "
        f"warm-up, {place.model.__name__} at rate {place.rate}, decay {place.decay}{augment}"
    )


def machines(results: Sequence[Result]) -> str:
    """Return the machines of the runs, with counts where there are several."""
    counts = Counter(run.machine for run in results)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{name} ({count:,} runs)" for name, count in counts.most_common())


def all_tables(tables: Sequence[Table]) -> str:
    """Return a sentence about the methods that beat naive training nowhere."""
    methods = {row.method for table in tables for row in table.rows}
    if BASELINE not in methods:
        return f"Without {BASELINE} on the board there is nothing to beat."
    losers = methods - {BASELINE}.union(*(beat_naive(table) for table in tables))
    if not losers:
        return f"Every method beats {BASELINE} in at least one cell of the complete board."
    return f"These beat {BASELINE} in no cell of the complete board: {names(losers)}."


def beat_naive(table: Table) -> set[str]:
    """Return the methods whose accuracy is above that of naive training at some clean ratio."""
    naive = next((row.cells for row in table.rows if row.method == BASELINE), ())
    return {
        row.method
        for row in table.rows
        for cell, base in zip(row.cells, naive, strict=False)
        if cell and base and cell.better.mean > base.better.mean
    }


def findings(table: Table) -> list[str]:
    """Return sentences about dropped classes, methods never above naive, and missing runs."""
    lost = [f"{row.method} ({row.lost} of {row.runs} runs)" for row in table.rows if row.lost]
    methods = {row.method for row in table.rows}
    losers = methods - beat_naive(table) - {BASELINE}
    most = max(row.runs for row in table.rows)
    short = [f"{row.method} ({row.runs} of {most})" for row in table.rows if row.runs < most]
    lines = [f"These dropped a class: {'; '.join(lost)}." if lost else "No method dropped a class."]
    if losers and BASELINE in methods:
        lines.append(f"These beat {BASELINE} at no clean ratio here: {names(losers)}.")
    if short:
        lines.append(f"Runs are missing, so these are means over fewer: {'; '.join(short)}.")
    return lines


def names(methods: Iterable[str]) -> str:
    """List methods; some have a comma in their name."""
    return "; ".join(sorted(methods, key=str.lower))
