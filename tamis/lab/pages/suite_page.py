"""A suite of the board as one table: a line for each cell, and what they come to together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from tamis.checkpoint import write_atomically
from tamis.lab.board import Result
from tamis.lab.noise_kinds import SCATTERED
from tamis.lab.pages.markdown import escape, put_between, read_page, share
from tamis.lab.suites import Spot

OURS, NAIVE, ORACLE = "Plausible", "naive", "oracle"
TOLERATED = 0.003
"""How far below naive training a mean may be before it counts as below."""

Cells = dict[Spot, dict[str, list[Result]]]


def write_suite(results: Sequence[Result], suite: str, page: Path | None) -> str:
    """Return the suite as Markdown, and put it between the marks of a page, if there is one."""
    text = to_markdown(results)
    if page:
        write_atomically(page, put_between(read_page(page, suite), text, suite).encode())
    return text


def to_markdown(results: Sequence[Result]) -> str:
    """Return a table of means over seeds, with our estimate of the clean ratio, and findings."""
    cells = by_spot(results)
    methods = list(dict.fromkeys(result.method for result in results))
    heads = ["data", "noise", "clean ratio", *map(escape, methods), "estimate", "band", "inside"]
    lines = [heads, ["---", "---", *["---:"] * (len(heads) - 2)]]
    for spot, runs in cells.items():
        ours = runs.get(OURS, [])
        true = mean(result.clean_ratio_true for result in (ours or next(iter(runs.values()))))
        band = [
            share(mean(getattr(result, end) for result in ours))
            for end in ("clean_ratio_low", "clean_ratio_high")
        ]
        lines.append(
            [
                spot.data,
                spot.noise,
                share(true),
                *(share(accuracy(runs.get(method, []))) for method in methods),
                share(mean(result.clean_ratio_estimated for result in ours)),
                " to ".join(band),
                share(mean(result.inside for result in ours)),
            ]
        )
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*table, "", *findings(cells)])


def findings(cells: Cells) -> list[str]:
    """Return what the cells come to: below naive training, from it to the oracle, the estimate."""
    full = {spot: runs for spot, runs in cells.items() if {OURS, NAIVE, ORACLE} <= runs.keys()}
    if not full:
        return []
    ours, naive, oracle = (
        {spot: accuracy(runs[name]) for spot, runs in full.items()}
        for name in (OURS, NAIVE, ORACLE)
    )
    below = [str(spot) for spot in full if ours[spot] < naive[spot] - TOLERATED]
    named = f": {'; '.join(below)}" if below else ""
    lines = [
        f"- {OURS} is more than 0.3 points below naive training in {len(below)} of {len(full)}"
        f" cells{named}."
    ]
    structured = [spot for spot in full if spot.noise not in SCATTERED]
    if structured:
        means = [mean(each[spot] for spot in structured) for each in (naive, ours, oracle)]
        way = (means[1] - means[0]) / max(means[2] - means[0], 1e-9)
        lines.append(
            f"- Mean of the {len(structured)} cells whose noise is neither symmetric nor pair:"
            f" naive {share(means[0])}, {OURS} {share(means[1])}, oracle {share(means[2])}:"
            f" {way:.0%} of the way."
        )
    errors = {
        spot: abs(mean(r.clean_ratio_estimated - r.clean_ratio_true for r in runs[OURS]))
        for spot, runs in full.items()
    }
    worst = max(errors, key=errors.__getitem__)
    held = sum(mean(r.inside for r in runs[OURS]) >= 0.8 for runs in full.values())
    lines.append(
        f"- The estimate of the clean ratio at the end is off by {share(mean(errors.values()))} on"
        f" average, by {share(errors[worst])} at the most ({worst}). The band holds the truth in at"
        f" least 80% of the slots in {held} of {len(full)} cells."
    )
    return lines


def by_spot(results: Iterable[Result]) -> Cells:
    """Return the results of each cell, by method."""
    cells: Cells = {}
    for result in results:
        spot = Spot(result.data, result.noise, result.clean_ratio)
        cells.setdefault(spot, {}).setdefault(result.method, []).append(result)
    return cells


def accuracy(results: Iterable[Result]) -> float:
    """Return the mean accuracy of the averaged weights."""
    return mean(result.accuracy_ema for result in results)


def mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are known; NaN without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
