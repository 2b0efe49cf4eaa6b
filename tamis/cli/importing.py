"""tamis import."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.export import FORMATS
from tamis.cli.next_steps import command, print_next
from tamis.cli.watch import user
from tamis.errors import UsageError

HELP = "Add decisions made in another tool to a run."
EXAMPLES = """examples:
  tamis import reviewed.csv --run tamis-run
  tamis import project-export.json --run tamis-run --author ann

Decisions are appended to RUN/decisions.jsonl. One that had been made before is not repeated."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("file", type=Path, help="file, or FiftyOne's folder")
    add("--run", type=Path, required=True, dest="folder", help="folder of the run")
    add("--format", choices=FORMATS, help="format of the file (default: by its ending)")
    add("--author", help="who decided, where the file has no author (default: your user name)")


def run(options: Namespace) -> int:
    """Append the decisions."""
    from tamis.cli.console import plain_console
    from tamis.review import exchange

    if not options.file.exists():
        raise UsageError(f"{options.file} does not exist.")
    form = exchange.FORMATS[options.format or exchange.guess_format(options.file)]
    result = exchange.import_decisions(
        options.folder, form.read(options.file), options.author or user()
    )
    console = plain_console()
    console.print(f"{result.added} decisions added, {result.unchanged} had been made before.")
    if result.unknown:
        console.print(f"Warning: {result.unknown} name a row or a class that the run lacks.")
    options.results.update(
        run=options.folder, added=result.added, unchanged=result.unchanged, unknown=result.unknown
    )
    print_next(
        console,
        correct_the_table_with=command("export", options.folder, "--format", "corrected"),
        review_with=command("watch", options.folder),
    )
    return 0
