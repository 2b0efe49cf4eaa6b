"""The top of the results: one table, one picture, and the paper's claims with a verdict on each."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from matplotlib.figure import Figure

from tamis.checkpoint import write_atomically
from tamis.lab import dynamic
from tamis.lab.pages.markdown import put_between, read_page, share
from tamis.lab.pages.paper_claims import (
    BASELINE,
    BEST,
    ORACLE,
    OURS,
    SHORT,
    TRIMMED,
    Here,
    Place,
    as_ratio,
    not_above_itlm,
    not_above_naive,
    not_best,
    not_best_at_right_ratio,
    standings,
)
from tamis.lab.pages.paper_page import complete
from tamis.lab.table import CLEAN_RATIOS, Line
from tamis.web.svg import save_png

PART = "summary"
HOLDS, FAILS, OPEN = "holds", "**does not hold**", "cannot be judged"
ITLM = "best ITLM"
PRINTED = "OGRS, paper"
COLUMNS = (BASELINE, OURS, ITLM, "BARE", BEST, ORACLE)
DOTS = {BASELINE: "#8a8f98", OURS: "#d1495b", ITLM: "#e9a23b", BEST: "#1f6feb", ORACLE: "#2f9e64"}
LEARNED = 0.2
"""Accuracy on ten classes that a model which did not converge stays below: twice a guess."""
LEGEND = (
    "Test accuracy at the end, with averaged weights, as a mean over seeds. Bold marks the best"
    " method that does not know the right labels. *Best ITLM* keeps the best of four shares, chosen"
    " in hindsight."
)
CLAIMS = (
    "A claim holds if it holds in every cell that was run. Means are compared, so a gap within the"
    " standard deviations may go either way. The sections below list the cells;"
    " [the page on OGRS](methods/ogrs.md) covers the Gaussians and the regret."
)
Standings = Mapping[Place, Here]


class Claim(NamedTuple):
    """A sentence of the paper, or ours, what became of it, and by which numbers."""

    claim: str
    verdict: str
    measured: str


def write_summary(lines: Sequence[Line], audit: Path, folder: Path, page: Path) -> None:
    """Write the picture into the folder, and table and claims into a page."""
    found = standings(complete(lines))
    save_png(draw(found), folder / "summary.png")
    text = put_between(read_page(page, PART), to_markdown(found, audit), PART)
    write_atomically(page, text.encode())


def to_markdown(found: Standings, audit: Path) -> str:
    """Return the summary as Markdown."""
    text = ["## In short", "", *summary_table(found), ""]
    text += [LEGEND, ""]
    text += ["![Test error of five methods in ten settings](../results/paper/summary.png)", ""]
    text += ["## The claims of the paper", "", CLAIMS, ""]
    text += ["| claim | verdict | measured |", "| --- | --- | --- |"]
    text += [f"| {' | '.join(claim)} |" for claim in claims(found, audit)]
    return "\n".join(text)


def places(found: Standings) -> dict[str, Place]:
    """Return the cells of the paper's table and the ends of its dynamic stream, by name."""
    chosen = {}
    for data, name in SHORT.items():
        slots = [place.slot for place in found if (place.data, place.reading) == (data, "")]
        last = max(slots, default=0)
        for ratio in CLEAN_RATIOS:
            chosen[f"{name}, clean ratio {as_ratio(ratio)}"] = Place(data, "", ratio, last)
    for reading in dynamic.READINGS:
        ends = [place for place in found if place.reading == reading]
        what = "wrong" if reading == "noise" else "right"
        chosen |= {f"dynamic stream, .1 .3 .2 .15 {what}": max(ends)} if ends else {}
    return {name: place for name, place in chosen.items() if place in found}


def numbers(here: Here) -> dict[str, float]:
    """Return the accuracy of each column in one place."""
    kept = [here[row].mean for row in TRIMMED if row in here]
    given = {name: here[name].mean for name in COLUMNS if name in here}
    return given | ({ITLM: max(kept)} if kept else {})


def summary_table(found: Standings) -> list[str]:
    """Return a row for each place, and a column for each method."""
    rows = [["", *COLUMNS], ["---", *["---:"] * len(COLUMNS)]]
    for name, place in places(found).items():
        there = numbers(found[place])
        best = max(value for column, value in there.items() if column != ORACLE)
        cells = [
            f"**{share(there[column])}**" if there.get(column) == best
            else share(there.get(column, float("nan")))
            for column in COLUMNS
        ]  # fmt: skip
        rows.append([name, *cells])
    return [f"| {' | '.join(row)} |" for row in rows]


def draw(found: Standings) -> Figure:
    """Draw a line of dots for each place, a dot for each method."""
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = figure.subplots()
    chosen = places(found)
    for row, place in enumerate(reversed(chosen.values())):
        there = numbers(found[place])
        errors = {name: 1 - there[name] for name in DOTS if name in there}
        axes.plot(
            [min(errors.values()), max(errors.values())], [row, row], color="#e1e4e8", zorder=1
        )
        for name, error in errors.items():
            label = None if row else name
            axes.scatter([error], [row], color=DOTS[name], s=46, label=label, zorder=2)
    axes.set_yticks(range(len(chosen)), [*reversed(chosen)])
    axes.set_xscale("log")
    marks = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("share of test rows that are wrong at the end; left is better", fontsize=9)
    axes.tick_params(labelsize=9, length=0)
    axes.spines[:].set_visible(False)
    axes.grid(axis="x", color="#eeeeee")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, loc="upper right")
    return figure


def claims(found: Standings, audit: Path) -> list[Claim]:
    """Return every claim with its verdict, the paper's first."""
    cells = [place for place in places(found).values() if not place.reading]
    ends = [place for place in found if place.reading and place.slot in quarters(found)]
    right = [place for place in cells if f"ITLM {place.clean_ratio}" in found[place]]
    return [
        counted("OGRS beats naive training", cells, found, not_above_naive),
        counted("OGRS beats ITLM, whatever share ITLM keeps", cells, found, not_above_itlm),
        counted("ITLM is best if it keeps the right share", right, found, not_best_at_right_ratio),
        not_converged(cells, found),
        counted("OGRS beats ITLM where the clean ratio drifts", ends, found, not_above_itlm),
        on_gaussians(audit / "synthetic.csv"),
        of_the_regret(audit / "regret.csv"),
        counted("Ours: Plausible is beaten by the oracle alone, table", cells, found, not_best),
        counted("Ours: the same, dynamic stream", ends, found, not_best),
    ]  # fmt: skip


def quarters(found: Standings) -> set[int]:
    """Return the slots at which a part of the dynamic stream ends."""
    last = max((place.slot for place in found if place.reading), default=0)
    return {last * part // 4 for part in (1, 2, 3, 4)}


def counted(
    claim: str,
    cells: Sequence[Place],
    found: Standings,
    faults: Callable[[Place, Here], list[str]],
) -> Claim:
    """Hold a claim against each place; it holds if it holds in all of them.

    A claim about OGRS is held against the rule as printed, too, and holds by either.
    """
    held = sum(not faults(place, found[place]) for place in cells)
    what = "quarters, both readings" if cells and cells[0].reading else "cells"
    text = f"in {held} of {len(cells)} {what}"
    also = [place for place in cells if PRINTED in found[place]]
    if also and claim.startswith(OURS):
        others = [{**found[place], OURS: found[place][PRINTED]} for place in also]
        by_print = sum(not faults(*pair) for pair in zip(also, others, strict=True))
        text += f" by the fast rule, in {by_print} of {len(also)} by algorithm 1 as printed"
        held = max(held, by_print)
    return Claim(claim, OPEN if not cells else HOLDS if held == len(cells) else FAILS, text)


def not_converged(cells: Sequence[Place], found: Standings) -> Claim:
    """Return what became of the rows that the paper prints as N/A."""
    there = [
        found[place][row].mean
        for place in cells if place.is_printed
        for row in TRIMMED if place.printed(row) is None and row in found[place]
    ]  # fmt: skip
    claim = "Some shares of ITLM do not converge on CIFAR-10"
    if not there:
        return Claim(claim, OPEN, "not run")
    verdict = FAILS if min(there) > LEARNED else HOLDS
    span = f"{share(min(there))} to {share(max(there))}"
    return Claim(claim, verdict, f"those {len(there)} end at {span}")


def on_gaussians(file: Path) -> Claim:
    """Return what became of figure 2."""
    with file.open(newline="") as lines:
        ends = {row["method"]: float(row["accuracy_mean"]) for row in csv.DictReader(lines)}
    printed = "OGRS, as printed"
    others = {name: value for name, value in ends.items() if name not in (OURS, printed, ORACLE)}
    best = max(others, key=lambda name: others[name])
    holds = max(ends[OURS], ends[printed]) > others[best]
    ours = f"{share(ends[printed])} as printed, {share(ends[OURS])} the fast rule"
    claim = "On two Gaussians OGRS beats naive training and ITLM"
    text = f"{ours}; {best} {share(others[best])}"
    return Claim(claim, HOLDS if holds else FAILS, text)


def of_the_regret(file: Path) -> Claim:
    """Return what the growth of the regret shows: nothing, if random rows have it too."""
    with file.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["regret"] == "lagrangian"]

    def exponent(setting: str) -> float:
        return mean(float(row["exponent"]) for row in rows
                    if (row["setting"], row["steps"]) == (setting, "late"))  # fmt: skip

    ours, random = exponent("paper, zeta > 0"), exponent("random rows")
    verdict = FAILS if ours >= 1 else OPEN if random < 1 else HOLDS
    text = f"grows as M^{ours:.2f}, mean of three settings; with random rows as M^{random:.2f}"
    return Claim("The regret of the search grows slower than its steps M", verdict, text)
