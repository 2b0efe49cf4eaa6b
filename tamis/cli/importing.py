"""tamis import."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console

from tamis.cli.watch import user
from tamis.errors import UsageError
from tamis.review.exchange import FORMATS, UnreadableFileError, guess_format, take_in

HELP = "Take decisions that were made in another tool into a run."
EXAMPLES = """examples:
  tamis import reviewed.csv --run tamis-run
  tamis import project-export.json --run tamis-run --author ann

They are added to RUN/decisions.jsonl; what is in force already is not added again."""


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    add = parser.add_argument
    add("file", type=Path, help="file, or FiftyOne's folder")
    add("--run", type=Path, required=True, dest="folder", help="folder of the run")
    add("--format", choices=FORMATS, help="what it is (default: by its ending)")
    add("--author", help="who decided, where the file does not say (default: your user name)")


def run(options: Namespace) -> int:
    """Add the decisions."""
    if not options.file.exists():
        raise UsageError(f"{options.file} is not there.")
    try:
        form = FORMATS[options.format or guess_format(options.file)]
        taken = take_in(options.folder, form.read(options.file), options.author or user())
    except UnreadableFileError as error:
        raise UsageError(str(error)) from None
    console = Console()
    console.print(f"{taken.new} decisions taken in, {taken.same} were in force already.")
    if taken.strange:
        console.print(f"Warning: {taken.strange} are about rows or classes that the run lacks.")
    return 0
