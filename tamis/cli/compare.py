"""tamis compare."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.next_steps import print_next
from tamis.cli.report import results_of
from tamis.errors import needs_extra

HELP = "Compare runs on one page: numbers, curves, and settings that differ."
EXAMPLES = """example:
  tamis compare run-ogrs run-plausible --out compare.html"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--out", type=Path, default=Path("compare.html"), help="file (default compare.html)"
    )
    parser.add_argument("--plots", type=Path, help="folder for the plots as PNG, SVG and CSV")


def run(options: Namespace) -> int:
    """Write the page."""
    from tamis.cli.console import plain_console

    with needs_extra("demo"):
        from tamis.web.compare_page import name_apart, write_compare_page
        from tamis.web.run_plots import plots_of
        from tamis.web.svg import save_files
    console, runs = plain_console(), name_apart(options.runs)
    page = write_compare_page(runs, options.out)
    options.results.update(page=page, runs={name: results_of(run) for name, run in runs.items()})
    if options.plots:
        written = save_files(plots_of(runs), options.plots)
        console.print(f"{len(written)} files of plots: {options.plots}")
    print_next(console, open=page)
    return 0
