"""The board's folder: its numbers, a page that needs no network, a figure, and its Markdown."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from tamis.checkpoint import write_atomically
from tamis.lab.board import PATIENCE, Result
from tamis.lab.pages.board_findings import about, all_tables, findings
from tamis.lab.pages.board_plot import draw_cost
from tamis.lab.pages.board_tables import Summary, Table, as_tables, summarise, write_summaries
from tamis.lab.pages.markdown import as_bytes, escape, linked, put_between, read_page, share
from tamis.web.svg import save_png, to_svg

HEADING = "The board of "
COSTS = ("forward", "backward", "ms a slot", "models", "state")
LEGEND = (
    "A cell is accuracy on clean test data at a clean ratio, without / with averaged weights (EMA),"
    " and ± the standard deviation over seeds of the better one. Bold is at most two standard"
    " errors below the best method without side information. Rows are ordered by the better"
    " accuracy, averaged over clean ratios.",
    "Side information is what a method needs beyond the data; here it is correct. Lost counts the"
    f" runs in which a class was not picked for {PATIENCE} slots in a row.",
    "Forward and backward are rows passed through a model for every row trained on. Models are"
    " those beyond the one trained. State is what is kept beyond model, optimiser and buffer."
    " Milliseconds are rough, since several runs share the machine.",
)


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


def heading() -> str:
    """Return the title of a board made today."""
    return f"{HEADING}{date.today().isoformat()}"


def to_markdown(
    tables: Sequence[Table], settings: str, page: Path, title: str | None = None
) -> str:
    """Write the board as a section of a Markdown page."""
    lines = [f"## {title or heading()}", "", settings, "", *(f"{text}\n" for text in LEGEND)]
    lines += [escape(all_tables(tables)), ""]
    for table in tables:
        lines += [f"### {escape(table.title)}", "", *markdown_rows(table, page), ""]
        lines += [escape(" ".join(findings(table))), ""]
    return "\n".join(lines).rstrip()


def markdown_rows(table: Table, page: Path) -> list[str]:
    """Write a table of accuracies, and one of costs and picks that unfolds below it."""
    ratios = [f"{ratio:g}" for ratio in table.clean_ratios]
    at = f"at {table.clean_ratios[table.middle]:g}"
    first = [["method", *ratios, "side information", "lost"]]
    second = [["method", *COSTS, f"purity {at}", f"coverage {at}"]]
    for row in table.rows:
        name = linked(row.method, page)
        accuracy = [
            f"**{as_cell(cell)}**" if bold else as_cell(cell)
            for cell, bold in zip(row.cells, row.bold, strict=True)
        ]
        first.append([name, *accuracy, escape(row.side_information), f"{row.lost}/{row.runs}"])
        forward, backward, milliseconds, models, state = row.bill
        middle = row.cells[table.middle]
        costs = [f"{forward:.1f}", f"{backward:.1f}", f"{milliseconds:.1f}", str(models)]
        picked = (middle.purity_mean, middle.coverage_mean) if middle else (math.nan, math.nan)
        second.append([name, *costs, as_bytes(state), *map(share, picked)])
    fold = ["", "<details><summary>What it costs, and what is picked</summary>", ""]
    return [*as_lines(first), *fold, *as_lines(second), "", "</details>"]


def as_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows as a Markdown table, numbers to the right; the first is its head."""
    head, *others = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *others]
    return [f"| {' | '.join(line)} |" for line in lines]


def as_cell(cell: Summary | None) -> str:
    """Write accuracy without and with averaged weights, and the deviation of the better one."""
    if cell is None:
        return share(math.nan)
    pair = f"{share(cell.accuracy_mean)} / {share(cell.accuracy_ema_mean)}"
    std = cell.better.std
    return pair if math.isnan(std) else f"{pair} ±{share(std)}"


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
        all_tables=all_tables(tables),
        findings=findings,
        figure=base64.b64encode(to_svg(figure).encode()).decode(),
    )
