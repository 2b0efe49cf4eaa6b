"""Precision and recall by class, and which classes are confused, as pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tamis.runs.confusion import ClassScore, ConfusionCounts
from tamis.web.csv_text import as_data, to_csv
from tamis.web.heat import Cell, HeatMap, Row, heat_of

MOST_CLASSES = 50
"""Classes in the table of counts; of more, those that are confused most."""
MOST_LISTED = 40
"""Classes in the list of scores; the CSV has them all."""
MOST_PAIRS = 5
MOST_LOWEST = 3
BY_CLASS = "precision_recall"


@dataclass(frozen=True)
class ClassScores:
    """What the template needs; `left_out` counts classes that are in the CSV only.

    `lowest` are the classes of the lowest recall, where they are not all predicted right.
    """

    found: ConfusionCounts
    classes: Sequence[ClassScore]
    left_out: int
    confused: Sequence[tuple[str, str, int, int]]
    lowest: Sequence[ClassScore]
    table: HeatMap
    href: str


def class_scores(found: ConfusionCounts, link: str | None = None) -> ClassScores:
    """Return the scores of a run; `link` leads to numbers."""
    classes = found.by_class()
    rows = {score.name: score.rows for score in classes}
    confused = [(*entry, rows[entry[0]]) for entry in found.confused()[:MOST_PAIRS]]
    href = f"{link}{BY_CLASS}.csv" if link else as_data(scores_csv(found))
    missed = [score for score in classes if score.recall is not None and score.recall < 1]
    lowest = sorted(missed, key=lambda score: (score.recall or 0.0, -score.rows))[:MOST_LOWEST]
    return ClassScores(
        found, classes[:MOST_LISTED], max(0, len(classes) - MOST_LISTED), confused, lowest,
        counts_of(found, classes), href,
    )  # fmt: skip


def counts_of(found: ConfusionCounts, classes: Sequence[ClassScore]) -> HeatMap:
    """Return how often each class is predicted as which, of the classes confused most."""
    wrong = {score.name: score.rows + score.predicted - 2 * score.right for score in classes}
    chosen = set(sorted(wrong, key=lambda name: -wrong[name])[:MOST_CLASSES])
    names = [score.name for score in classes if score.name in chosen]
    hottest = max((count for _, _, count in found.confused()), default=0)
    rows = []
    for name in names:
        counts = [found.counts.get((name, other), 0) for other in names]
        cells = [
            Cell(f"{n:,}" if n else "", 0 if name == other else heat_of(n, hottest), name == other)
            for n, other in zip(counts, names, strict=True)
        ]
        rows.append(Row(name, cells))
    caption = "Row: the label. Column: the prediction."
    if len(names) < len(classes):
        caption += f" The {len(names)} classes that are confused most."
    return HeatMap(caption, names, rows, "{value} of label {row} predicted as {column}")


def scores_csv(found: ConfusionCounts) -> str:
    """Return precision, recall and every count as CSV."""
    scores = [
        (one.name, one.rows, one.predicted, one.right, digits(one.precision), digits(one.recall))
        for one in found.by_class()
    ]
    return to_csv(("class", "rows", "predicted", "right", "precision", "recall"), scores)


def digits(value: float | None) -> str:
    """Return a share with four digits, empty where there is none."""
    return "" if value is None else f"{value:.4f}"
