"""tamis annotators."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Combine the labels of several annotators, and find out how good each of them is."
EXAMPLES = """examples:
  tamis annotators labels.csv
  tamis annotators labels.parquet --row task --annotator worker --label answer --out joint.csv

The file has a line for each label: the row, the annotator, the label, in the order in which they
were given. No features are needed. Each row gets one label, with its probability and the number of
labels it is made of; a second file has a line for each annotator. Printed are the annotators, the
worst first: labels given, estimated accuracy, what each confuses most, and since when one who has
gone bad is bad."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("file", type=Path, help="CSV, TSV, Parquet, JSON lines: a line for each label")
    add("--row", help="column of rows (default task, row, item, id or a similar name)")
    add("--annotator", help="column of annotators (default worker, annotator, user or similar)")
    add("--label", help="column of labels (default label, answer or similar)")
    add("--truth", help="column of true classes, to measure accuracy with; nothing learns from it")
    add("--out", type=Path, help="CSV, JSON lines or Parquet (default FILE-joint.csv, here)")


def run(options: Namespace) -> int:
    """Write one label for each row, and print how good the annotators are."""
    from tamis.cli.annotator_table import combine_labels

    return combine_labels(options)
