"""tamis report."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.errors import needs_extra

HELP = "Make one page about a run: curves, alarms, labels that look wrong. It needs no network."
EXAMPLES = """examples:
  tamis report tamis-run
  tamis report tamis-run --out page.html --plots plots

The page is RUN/report.html, one file. --plots writes every plot as PNG, SVG and CSV as well."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument("run", type=Path, help="folder of a run, finished or not")
    parser.add_argument("--out", type=Path, help="file to write (default RUN/report.html)")
    parser.add_argument("--plots", type=Path, help="folder for the plots as PNG, SVG and CSV")
    parser.add_argument(
        "--suspects", type=int, default=48, help="suspects on the page (default 48)"
    )


def run(options: Namespace) -> int:
    """Write the page."""
    from tamis.cli.console import plain_console

    with needs_extra("demo"):
        from tamis.runs import Run
        from tamis.web.run_page import write_run_page
        from tamis.web.run_plots import plots_of
        from tamis.web.svg import save_files
    console, found = plain_console(), Run(options.run)
    page = write_run_page(found, options.out, max(0, options.suspects))
    console.print(f"Page: {page}")
    if options.plots:
        written = save_files(plots_of({found.name: found}), options.plots)
        console.print(f"{len(written)} files of plots: {options.plots}")
    return 0
