"""tamis predict."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Predict the class of each row of a file with the model of a run."
EXAMPLES = """examples:
  tamis predict tamis-run new.csv
  tamis predict tamis-run new.parquet --out predictions.parquet --proba
  tamis predict tamis-run photos/
  tamis predict model.safetensors new.csv --model mynet:build

Columns are matched by name, in any order. Values may be missing, or unseen in training. The output
has one line per row, in order: its id or number, the prediction and its probability, or the reason
why the row cannot be read. If the file has labels, accuracy, precision and recall are printed."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run, or its model.safetensors")
    add("file", type=Path, help="table, pictures, or data set, as tamis train reads it")
    add("--out", type=Path, help="CSV, JSON lines or Parquet (default FILE-predictions.csv, here)")
    add("--proba", action="store_true", help="also write the probability of every class")
    add("--model", help="module:factory, if the run was trained with --model module:factory")
    add("--device", default="cpu", help="cpu or cuda (default cpu)")


def run(options: Namespace) -> int:
    """Write the predictions, and print how they compare with labels."""
    from tamis.cli.predict_table import predict_table

    return predict_table(options)
