"""tamis annotators."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Combine the labels of several annotators, and rate each annotator."
EXAMPLES = """examples:
  tamis annotators labels.csv
  tamis annotators labels.parquet --row task --annotator worker --label answer --out joint.csv

The file has one line per label, in the order given: row, annotator, label. No features are needed.
The output has one label per row, with its probability and the number of labels behind it. A second
file has one line per annotator. The command prints the annotators, worst first: labels given,
estimated accuracy, the classes confused most, and since when the labels have gone bad, if so."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("file", type=Path, help="CSV, TSV, Parquet or JSON lines, one line per label")
    add("--row", help="column of rows (default task, row, item, id or a similar name)")
    add("--annotator", help="column of annotators (default worker, annotator, user or similar)")
    add("--label", help="column of labels (default label, answer or similar)")
    add("--truth", help="column of true classes, only to measure accuracy")
    add("--out", type=Path, help="CSV, JSON lines or Parquet (default FILE-joint.csv, here)")


def run(options: Namespace) -> int:
    """Write one label for each row, and print how good the annotators are."""
    from tamis.cli.annotator_table import combine_labels

    return combine_labels(options)
