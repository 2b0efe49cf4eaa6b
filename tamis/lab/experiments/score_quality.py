"""Measurements of how well scores are calibrated: CSV files that grow, a plot, tables of means."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tamis.checkpoint import write_atomically
from tamis.errors import UsageError
from tamis.lab import rows as records
from tamis.lab.noise_kinds import SCATTERED
from tamis.lab.pages.markdown import put_between, read_page
from tamis.lab.pages.scores_page import draw_reliability, page_of
from tamis.lab.scene import PLACES
from tamis.lab.score_quality import Bin, Cell, Measured, run_cell
from tamis.lab.table_sets import TABLES
from tamis.lab.tables import NOISES as TABLE_NOISES
from tamis.monitoring.progress import Bar
from tamis.web.svg import draw_svg

BOARD = ("digits", "mnist")
SMALL_TABLES = ("iris", "wine", "breast cancer", "phishing", "made 600", "made 2,500")
RATIOS, TABLE_RATIOS = (0.9, 0.7, 0.5, 0.3), (0.8, 0.6)
PART = "scores"


def run(options: Namespace) -> int:
    """Run the cells that are missing, draw them, print the means, and write them into a page."""
    chosen = options.cells or (*BOARD, *SMALL_TABLES)
    for name in chosen:
        if name not in PLACES and name not in TABLES:
            raise UsageError(f"no data {name!r}: name some of {', '.join((*PLACES, *TABLES))}.")
    console, folder = Console(), options.calibration
    folder.mkdir(parents=True, exist_ok=True)
    file, bins = folder / "calibration.csv", folder / "reliability.csv"
    known = {records.key(line, Cell) for line in records.read(file, Measured)}
    cells = wanted(chosen, range(options.first_seed, options.first_seed + options.seeds))
    cells = [cell for cell in cells if records.key(cell, Cell) not in known]
    with Bar("scores", len(cells), console) as bar:
        for cell in cells:
            measured, parts = run_cell(cell, options.data_folder)
            records.append(bins, parts)
            records.append(file, measured)
            bar.advance(cell.data)
    text = page_of(records.read(file, Measured), BOARD)
    console.print(text, soft_wrap=True, highlight=False)
    figure = draw_reliability(records.read(bins, Bin), BOARD)
    write_atomically(folder / "calibration.svg", draw_svg(figure, PART).encode())
    if options.page:
        write_page(options.page, text)
    return 0


def write_page(path: Path, text: str) -> None:
    """Write the tables between the marks of a page."""
    try:
        page = put_between(read_page(path, PART), text, PART)
    except ValueError as error:
        raise UsageError(f"--page {path}: {error}.") from None
    write_atomically(path, page.encode())


def wanted(data: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """List the cells: seeds outermost, so that all fill evenly."""
    return [
        Cell(name, noise, ratio, seed)
        for seed in seeds
        for name in data
        for noise in (SCATTERED if name in PLACES else TABLE_NOISES)
        for ratio in (RATIOS if name in PLACES else TABLE_RATIOS)
    ]
