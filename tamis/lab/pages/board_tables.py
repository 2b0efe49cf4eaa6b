"""The board as tables: methods summed up over seeds, ranked, beside their costs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from tamis.checkpoint import write_atomically
from tamis.lab.board import Result
from tamis.lab.methods import METHODS, VARIANTS
from tamis.lab.noise_kinds import NOISES
from tamis.lab.scene import PLACES

SIDE_INFORMATION = {method.name: method.side_information for method in (*METHODS, *VARIANTS)}
MIDDLE = 0.5
"""The clean ratio at which purity, coverage and the figure are given, or the nearest to it."""


class Spread(NamedTuple):
    """Mean and standard deviation over seeds; not a number where it is not known."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum up one value a seed."""
        std = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), std)


@dataclass(frozen=True)
class Summary:
    """One method in one cell of the board, over its seeds; one field a column of board.csv.

    `runs` counts the seeds, `lost` those in which a class was lost.
    """

    method: str
    data: str
    noise: str
    clean_ratio: float
    slots: int
    runs: int
    accuracy_mean: float
    accuracy_std: float
    accuracy_ema_mean: float
    accuracy_ema_std: float
    purity_mean: float
    purity_std: float
    coverage_mean: float
    coverage_std: float
    milliseconds_mean: float
    milliseconds_std: float
    forward: float
    backward: float
    models: int
    state: int
    side_information: str
    lost: int

    @property
    def better(self) -> Spread:
        """Accuracy with or without averaged weights, whichever is higher."""
        raw = Spread(self.accuracy_mean, self.accuracy_std)
        ema = Spread(self.accuracy_ema_mean, self.accuracy_ema_std)
        return ema if ema.mean > raw.mean else raw

    @property
    def error(self) -> float:
        """Standard error of that accuracy; 0 where there is one seed only."""
        std = self.better.std
        return 0.0 if math.isnan(std) else std / math.sqrt(self.runs)

    def keeps_up_with(self, best: Summary) -> bool:
        """Return whether this is at most two standard errors of the best below it.

        Its own error does not count: else whatever varies from seed to seed would keep up.
        """
        return self.better.mean >= best.better.mean - 2 * best.error


@dataclass(frozen=True)
class Row:
    """One method in one table: a cell for each clean ratio, None where no run has ended."""

    method: str
    cells: tuple[Summary | None, ...]
    bold: tuple[bool, ...]

    @property
    def present(self) -> list[Summary]:
        """Return the cells with a result."""
        return [cell for cell in self.cells if cell]

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sort by mean accuracy, highest first; a mean over fewer cells compares with none."""
        accuracy = mean(cell.better.mean for cell in self.present)
        return self.cells.count(None), -accuracy, self.method

    @property
    def side_information(self) -> str:
        """What the method needs beyond the data."""
        return self.present[0].side_information or "nothing"

    @property
    def bill(self) -> tuple[float, float, float, int, int]:
        """Forward, backward, milliseconds, models, state: means over the cells."""
        cells = self.present
        return (
            mean(cell.forward for cell in cells),
            mean(cell.backward for cell in cells),
            mean(cell.milliseconds_mean for cell in cells),
            max(cell.models for cell in cells),
            round(mean(cell.state for cell in cells)),
        )

    @property
    def lost(self) -> int:
        """Runs in which a class was lost."""
        return sum(cell.lost for cell in self.present)

    @property
    def runs(self) -> int:
        """Runs that have ended."""
        return sum(cell.runs for cell in self.present)


@dataclass(frozen=True)
class Table:
    """One data set under one kind of noise, the best method first."""

    data: str
    noise: str
    clean_ratios: tuple[float, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """Data set and kind of noise."""
        return f"{self.data}, {self.noise} noise"

    @property
    def middle(self) -> int:
        """Place of the clean ratio nearest to 0.5."""
        ratios = self.clean_ratios
        return min(range(len(ratios)), key=lambda place: abs(ratios[place] - MIDDLE))


def in_order(results: Iterable[Result]) -> list[Result]:
    """Sort results as `tamis lab bench` lists its cells."""
    methods = [method.name for method in METHODS]
    return sorted(
        (run for run in results if run.method in methods),
        key=lambda run: (
            run.seed, [*PLACES].index(run.data), [*NOISES].index(run.noise), -run.clean_ratio,
            methods.index(run.method),
        ),
    )  # fmt: skip


def summarise(results: Iterable[Result]) -> list[Summary]:
    """Sum up each method in each cell over its seeds."""
    groups: dict[tuple[str, str, str, float, int], list[Result]] = {}
    for run in results:
        of = (run.method, run.data, run.noise, run.clean_ratio, run.slots)
        groups.setdefault(of, []).append(run)
    return [
        Summary(
            *of,
            len(runs),
            *Spread.of([run.accuracy for run in runs]),
            *Spread.of([run.accuracy_ema for run in runs]),
            *Spread.of([run.purity for run in runs]),
            *Spread.of([run.coverage for run in runs]),
            *Spread.of([run.milliseconds for run in runs]),
            mean(run.forward for run in runs),
            mean(run.backward for run in runs),
            max(run.models for run in runs),
            round(mean(run.state for run in runs)),
            SIDE_INFORMATION.get(of[0], ""),
            sum(run.lost > 0 for run in runs),
        )
        for of, runs in groups.items()
    ]


def as_tables(summaries: Iterable[Summary]) -> list[Table]:
    """Make a table of each data set under each kind of noise, in the order in which they come."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.data, summary.noise), []).append(summary)
    return [as_table(data, noise, cells) for (data, noise), cells in groups.items()]


def as_table(data: str, noise: str, summaries: Sequence[Summary]) -> Table:
    """Sort the methods, and mark what keeps up with the best without side information."""
    ratios = tuple(sorted({summary.clean_ratio for summary in summaries}, reverse=True))
    at = {(summary.method, summary.clean_ratio): summary for summary in summaries}
    best: dict[float, Summary] = {}
    for summary in summaries:
        rival = best.get(summary.clean_ratio)
        if summary.side_information:
            continue
        if rival is None or summary.better.mean > rival.better.mean:
            best[summary.clean_ratio] = summary
    rows = []
    for method in dict.fromkeys(summary.method for summary in summaries):
        cells = tuple(at.get((method, ratio)) for ratio in ratios)
        bold = tuple(
            cell is not None and ratio in best and cell.keeps_up_with(best[ratio])
            for cell, ratio in zip(cells, ratios, strict=True)
        )
        rows.append(Row(method, cells, bold))
    return Table(data, noise, ratios, tuple(sorted(rows, key=lambda row: row.rank)))


def write_summaries(path: Path, summaries: Iterable[Summary]) -> None:
    """Write one line a method and cell; what is not known stays empty."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(field.name for field in fields(Summary))
    for summary in summaries:
        writer.writerow(as_text(value) for value in astuple(summary))
    write_atomically(path, out.getvalue().encode())


def as_text(value: object) -> str:
    """Write a number with four places, and nothing for what is not a number."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4f}"
    return str(value)
