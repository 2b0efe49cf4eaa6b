"""Precision and recall by class, and which classes are confused, as pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tamis.runs.confusion import ClassScore, ConfusionCounts
from tamis.web.csv_text import as_data, to_csv
from tamis.web.heat import HOTTEST, Cell, Row

MOST_CLASSES = 12
"""Classes in the table of counts; of more, those that are confused most."""
MOST_LISTED = 40
"""Classes in the list of scores; the CSV has them all."""
MOST_PAIRS = 5
BY_CLASS = "precision_recall"


@dataclass(frozen=True)
class ClassScores:
    """What the template needs; `left_out` counts classes that are in the CSV only."""

    found: ConfusionCounts
    classes: Sequence[ClassScore]
    left_out: int
    confused: Sequence[tuple[str, str, int, int]]
    names: Sequence[str]
    rows: Sequence[Row]
    cut: bool
    href: str


def class_scores(found: ConfusionCounts, link: str | None = None) -> ClassScores:
    """Return the scores of a run; `link` leads to numbers."""
    classes = found.by_class()
    rows = {score.name: score.rows for score in classes}
    confused = [(*entry, rows[entry[0]]) for entry in found.confused()[:MOST_PAIRS]]
    names, table = counts_of(found, classes)
    href = f"{link}{BY_CLASS}.csv" if link else as_data(scores_csv(found))
    return ClassScores(
        found, classes[:MOST_LISTED], max(0, len(classes) - MOST_LISTED), confused, names, table,
        len(names) < len(classes), href,
    )  # fmt: skip


def counts_of(found: ConfusionCounts, classes: Sequence[ClassScore]) -> tuple[list[str], list[Row]]:
    """Return the classes that are confused most, and a row of counts for each."""
    wrong = {score.name: score.rows + score.predicted - 2 * score.right for score in classes}
    chosen = set(sorted(wrong, key=lambda name: -wrong[name])[:MOST_CLASSES])
    names = [score.name for score in classes if score.name in chosen]
    rows = []
    for score in classes:
        if score.name not in chosen:
            continue
        counts = [found.counts.get((score.name, name), 0) for name in names]
        cells = [
            Cell(f"{count:,}", round(HOTTEST * count / max(1, score.rows)), name == score.name)
            for count, name in zip(counts, names, strict=True)
        ]
        rows.append(Row(score.name, cells))
    return names, rows


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
