"""tamis export."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.next_steps import command, print_next
from tamis.cli.options import positive
from tamis.errors import UsageError

HELP = "Write suspects and decisions of a run, its corrected table, or its model."
EXAMPLES = """examples:
  tamis export tamis-run --format csv
  tamis export tamis-run --which open --most 10 --out ten.csv
  tamis export tamis-run --format label-studio --which open --out tasks.json
  tamis export tamis-run --format corrected --out customers-corrected.csv
  tamis export tamis-run --format onnx

FiftyOne gets a folder, Label Studio also the configuration of its project. tamis import reads all
of them back. No cell of a CSV is a formula.

corrected is the table that was trained on, with decisions applied: labels changed, dropped rows
left out, all other cells as they were, and two columns for the decision and the original label.
Of a folder of pictures, or another format than CSV, TSV, Parquet and JSON lines, it is a list.

onnx and torch (torch.export) are the model, with its schema beside it. It takes rows as the schema
encodes them, and is written only if it gives the probabilities of tamis predict, up to 1e-5."""
FORMATS = ("csv", "jsonl", "parquet", "label-studio", "fiftyone", "cleanlab")
CORRECTED = "corrected"
MODEL_FILES = {"onnx": "model.onnx", "torch": "model.pt2"}
"""Formats of the model itself, and the default names of their files."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    formats = (*FORMATS, CORRECTED, *MODEL_FILES)
    add("run", type=Path, help="folder of a run; for the model also its model.safetensors")
    add("--format", choices=formats, default="csv", help="what to write (default csv)")
    add("--which", choices=("all", "open", "decided"), default="all", help="rows (default all)")
    add("--most", type=positive, metavar="ROWS", help="the worst so many (default all)")
    add(
        "--out",
        type=Path,
        help="file or folder (default review-FORMAT, corrected-TABLE, ..., here)",
    )
    add("--source", type=Path, help="the table, for corrected, if it has been moved since")
    add("--model", help="module:factory, if the run was trained with --model module:factory")


def run(options: Namespace) -> int:
    """Write the file."""
    if options.format in MODEL_FILES:
        return export_model(options)
    if options.format == CORRECTED:
        return export_corrected(options)
    from tamis.cli.console import plain_console
    from tamis.review import exchange

    form = exchange.FORMATS[options.format]
    out = options.out or Path(f"review-{options.format}{form.suffix}")
    reviewed, classes = exchange.read_run(options.run, options.which)
    if not reviewed:
        raise UsageError(f"{options.run} holds no suspects and no decisions to write.")
    reviewed = reviewed[: options.most]
    form.write(reviewed, classes, out)
    console = plain_console()
    console.print(f"{len(reviewed)} rows: {out}")
    options.results.update(run=options.run, out=out, rows=len(reviewed))
    console.print("Decide in that tool; in a table, write the right class into the column label.")
    print_next(console, import_with=command("import", out, "--run", options.run))
    return 0


def export_model(options: Namespace) -> int:
    """Write the model of a run."""
    from tamis.cli.console import plain_console
    from tamis.cli.predict_table import open_predictor

    predictor = open_predictor(options.run, options.model)
    out = options.out or Path(MODEL_FILES[options.format])
    write = predictor.to_onnx if options.format == "onnx" else predictor.to_torch_export
    worst = write(out)
    console = plain_console()
    console.print(f"Model, as tamis predict up to {worst:.0e}: {out}")
    console.print(
        f"Rows go in as tamis.load({str(options.run)!r}).schema.encode(frame) returns them; the"
        f" schema is beside it: {out.with_suffix('.schema.json')}",
        soft_wrap=True,
    )
    options.results.update(run=options.run, out=out, difference=worst)
    return 0


def export_corrected(options: Namespace) -> int:
    """Write the corrected table, and print what was changed and what could not be."""
    from tamis.cli.console import plain_console
    from tamis.review.exchange.corrected import write_corrected
    from tamis.runs import read_metadata

    source, out, changes, source_changed = write_corrected(options.run, options.out, options.source)
    console, counts = plain_console(), changes.counts
    if source_changed:
        console.print(
            f"Warning: {source} is not as it was trained on; rows were found by their ids."
        )
    if changes.outdated:
        console.print(
            f"Warning: {changes.outdated} labels are not those that were decided about, and stay."
        )
    if changes.unmatched:
        names = ", ".join(changes.unmatched[:5])
        console.print(
            f"Warning: {len(changes.unmatched)} decisions are about rows that {source.name} does "
            f"not have: {names}{', ...' if len(changes.unmatched) > 5 else ''}"
        )
    words = ", ".join(f"{counts[word]} {word}" for word in ("relabelled", "removed", "kept"))
    console.print(f"{changes.rows} rows of {source.name}, {words}: {out}")
    options.results.update(run=options.run, out=out, rows=changes.rows, **counts)
    label = read_metadata(options.run).options.get("label")
    named = ["--label", label] if label else []
    print_next(console, train_with=command("train", out, *named, "--out", "corrected-run"))
    return 0
