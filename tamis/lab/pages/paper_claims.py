"""The claims of the paper, and ours about our own rule, held against every cell.

Means of averaged weights are compared, the same for every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tamis.lab.pages.board_tables import Spread
from tamis.lab.pages.markdown import share
from tamis.lab.table import CLEAN_RATIOS, ITLM_RATIOS, PAPER, Line

SHORT = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
OURS, BASELINE, ORACLE, BEST = "OGRS", "naive", "oracle", "Plausible"
TRIMMED = tuple(f"ITLM {ratio}" for ratio in ITLM_RATIOS)
Curve = Sequence[Line]


class Place(NamedTuple):
    """Where methods stand: a clean ratio of the table, or a reading and quarter of the stream."""

    data: str
    reading: str
    clean_ratio: float
    slot: int

    @property
    def name(self) -> str:
        """Data set and clean ratio, in a few words."""
        if self.reading:
            return f"{self.reading} reading, slot {self.slot:,}"
        return f"{SHORT.get(self.data, self.data)} at {as_ratio(self.clean_ratio)}"

    def printed(self, method: str) -> float | None:
        """Return the paper's number, where it has one."""
        row = PAPER.get(self.data, {}).get(method, ())
        numbers = dict(zip(CLEAN_RATIOS, row, strict=False))
        return None if self.reading else numbers.get(self.clean_ratio)

    @property
    def is_printed(self) -> bool:
        """Whether the paper's table has this cell."""
        return self.printed(OURS) is not None


@dataclass(frozen=True)
class Standing:
    """How a method did in one place, over its seeds."""

    raw: Spread
    averaged: Spread
    seeds: int

    @classmethod
    def of(cls, lines: Curve) -> Standing:
        """Sum up one line a seed."""
        raw = Spread.of([line.accuracy for line in lines])
        return cls(raw, Spread.of([line.accuracy_ema for line in lines]), len(lines))

    @property
    def mean(self) -> float:
        """What is compared: accuracy of the averaged weights."""
        return self.averaged.mean

    def __str__(self) -> str:
        return f"{as_spread(self.raw)} / {as_spread(self.averaged)}"


Here = Mapping[str, Standing]
"""All methods in one place."""


def standings(curves: Sequence[Curve]) -> dict[Place, dict[str, Standing]]:
    """Sum up every method wherever it stands at a slot, over its seeds."""
    groups: dict[Place, dict[str, list[Line]]] = {}
    for line in (line for curve in curves for line in curve):
        place = Place(line.data, line.reading, line.clean_ratio, line.slot)
        groups.setdefault(place, {}).setdefault(line.method, []).append(line)
    return {
        place: {method: Standing.of(lines) for method, lines in here.items()}
        for place, here in groups.items()
    }


def printed_faults() -> list[str]:
    """Return where the paper's claims do not hold in its own table."""
    text = []
    for data, rows in PAPER.items():
        for ratio, number in zip(CLEAN_RATIOS, rows[OURS], strict=False):
            place = Place(data, "", ratio, 0)
            ahead = [row for row in (BASELINE, *TRIMMED) if exceeds(place.printed(row), number)]
            if ahead:
                numbers = listed({row: as_printed(place.printed(row)) for row in ahead})
                text.append(f"{place.name}: OGRS, {as_printed(number)}, is beaten by {numbers}.")
            if exceeds(number, place.printed(ORACLE)):
                oracle = as_printed(place.printed(ORACLE))
                text.append(f"{place.name}: OGRS, {as_printed(number)}, beats oracle ({oracle}).")
            right = place.printed(f"ITLM {ratio}")
            better = {row: as_printed(place.printed(row)) for row in TRIMMED
                      if exceeds(place.printed(row), right)}  # fmt: skip
            if better:
                itlm = f"ITLM with the right ratio, {as_printed(right)}"
                text.append(f"{place.name}: {itlm}, ends below {listed(better)}.")
    return text


def table_findings(places: Sequence[Place], found: Mapping[Place, Here]) -> list[str]:
    """Return, for every cell, the claims that do not hold, the paper's or our own."""
    there = [place for place in places if place in found]
    name = SHORT.get(places[0].data, places[0].data)
    text = faults(there, found, not_above_naive, not_above_itlm, not_best_at_right_ratio, converged)
    text += faults(there, found, not_above_printed) or (
        [f"OGRS ends above the paper's own number in every cell of {name} that was run."]
        if any(OURS in found[place] and place.is_printed for place in there) else []
    )  # fmt: skip
    text += faults(there, found, not_best) or praise(there, found)
    return text


def stream_findings(places: Sequence[Place], found: Mapping[Place, Here]) -> list[str]:
    """Return the quarters at which OGRS is behind ITLM, and our own rule behind any."""
    there = [place for place in places if place in found]
    return faults(there, found, not_above_itlm) + (
        faults(there, found, not_best) or praise(there, found)
    )


def faults(
    places: Sequence[Place],
    found: Mapping[Place, Here],
    *claims: Callable[[Place, Here], list[str]],
) -> list[str]:
    """Hold claims against each place in turn."""
    return [line for place in places for claim in claims for line in claim(place, found[place])]


def praise(places: Sequence[Place], found: Mapping[Place, Here]) -> list[str]:
    """Return whether our own rule is beaten anywhere, where it was run."""
    if not any(BEST in found[place] for place in places):
        return []
    what = "quarter" if places[0].reading else "cell"
    return [f"{BEST} is beaten by no row but {ORACLE} in any {what} here that was run."]


def not_above_naive(place: Place, here: Here) -> list[str]:
    """The paper: OGRS beats naive training."""
    if not {OURS, BASELINE} <= here.keys() or here[OURS].mean > here[BASELINE].mean:
        return []
    mine, theirs = place.printed(OURS), place.printed(BASELINE)
    then = ""
    if mine is not None and theirs is not None:
        how = "it does" if mine > theirs else "neither"
        then = f"; in the paper {how}, {as_printed(mine)} against {as_printed(theirs)}"
    numbers = f"{share(here[OURS].mean)} against {share(here[BASELINE].mean)}"
    return [f"{place.name}: OGRS does not beat naive, {numbers}{then}."]


def not_above_itlm(place: Place, here: Here) -> list[str]:
    """The paper: OGRS beats ITLM, but for one with .9 on MNIST at .7."""
    ahead = ahead_of(OURS, here, TRIMMED)
    if not ahead:
        return []
    also = [row for row in TRIMMED if exceeds(place.printed(row), place.printed(OURS))]
    then = f"; in the paper by {' and '.join(also) or 'none'}" if place.is_printed else ""
    return [f"{place.name}: OGRS ({share(here[OURS].mean)}) is beaten by {listed(ahead)}{then}."]


def not_best_at_right_ratio(place: Place, here: Here) -> list[str]:
    """The paper: ITLM is robust where its ratio is about right, and falls elsewhere."""
    right = f"ITLM {place.clean_ratio}"
    ahead = ahead_of(right, here, TRIMMED)
    if not ahead:
        return []
    what = f"{right} ({share(here[right].mean)}) ends below {listed(ahead)}"
    return [f"{place.name}: ITLM is not best with the right ratio: {what}."]


def converged(place: Place, here: Here) -> list[str]:
    """The paper: some ITLM rows on CIFAR-10 do not converge."""
    lost = [row for row in TRIMMED if place.is_printed and place.printed(row) is None]
    there = {row: share(here[row].mean) for row in lost if row in here}
    if not there:
        return []
    return [f"{place.name}: N/A in the paper, not converged; here: {listed(there)}."]


def not_above_printed(place: Place, here: Here) -> list[str]:
    """The default should beat the paper's own number."""
    number = place.printed(OURS)
    if number is None or OURS not in here:
        return []
    mine = here[OURS]
    if mine.averaged.mean <= number:
        return [f"{place.name}: OGRS ends at {mine}, not above the paper's {as_printed(number)}."]
    if mine.raw.mean <= number:
        alone = "by its averaged weights alone"
        return [f"{place.name}: OGRS beats the paper's {as_printed(number)} {alone}: {mine}."]
    return []


def not_best(place: Place, here: Here) -> list[str]:
    """Our own rule should beat every row but the oracle."""
    ahead = ahead_of(BEST, here, [row for row in here if row != ORACLE])
    if not ahead:
        return []
    return [f"{place.name}: {BEST} ({share(here[BEST].mean)}) is beaten by {listed(ahead)}."]


def ahead_of(method: str, here: Here, rows: Sequence[str]) -> dict[str, str]:
    """Find the rows that end above a method."""
    if method not in here:
        return {}
    others = [row for row in rows if row in here and row != method]
    return {row: share(here[row].mean) for row in others if here[row].mean > here[method].mean}


def exceeds(one: float | None, other: float | None) -> bool:
    """Return whether a number is above another; a missing one is not."""
    return one is not None and other is not None and one > other


def listed(numbers: Mapping[str, str]) -> str:
    """List rows with their numbers."""
    return ", ".join(f"{row} ({number})" for row, number in numbers.items())


def as_spread(spread: Spread) -> str:
    """Write mean and deviation."""
    text = share(spread.mean)
    return text if math.isnan(spread.std) else f"{text} ±{share(spread.std)}"


def as_ratio(ratio: float) -> str:
    """Write a clean ratio as short as the paper does."""
    return f"{ratio:.4g}".removeprefix("0")


def as_printed(number: float | None) -> str:
    """Write a number with the paper's four places."""
    return "N/A" if number is None else f"{number:.4f}".removeprefix("0")
