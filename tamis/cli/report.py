"""tamis report."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.cli.next_steps import command, print_next
from tamis.errors import needs_extra

if TYPE_CHECKING:
    from tamis.runs import Run

HELP = "Write a page about a run: curves, alarms, labels that look wrong."
EXAMPLES = """examples:
  tamis report tamis-run
  tamis report tamis-run --out page.html --plots plots

The page is RUN/report.html, one file that opens without a network. --plots also writes every plot
as PNG, SVG and CSV."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument("run", type=Path, help="folder of a run, finished or not")
    parser.add_argument("--out", type=Path, help="file to write (default RUN/report.html)")
    parser.add_argument("--plots", type=Path, help="folder for the plots as PNG, SVG and CSV")
    parser.add_argument(
        "--suspects", type=int, default=48, help="number of suspects on the page (default 48)"
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
    options.results.update(page=page, **results_of(found))
    if text := found.metadata.clean_ratio_text:
        console.print(f"Estimated clean ratio: {text}.")
        console.print(f"About {found.metadata.wrong} of {found.metadata.scored} labels are wrong.")
    if options.plots:
        written = save_files(plots_of({found.name: found}), options.plots)
        options.results.update(plots=written)
        console.print(f"{len(written)} files of plots: {options.plots}")
    print_next(console, open=page, review_with=command("watch", options.run))
    return 0


def results_of(run: Run) -> dict[str, object]:
    """Return how a run stands, for --json."""
    about = run.metadata
    return {
        "run": run.folder,
        "state": run.state,
        "slots": len(run.history),
        "clean_ratio": about.clean_ratio,
        "clean_band": about.clean_band,
        "labels": about.scored,
        "wrong": about.wrong,
        "suspects": len(run.suspects),
        "decided": len(run.decisions.decided()),
        "alarms": [alarm.text for alarm in run.estimates.alarms],
    }
