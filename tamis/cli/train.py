"""tamis train."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.options import (
    ON_BAD,
    add_kind_option,
    add_training_options,
    add_worker_options,
    positive,
)

HELP = "Train on a table whose labels may be wrong, and list those that look wrong."
EXAMPLES = """examples:
  tamis train clicks.csv --label clicked --id click
  tamis train photos/ --out photo-run
  tamis train mails.csv --label spam --text body
  tamis train hf:imdb --text text
  tamis train images.npz --label y --model resnet18 --selector ITLM --set keep=0.8
  tamis train rows.parquet --label kind --model mynet:build --on-bad quarantine
  tamis train clicks.csv --label clicked --corrections old-run/decisions.jsonl --out new-run
  tamis train clicks.csv --label clicked --log tensorboard
  tamis train clicks.csv --label clicked --workers 2
  tamis train clicks.csv --label clicked --kind zip=category note=text --dry-run
  tamis train --config tamis-run/run.toml --seed 1 --out second-run

A factory such as mynet:build is called with the shape of one input and the number of classes.

The folder of the run gets model.safetensors, suspects.csv, log.jsonl, checkpoints, rejects.jsonl
if rows were rejected, and what tamis report, watch, compare and export read. tamis watch displays
a run while it trains, and decisions made there are trained on at once. Ctrl-C and SIGTERM stop
early and save. --resume continues exactly where the last checkpoint was, even after a crash."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    group = parser.add_argument_group("data")
    add = group.add_argument
    parser.add_argument("file", type=Path, help="table, folder of pictures, or hf: data set")
    add("--label", help="label column (default: what the data declares)")
    add("--id", help="column that identifies rows, unique (default: row numbers from 0)")
    add("--annotator", help="column of annotators; the table then has one line per label")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    add_kind_option(group)
    add("--text", metavar="COLUMN", help="use this column of text as the only input")
    add("--encoder", metavar="NAME", help="with --text: encode it by a Hugging Face model")
    add("--size", type=positive, metavar="PIXELS", help="side of pictures (default: up to 64)")
    add("--dry-run", action="store_true", help="print the columns and their kinds, and stop")
    add("--test", type=Path, help="table with right labels to test on, never trained on")
    add("--rows-per-slot", type=positive, help="rows that arrive per slot (default: by the size)")
    add("--slots", type=positive, help="number of slots (default: by the size)")
    add("--on-bad", choices=ON_BAD, default="skip", help="what to do with bad rows (default skip)")
    add_training_options(parser)
    add_worker_options(parser)


def run(options: Namespace) -> int:
    """Train on the file, then write the model, the log and the suspects."""
    from tamis.cli.table_crew import table_in_crew
    from tamis.cli.train_table import train_table
    from tamis.cli.workers import train_on_workers

    return train_on_workers(options, train_table, table_in_crew)
