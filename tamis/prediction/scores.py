"""How predictions compare with the labels of a table: accuracy, precision and recall."""

from __future__ import annotations

import numpy as np

from tamis.prediction.predictor import PredictedRows


class PredictionScores:
    """Counts predictions beside labels, a block at a time.

    Rows without a label, with one that is no class, or without a prediction are not compared.
    """

    def __init__(self, classes: int) -> None:
        self.right = np.zeros(classes, np.int64)
        self.given = np.zeros(classes, np.int64)
        self.predicted = np.zeros(classes, np.int64)

    def update(self, rows: PredictedRows) -> None:
        """Compare the rows of a block."""
        if rows.labels is None:
            return
        compared = (rows.labels >= 0) & (rows.best >= 0)
        labels, best = rows.labels[compared], rows.best[compared]
        count = len(self.given)
        self.given += np.bincount(labels, minlength=count)
        self.predicted += np.bincount(best, minlength=count)
        self.right += np.bincount(labels[labels == best], minlength=count)

    @property
    def compared(self) -> int:
        """Rows with a label and a prediction."""
        return int(self.given.sum())

    @property
    def accuracy(self) -> float:
        """Share of the labels that were predicted; NaN where there are none."""
        return float(self.right.sum() / self.compared) if self.compared else float("nan")

    @property
    def precision(self) -> np.ndarray:
        """By class, share of its predictions that are right; NaN where it was never predicted."""
        return share(self.right, self.predicted)

    @property
    def recall(self) -> np.ndarray:
        """By class, share of its rows that were predicted; NaN where there are none."""
        return share(self.right, self.given)


def share(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return a share of each total; NaN where there is none."""
    found = np.full(len(total), np.nan)
    np.divide(part, total, out=found, where=total > 0)
    return found
