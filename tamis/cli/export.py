"""tamis export."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.next_steps import command, print_next
from tamis.cli.options import positive
from tamis.errors import UsageError

HELP = "Export suspects and decisions, the corrected table, or the model of a run."
EXAMPLES = """examples:
  tamis export tamis-run --format csv
  tamis export tamis-run --which open --most 10 --out ten.csv
  tamis export tamis-run --format label-studio --which open --out tasks.json
  tamis export tamis-run --format corrected --out customers-corrected.csv
  tamis export tamis-run --format onnx

fiftyone writes a folder, label-studio also the configuration of the project. tamis import reads all
of these formats back. No cell of a CSV is a formula.

corrected writes the table that was trained on, with the decisions applied: relabelled rows have
their new label, dropped rows are left out, other cells are unchanged. Two more columns hold the
decision and the original label. For a folder of pictures, and for formats other than CSV, TSV,
Parquet and JSON lines, it writes a list of files and labels.

onnx and torch (torch.export) write the model and, beside it, the schema that encodes rows for it.
The file is written only if its probabilities match those of tamis predict up to 1e-5."""
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
    add(
        "--which",
        choices=("all", "open", "decided"),
        default="all",
        help="which rows (default all)",
    )
    add("--most", type=positive, metavar="ROWS", help="only the worst so many (default all)")
    add(
        "--out",
        type=Path,
        help="file or folder (default here: review-FORMAT, corrected-TABLE or model.onnx)",
    )
    add("--source", type=Path, help="with corrected: the table, if it was moved after the run")
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
    console.print("Decide there; in a table, write the right class into the column label.")
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
    console.print(f"Wrote {out}; probabilities are those of tamis predict up to {worst:.0e}.")
    console.print(
        f"Encode rows by tamis.load({str(options.run)!r}).schema.encode(frame). The schema is also"
        f" in {out.with_suffix('.schema.json')}.",
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
            f"Warning: {source} has changed since the run; rows were matched by their ids."
        )
    if changes.outdated:
        console.print(
            f"Warning: {changes.outdated} labels have changed since the decision, and are kept."
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
