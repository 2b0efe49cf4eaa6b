"""Predictions for the rows of a file: `tamis predict`."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from itertools import chain, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from tamis.cli.building import check_device, choose
from tamis.cli.console import plain_console
from tamis.cli.next_steps import command, print_next
from tamis.errors import UsageError
from tamis.models import MODELS
from tamis.monitoring.progress import RowCount
from tamis.prediction import PredictedRows, Predictor, load
from tamis.prediction.writing import open_predictions
from tamis.runs.confusion import ConfusionCounts
from tamis.sources.schema.cells import listed

NAMED = 5
"""Rows named in a sentence."""
PRINTED = 30
"""Classes printed."""


def predict_table(options: Namespace) -> int:
    """Write a prediction for every row, and print what was found on the way."""
    console = plain_console()
    predictor = open_predictor(options.run, options.model, options.device)
    out = options.out or Path(f"{options.file.stem}-predictions.csv")
    if out.resolve() == options.file.resolve():
        raise UsageError(f"--out {out} is the file itself.")
    classes = predictor.schema.classes
    outcome = Outcome()
    blocks = predictor.blocks(options.file)
    first = list(islice(blocks, 1))  # which raises before a file is opened to write
    id_name = str(predictor.schema.id) if any(block.named for block in first) else "row"
    with (
        open_predictions(out, classes, id_name, proba=options.proba) as write,
        RowCount(options.file.name, console) as count,
    ):
        for block in chain(first, blocks):
            write(block)
            outcome.update(block)
            count.update(outcome.rows)
    console.print(f"{outcome.rows} rows, {outcome.rows - outcome.bad} predictions: {out}")
    outcome.print(predictor, console)
    if outcome.compared:
        pairs = {(classes[a], classes[b]): count for (a, b), count in outcome.compared.items()}
        counts = ConfusionCounts(pairs)
        options.results.update(labelled=counts.rows, accuracy=counts.right / counts.rows)
        print_scores(counts, predictor, console)
    options.results.update(out=out, rows=outcome.rows, without_prediction=outcome.bad)
    print_next(
        console,
        open=out,
        predict_in_a_program_with=f"tamis.load({str(options.run)!r}).predict(frame)",
        export_the_model_with=command("export", options.run, "--format", "onnx"),
    )
    return 0


def open_predictor(path: Path, model: str | None, device: str = "cpu") -> Predictor:
    """Return the predictor of a run; a factory is imported only if the command line names it."""
    factory = choose("model", model, MODELS) if model else None
    check_device(device)
    return load(path, model=factory, device=device)


class Outcome:
    """Counts rows, those that could not be read, labels that are not a class, and odd cells."""

    def __init__(self) -> None:
        self.rows = self.bad = self.unlabelled = 0
        self.compared: Counter[tuple[int, int]] = Counter()
        self._reasons: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self._cells: Counter[str] = Counter()
        self._cell_ids: dict[str, list[str]] = {}

    def update(self, block: PredictedRows) -> None:
        """Count a block."""
        self.rows += len(block)
        self.compared += block.compared()
        self.bad += len(block.reasons)
        for at, text in sorted(block.reasons.items()):
            reason = text.partition(": ")[0]  # what follows differs from row to row
            self._counts[reason] += 1
            ids = self._reasons.setdefault(reason, [])
            ids += [block.ids[at]] if len(ids) < NAMED else []
        for column, ids in block.unreadable.items():
            self._cells[column] += len(ids)
            named = self._cell_ids.setdefault(column, [])
            named += ids[: NAMED - len(named)]
        if block.labels is not None:
            self.unlabelled += int((block.labels < 0).sum())

    def print(self, predictor: Predictor, console: Console) -> None:
        """Print what was wrong with rows and cells, and in which."""
        for reason, ids in self._reasons.items():
            count = self._counts[reason]
            console.print(f"{count} without a prediction: {reason} (rows {some(ids, count)}).")
        for column, count in self._cells.items():
            kind, ids = predictor.schema[column].kind, self._cell_ids[column]
            console.print(
                f"{count} cells of {column!r} are not of kind {kind}, and count as missing"
                f" (rows {some(ids, count)})."
            )
        if self.unlabelled:
            console.print(f"{self.unlabelled} rows have no label, or one that is not a class here.")


def some(ids: list[str], count: int) -> str:
    """Return the first ids, and that there are more."""
    return listed(ids) + (", …" if count > len(ids) else "")


def print_scores(counts: ConfusionCounts, predictor: Predictor, console: Console) -> None:
    """Print accuracy, and precision and recall of each class."""
    console.print(f"Accuracy {counts.right / counts.rows:.3f} on {counts.rows} labelled rows.")
    grid = Grid(box=None, pad_edge=False)
    grid.add_column(predictor.schema.label or "class")
    for title in ("rows", "precision", "recall"):
        grid.add_column(title, justify="right")
    scores = counts.by_class()
    for score in scores[:PRINTED]:
        shares = (score.precision, score.recall)
        texts = ("" if share is None else f"{share:.3f}" for share in shares)
        grid.add_row(score.name, str(score.rows), *texts)
    console.print(grid)
    if len(scores) > PRINTED:
        console.print(f"And {len(scores) - PRINTED} classes with fewer rows.")
