"""The board's folder: its numbers, a page that needs no network, a figure, and its Markdown."""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tamis.checkpoint import write_atomically
from tamis.lab.board import PATIENCE, Result
from tamis.lab.methods import METHODS, NOISES, PLACES, VARIANTS
from tamis.web.plots import save_png, to_svg

BASELINE = "naive"
MIDDLE = 0.5
"""The clean ratio at which purity, coverage and the figure are shown, or the one nearest to it."""
HEADING = "The board of "
BILL = ("forward", "backward", "ms a slot", "models", "state", "told")
TOLD = {method.name: method.told for method in (*METHODS, *VARIANTS)}
PAGES = {method.name: method.page for method in (*METHODS, *VARIANTS)}
LEGEND = (
    "A cell is accuracy on clean test data at a clean ratio, without / with averaged weights (EMA),"
    " and ± the standard deviation over seeds of the better one. Bold: at most two standard errors"
    " below the best method that was told nothing. Rows stand in the order of the better"
    " accuracy, mean over clean ratios.",
    "Forward and backward are rows passed through a model for every row trained on, models those"
    " beyond the one trained, state what is kept beyond model, optimiser and buffer. Told is what a"
    " method had to be told beyond the data, and was told rightly. Work beside passes shows in"
    " milliseconds alone; they are rough, since several runs share the machine. Lost"
    f" counts the runs in which a class was not picked for {PATIENCE} slots in a row.",
)
GREY, BLUE = "#7d8590", "#2f81f7"
SMALL: dict[str, Any] = {"color": GREY, "fontsize": 8}
NAMED = (BASELINE, "oracle")
"""Methods that a figure names wherever they stand."""


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
    told: str
    lost: int

    @property
    def better(self) -> Spread:
        """Accuracy with or without averaged weights, whichever is higher."""
        raw = Spread(self.accuracy_mean, self.accuracy_std)
        ema = Spread(self.accuracy_ema_mean, self.accuracy_ema_std)
        return ema if ema.mean > raw.mean else raw

    @property
    def error(self) -> float:
        """Standard error of that accuracy; 0 where one seed tells nothing about it."""
        std = self.better.std
        return 0.0 if math.isnan(std) else std / math.sqrt(self.runs)

    def keeps_up_with(self, best: Summary) -> bool:
        """Say whether this is not more than two standard errors of the best below it.

        Its own error does not count: else whatever swings from seed to seed would keep up.
        """
        return self.better.mean >= best.better.mean - 2 * best.error


@dataclass(frozen=True)
class Row:
    """One method in one table: a cell for each clean ratio, None where no run has ended."""

    method: str
    cells: tuple[Summary | None, ...]
    bold: tuple[bool, ...]

    @property
    def there(self) -> list[Summary]:
        """Return the cells with a result."""
        return [cell for cell in self.cells if cell]

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sort by mean accuracy, highest first; a mean over fewer cells compares with none."""
        accuracy = mean(cell.better.mean for cell in self.there)
        return self.cells.count(None), -accuracy, self.method

    @property
    def told(self) -> str:
        """What the method was told beyond the data."""
        return self.there[0].told or "nothing"

    @property
    def bill(self) -> tuple[float, float, float, int, int]:
        """Forward, backward, milliseconds, models, state: means over the cells."""
        cells = self.there
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
        return sum(cell.lost for cell in self.there)

    @property
    def runs(self) -> int:
        """Runs that have ended."""
        return sum(cell.runs for cell in self.there)


@dataclass(frozen=True)
class Table:
    """One data set under one kind of noise, the best method first."""

    data: str
    noise: str
    clean_ratios: tuple[float, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """Name the table."""
        return f"{self.data}, {self.noise} noise"

    @property
    def middle(self) -> int:
        """Place of the clean ratio nearest to 0.5."""
        ratios = self.clean_ratios
        return min(range(len(ratios)), key=lambda place: abs(ratios[place] - MIDDLE))


def write_board(results: Sequence[Result], folder: Path, page: Path | None = None) -> None:
    """Write board.csv, board.html and board.png, and the board's part of a Markdown page."""
    summaries = summarise(results)
    tables = as_tables(summaries)
    write_summaries(folder / "board.csv", summaries)
    figure = draw_cost(tables)
    save_png(figure, folder / "board.png")
    write_atomically(folder / "board.html", to_html(tables, about(results), figure).encode())
    if page:
        board = to_markdown(tables, about(results), page)
        write_atomically(page, put_between(read_page(page), board).encode())


def rebuild_board(results: Sequence[Result], folder: Path, page: Path) -> None:
    """Write numbers, figure and page again from the results that are kept; runs keep their day."""
    tables = as_tables(summarise(results))
    write_summaries(folder / "board.csv", summarise(results))
    save_png(draw_cost(tables), folder / "board.png")
    text = read_page(page)
    day = re.search(f"## ({HEADING}.*)", text)
    board = to_markdown(tables, about(results), page, day[1] if day else heading())
    write_atomically(page, put_between(text, board).encode())


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
            TOLD.get(of[0], ""),
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
    """Sort the methods, and mark what keeps up with the best that was told nothing."""
    ratios = tuple(sorted({summary.clean_ratio for summary in summaries}, reverse=True))
    at = {(summary.method, summary.clean_ratio): summary for summary in summaries}
    best: dict[float, Summary] = {}
    for summary in summaries:
        rival = best.get(summary.clean_ratio)
        if not summary.told and (rival is None or summary.better.mean > rival.better.mean):
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


def heading() -> str:
    """Name the board by its day."""
    return f"{HEADING}{date.today().isoformat()}"


def about(results: Sequence[Result]) -> str:
    """Say on what and with which settings the board was made."""
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
    """Say what all methods share on a data set."""
    place = PLACES[name]
    counts = ", ".join(f"{count:,}" for count in sorted(slots))
    held = "all rows" if place.held is None else f"at most {place.held:,} rows"
    arrive = "arriving over all slots" if place.once else "held from the first slot on"
    arrive += f", the newest {place.kept:,} kept" if place.kept else ""
    if place.drifts_from is not None:
        arrive += f", clean ratio {place.drifts_from} and that of the cell by turns, twice each"
    augment = f", {place.augment}" if place.augment else ""
    return (
        f"{counts} slots of {place.k} picks, {held} {arrive}, at most {place.warm_up} slots of "
        f"warm-up, {place.model.__name__} at rate {place.rate}, decay {place.decay}{augment}"
    )


def machines(results: Sequence[Result]) -> str:
    """Name what the runs were made on, and how many on each where there are several."""
    counts = Counter(run.machine for run in results)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{name} ({count:,} runs)" for name, count in counts.most_common())


def whole_board(tables: Sequence[Table]) -> str:
    """Say who beats naive training nowhere."""
    methods = {row.method for table in tables for row in table.rows}
    if BASELINE not in methods:
        return f"Without {BASELINE} on the board there is nothing to beat."
    losers = methods - {BASELINE}.union(*(beat_naive(table) for table in tables))
    if not losers:
        return f"Every method beats {BASELINE} in at least one cell of the whole board."
    return f"These beat {BASELINE} in no cell of the whole board: {names(losers)}."


def beat_naive(table: Table) -> set[str]:
    """Name the methods whose accuracy is above that of naive training at some clean ratio."""
    naive = next((row.cells for row in table.rows if row.method == BASELINE), ())
    return {
        row.method
        for row in table.rows
        for cell, base in zip(row.cells, naive, strict=False)
        if cell and base and cell.better.mean > base.better.mean
    }


def findings(table: Table) -> list[str]:
    """Say in plain sentences who dropped a class, who never beats naive, and what is missing."""
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


def to_markdown(
    tables: Sequence[Table], settings: str, page: Path, title: str | None = None
) -> str:
    """Write the board as a section of a Markdown page."""
    lines = [f"## {title or heading()}", "", settings, "", *(f"{text}\n" for text in LEGEND)]
    lines += [escape(whole_board(tables)), ""]
    for table in tables:
        lines += [f"### {escape(table.title)}", "", *markdown_rows(table, page), ""]
        lines += [escape(" ".join(findings(table))), ""]
    return "\n".join(lines).rstrip()


def markdown_rows(table: Table, page: Path) -> list[str]:
    """Write a table: accuracy, right beside it the bill, then what was picked."""
    at = f"at {table.clean_ratios[table.middle]:g}"
    ratios = [f"{ratio:g}" for ratio in table.clean_ratios]
    heads = ["method", *ratios, *BILL, f"purity {at}", f"coverage {at}", "lost"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for row in table.rows:
        accuracy = [
            f"**{as_cell(cell)}**" if bold else as_cell(cell)
            for cell, bold in zip(row.cells, row.bold, strict=True)
        ]
        forward, backward, milliseconds, models, state = row.bill
        middle = row.cells[table.middle]
        lines.append(
            [
                linked(row.method, page),
                *accuracy,
                *(f"{forward:.1f}", f"{backward:.1f}", f"{milliseconds:.1f}", str(models)),
                *(as_bytes(state), escape(row.told)),
                *(share(middle.purity_mean if middle else math.nan),),
                *(share(middle.coverage_mean if middle else math.nan),),
                f"{row.lost}/{row.runs}",
            ]
        )
    return [f"| {' | '.join(line)} |" for line in lines]


def as_cell(cell: Summary | None) -> str:
    """Write accuracy without and with averaged weights, and the deviation of the better one."""
    if cell is None:
        return share(math.nan)
    pair = f"{share(cell.accuracy_mean)} / {share(cell.accuracy_ema_mean)}"
    std = cell.better.std
    return pair if math.isnan(std) else f"{pair} ±{share(std)}"


def share(value: float) -> str:
    """Write a share with three places, as short as it goes."""
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def as_bytes(count: int) -> str:
    """Write a number of bytes so that it can be read."""
    if count < 1000:
        return str(count) if not count else f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def linked(method: str, page: Path, name: str | None = None) -> str:
    """Link a method to its page, where the folder that the board's page lies in has one."""
    here = page.resolve()
    for folder in here.parents:
        target = folder / "docs" / "methods" / f"{name or PAGES.get(method, '')}.md"
        if target.exists():
            way = Path(os.path.relpath(target, here.parent)).as_posix()
            return f"[{escape(method)}]({way})"
    return escape(method)


def escape(text: str) -> str:
    """Keep Markdown from reading text as anything but text."""
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", " ".join(text.split()))


def read_page(page: Path, part: str = "board") -> str:
    """Return the page as it is, or one with nothing but the two marks of a part."""
    new = f"# The {part}\n\n<!-- {part} -->\n<!-- /{part} -->\n"
    return page.read_bytes().decode() if page.exists() else new


def put_between(page: str, text: str, part: str = "board") -> str:
    """Put a part between its two marks on a page, and leave the rest alone.

    >>> put_between("a <!-- board -->old<!-- /board --> b", "new")
    'a <!-- board -->\\nnew\\n<!-- /board --> b'
    """
    first, last = f"<!-- {part} -->", f"<!-- /{part} -->"
    before, _, rest = page.partition(first)
    _, closed, after = rest.partition(last)
    if not closed or page.count(first) != 1:
        raise ValueError(f"a {part} goes between {first} and, below it, {last}: each once")
    return f"{before}{first}\n{text}\n{last}{after}"


def to_html(tables: Sequence[Table], settings: str, figure: Figure) -> str:
    """Write the board as one page that loads nothing; a picture in it cannot run a script."""
    environment = Environment(
        loader=PackageLoader("tamis.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"share": share, "as_bytes": as_bytes}
    return environment.get_template("board.html").render(
        tables=tables,
        heading=heading(),
        settings=settings,
        legend=LEGEND,
        whole_board=whole_board(tables),
        findings=findings,
        figure=base64.b64encode(to_svg(figure).encode()).decode(),
    )


def draw_cost(tables: Sequence[Table]) -> Figure:
    """Accuracy against forward passes, a dot a method, at a clean ratio of 0.5."""
    columns = min(2, len(tables))
    lines = -(-len(tables) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.2 * lines), layout="constrained", facecolor="none")
    places = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, table in zip(places, tables, strict=False):
        draw_table(axes, table)
    for axes in places[len(tables) :]:
        axes.set_axis_off()
    return figure


def draw_table(axes: Axes, table: Table) -> None:
    """Draw one table, with names at those told nothing that beat all cheaper ones told nothing."""
    middle = (row.cells[table.middle] for row in table.rows)
    best = -math.inf
    for cell in sorted(filter(None, middle), key=lambda cell: (cell.forward, -cell.better.mean)):
        at = cell.forward, cell.better.mean
        fill = "none" if cell.told else "full"
        axes.plot(*at, "o", color=BLUE, fillstyle=fill, markersize=5)
        leads = not cell.told and at[1] > best
        if leads or cell.method in NAMED:
            axes.annotate(
                cell.method, at, (6, 2), textcoords="offset points", parse_math=False, **SMALL
            )
        best = at[1] if leads else best
    ratio = f"clean ratio {table.clean_ratios[table.middle]:g}"
    axes.set_title(f"{table.title}, {ratio}", parse_math=False, color=GREY, fontsize=10)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("rows passed forward for every row trained on", **SMALL)
    axes.set_ylabel("accuracy (hollow: was told something)", **SMALL)
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=GREY, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
