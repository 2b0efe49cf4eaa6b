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

HELP = "Train on an endless stream: growing files, Redis, NATS or Kafka."
EXAMPLES = """examples:
  tamis stream 'logs/*.jsonl' --follow --inputs width height --label kind --classes ant bee
  tamis stream 'redis://localhost:6379/0?stream=rows&group=g' --inputs x --label y --classes 0 1
  tamis stream 'kafka://localhost:9092/rows?group=g' --rows mine:to_row --classes ant bee
  tamis stream 'logs/*.jsonl' --inputs x --label y --classes 0 1 --log mlflow
  tamis stream 'logs/*.jsonl' --label kind --max-classes 20
  tamis stream --config tamis-run/run.toml --resume
  tamis stream 'logs/*.jsonl' --inputs x --label y --classes 0 1 --workers 2

Without --classes, the labels of the first records are the classes. A label that appears later is a
new class, up to --max-classes. Alarms name new classes, and classes that have long been absent.

A record without a label waits for it. A later record with the same --id, the label and no inputs
is that label. Another such record changes the label; one with an empty label withdraws it.

State and position are saved together, and broker messages are acknowledged only after that. After
a crash, --resume continues: no record is lost, none is counted twice. Ctrl-C and SIGTERM save and
stop. The folder of the run gets log.jsonl, checkpoints, rejects.jsonl if records were rejected,
what tamis report, watch, compare and export read, and at the end model.safetensors and
suspects.csv, which covers the rows still held. Decisions made in tamis watch are trained on at
once."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument("address", help="path, pattern, or redis://, nats://, kafka:// address")
    add_record_options(parser)
    add = parser.add_argument_group("stream").add_argument
    add("--follow", action="store_true", help="wait for files to grow, and for new files")
    add("--skip-lost", action="store_true", help="continue past records that can no longer be read")
    add("--patience", type=float, help="end after so many seconds without a record")
    add(
        "--linger",
        type=float,
        default=0.1,
        help="seconds that a broker's record waits for a full slot, or inf (default 0.1)",
    )
    add("--rows-per-slot", type=positive, default=10, help="records per slot (default 10)")
    add("--slots", type=positive, help="end after so many slots (default: no limit)")
    add(
        "--scale-rows",
        type=positive,
        default=200,
        help="first records, from which columns and scales are learned (default 200)",
    )
    add(
        "--wait-rows",
        type=positive,
        default=10_000,
        help="most rows that wait for a label, and labels for a row (default 10,000)",
    )
    add("--wait-seconds", type=float, help="how long they wait, by --time (default: no limit)")
    add("--queue", type=positive, default=10_000, help="records read ahead (default 10,000)")
    add(
        "--policy",
        choices=POLICIES,
        default="block",
        help="what to do when the stream is faster than training (default block)",
    )
    add("--most-bad", type=float, default=0.5, help="share of bad records to stop at (default 0.5)")
    add_training_options(parser)
    add_worker_options(parser)


def add_record_options(parser: ArgumentParser) -> None:
    """Add the options about what a record holds."""
    group = parser.add_argument_group("records")
    add = group.add_argument
    add("--inputs", nargs="+", metavar="COLUMN", help="columns to learn from (default: all)")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    add_kind_option(group)
    add("--label", help="label column")
    add("--id", help="column that identifies records (default: their number)")
    add("--annotator", help="column of annotators, whose labels of a row are joined into one")
    add("--time", help="column of times: seconds since 1970, or ISO 8601")
    add("--rows", metavar="MODULE:FUNCTION", help="function from a record to its input and label")
    add("--classes", nargs="+", help="class names (default: the labels of the first records)")
    add(
        "--max-classes",
        type=positive,
        help="accept new classes, up to so many in all (default: none with --classes, else 100)",
    )


def run(options: Namespace) -> int:
    """Train until the stream, the slots or the patience ends."""
    from tamis.cli.stream_crew import stream_in_crew
    from tamis.cli.train_stream import train_stream
    from tamis.cli.workers import train_on_workers

    return train_on_workers(options, train_stream, stream_in_crew)
