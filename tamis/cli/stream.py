"""tamis stream."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from tamis.cli.options import (
    POLICIES,
    add_kind_option,
    add_training_options,
    add_worker_options,
    positive,
)

HELP = "Train on a stream that goes on: files that grow, Redis, NATS or Kafka."
EXAMPLES = """examples:
  tamis stream 'logs/*.jsonl' --follow --inputs width height --label kind --classes ant bee
  tamis stream 'redis://localhost:6379/0?stream=rows&group=g' --inputs x --label y --classes 0 1
  tamis stream 'kafka://localhost:9092/rows?group=g' --rows mine:to_row --classes ant bee
  tamis stream 'logs/*.jsonl' --inputs x --label y --classes 0 1 --log mlflow
  tamis stream 'logs/*.jsonl' --label kind --max-classes 20
  tamis stream --config tamis-run/run.toml --resume
  tamis stream 'logs/*.jsonl' --inputs x --label y --classes 0 1 --workers 2

Without --classes, the labels of the first records are the classes, and a label that comes up later
is a new one, up to --max-classes. An alarm names it, and one names a class that is gone for long.

A record without a label waits for it: a later record of the same --id that has the label and none
of the inputs is the label; another such record changes it, one with an empty label withdraws it.

State and position are saved together, and only then is a broker's message acknowledged: after a
crash, --resume continues with nothing lost and nothing twice. Ctrl-C and SIGTERM save and stop.
Written to the folder: log.jsonl, rejects.jsonl if any, checkpoints, what tamis report, watch,
compare and export read, and at the end model.safetensors and suspects.csv, the latter from the rows
that are still held. Decisions made in tamis watch are trained on at once."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("address", help="path, pattern, or redis://, nats://, kafka:// (docs/sources.md)")
    add("--inputs", nargs="+", metavar="COLUMN", help="columns to learn from (default: all)")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    add_kind_option(parser)
    add("--label", help="name of the label column")
    add("--id", help="column that identifies the records (default: their number)")
    add("--annotator", help="column that names who gave the label: all labels of a row make one")
    add("--time", help="column of times: seconds since 1970, or ISO 8601")
    add("--rows", metavar="MODULE:FUNCTION", help="instead of columns: from record to input, label")
    add("--classes", nargs="+", help="labels by name (default: those of the first records)")
    add(
        "--max-classes",
        type=positive,
        help="take other labels for new classes, up to so many in all (default: none if --classes"
        " are named, else 100)",
    )
    add("--follow", action="store_true", help="wait for files to grow, and for new ones")
    add("--skip-lost", action="store_true", help="go past what cannot be read again")
    add("--patience", type=float, help="seconds without a record after which to end")
    add(
        "--linger",
        type=float,
        default=0.1,
        help="seconds that a broker's record waits for a full slot, or inf (default 0.1)",
    )
    add("--rows-per-slot", type=positive, default=10, help="records read at once (default 10)")
    add("--slots", type=positive, help="slots after which to end (default: none)")
    add(
        "--scale-rows",
        type=positive,
        default=200,
        help="first rows, to learn columns and scale (default 200)",
    )
    add(
        "--wait-rows",
        type=positive,
        default=10_000,
        help="rows without a label, and labels without a row, that wait (default 10,000)",
    )
    add("--wait-seconds", type=float, help="time, by --time, that they wait (default: no limit)")
    add("--queue", type=positive, default=10_000, help="records read ahead (default 10,000)")
    add(
        "--policy",
        choices=POLICIES,
        default="block",
        help="where training is slower than the stream (default block)",
    )
    add("--most-bad", type=float, default=0.5, help="share of bad records to stop at (default 0.5)")
    add_training_options(parser)
    add_worker_options(parser)


def run(options: Namespace) -> int:
    """Train until the stream, the slots or the patience ends."""
    from tamis.cli.stream_crew import stream_in_crew
    from tamis.cli.train_stream import train_stream
    from tamis.cli.workers import train_on_workers

    return train_on_workers(options, train_stream, stream_in_crew)
