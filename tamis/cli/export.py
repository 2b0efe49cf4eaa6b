"""tamis export."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.errors import UsageError

HELP = "Write suspects and decisions of a run for a spreadsheet or another tool."
EXAMPLES = """examples:
  tamis export tamis-run --format csv
  tamis export tamis-run --format label-studio --which open --out tasks.json

FiftyOne gets a folder, Label Studio also the configuration of its project. tamis import reads all
of them back. No cell of a CSV is a formula."""
FORMATS = ("csv", "jsonl", "parquet", "label-studio", "fiftyone", "cleanlab")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run")
    add("--format", choices=FORMATS, default="csv", help="what to write (default csv)")
    add("--which", choices=("all", "open", "decided"), default="all", help="rows (default all)")
    add("--out", type=Path, help="file or folder (default review-FORMAT in the working folder)")


def run(options: Namespace) -> int:
    """Write the file."""
    from tamis.cli.console import plain_console
    from tamis.review import exchange

    form = exchange.FORMATS[options.format]
    out = options.out or Path(f"review-{options.format}{form.suffix}")
    reviewed, classes = exchange.read_run(options.run, options.which)
    if not reviewed:
        raise UsageError(f"{options.run} holds no suspects and no decisions to write.")
    form.write(reviewed, classes, out)
    plain_console().print(f"{len(reviewed)} rows: {out}")
    return 0
