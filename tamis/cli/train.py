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

HELP = "Train on a table of your own whose labels may be wrong, and list those that look wrong."
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

A factory, as mynet:build, is called with the shape of one input and the number of classes.
Written to the folder: log.jsonl, model.safetensors, suspects.csv, rejects.jsonl if any,
checkpoints, and what tamis report, watch, compare and export read. While it trains, tamis watch
shows it, and decisions made there are trained on at once. Ctrl-C and SIGTERM stop early and still
save; --resume continues exactly where the last checkpoint was, also after a crash."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("file", type=Path, help="table, folder of pictures, or data set of Hugging Face")
    add("--label", help="name of the label column (default: what the data declares)")
    add("--id", help="column that identifies the rows, unique (default: number from 0)")
    add("--annotator", help="column that names who gave the label: one line for each label of --id")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    add_kind_option(parser)
    add("--text", metavar="COLUMN", help="learn from this text, and no other column")
    add("--encoder", metavar="NAME", help="with --text: encode it by a model of Hugging Face")
    add("--size", type=positive, metavar="PIXELS", help="side of pictures (default: 64 or less)")
    add("--dry-run", action="store_true", help="print the columns and their kinds, and stop")
    add("--test", type=Path, help="data of the same form with right labels, to test on")
    add("--rows-per-slot", type=positive, help="rows that arrive a slot (default: by the size)")
    add("--slots", type=positive, help="slots in all (default: by the size of the table)")
    add("--on-bad", choices=ON_BAD, default="skip", help="bad rows (default skip)")
    add_training_options(parser)
    add_worker_options(parser)


def run(options: Namespace) -> int:
    """Train on the file, then write the model, the log and the suspects."""
    from tamis.cli.table_crew import table_in_crew
    from tamis.cli.train_table import train_table
    from tamis.cli.workers import train_on_workers

    return train_on_workers(options, train_table, table_in_crew)
