"""tamis audit."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.cli.next_steps import command, print_next
from tamis.cli.watch import user
from tamis.errors import UsageError

if TYPE_CHECKING:
    from tamis.runs import Run

HELP = "Measure how many labels are right: print a random sample, or add answers."
EXAMPLES = """examples:
  tamis audit tamis-run > sample.csv
  tamis audit tamis-run --answers sample.csv

The sample is 100 rows drawn at random, so that decisions about them measure how many of all labels
are right. It is printed as CSV with the columns id, given and label. Write the right class into the
column label: the given one keeps the label, another one corrects it, an empty cell is no answer.
The page of tamis watch lists the same rows under Audit."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run, finished or not")
    add("--answers", type=Path, help="CSV with columns id and label, added as decisions")
    add("--author", help="who answered (default: your user name)")


def run(options: Namespace) -> int:
    """Print the sample, or add answers and print what follows from them."""
    from tamis.runs import Run

    found = Run(options.run)
    if not len(found.audit):
        raise UsageError(
            f"{options.run} has no audit sample: it is drawn once 500 rows are held, or at the end."
        )
    if options.answers:
        return add_answers(options, found)
    import csv

    from tamis.runs.spreadsheet import disarm

    rows = []
    for row in found.audit:
        made = found.decisions.of(row.id)
        label = row.given if made and made.decision == "keep" else made.label if made else None
        rows.append((row.id, row.given, label or ""))
    names = ("id", "given", "label")
    options.results.update(
        run=options.run, sample=[dict(zip(names, row, strict=True)) for row in rows]
    )
    if options.json:
        return 0
    writer = csv.writer(options.results.file, lineterminator="\n")
    writer.writerows([names, *(map(disarm, row) for row in rows)])
    if not options.quiet:
        then = command("audit", options.run, "--answers", "FILE")
        print(f"Fill in the column label, then run: {then}", file=sys.stderr)
    return 0


def add_answers(options: Namespace, found: Run) -> int:
    """Add the answers of a file to the decisions of a run, and print what all of them show."""
    from tamis.cli.console import plain_console
    from tamis.review.exchange import import_decisions
    from tamis.review.exchange.rows import from_cells
    from tamis.review.exchange.tables import read_cells

    if not options.answers.exists():
        raise UsageError(f"{options.answers} does not exist.")
    answered = [cells for cells in read_cells(options.answers) if cells.get("label")]
    drawn = [(row, cells["label"]) for cells in answered if (row := found.audit.get(cells["id"]))]
    rows = [from_cells({"id": row.id, "given": row.given, "label": label}) for row, label in drawn]
    result = import_decisions(options.run, rows, options.author or user())
    console = plain_console()
    console.print(f"{result.added} decisions added, {result.unchanged} had been made before.")
    if unknown := result.unknown + len(answered) - len(drawn):
        console.print(f"Warning: {unknown} answers name a row outside the sample, or no class.")
    found.refresh()
    tally = found.audit.tally(found.decisions)
    console.print(f"{tally.audited} of {tally.rows} audited. {tally.text}", soft_wrap=True)
    options.results.update(
        run=options.run, added=result.added, audited=tally.audited, rows=tally.rows, text=tally.text
    )
    print_next(console, report_with=command("report", options.run))
    return 0
