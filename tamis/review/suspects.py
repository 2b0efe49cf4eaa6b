"""The search for suspects among rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.scorer import LabelScorer
from tamis.runs import Suspect

Rows = Iterable[tuple[Samples, Sequence[str]]]
"""Samples, each with the ids of its rows as text."""


@dataclass(frozen=True)
class LabelCheck:
    """What came of all labels: the suspects, worst first, of so many rows, and the clean ratio.

    `clean_ratio` is None where too few rows were held to estimate it.
    """

    suspects: list[Suspect]
    rows: int
    clean_ratio: float | None

    @property
    def wrong(self) -> int:
        """The number of wrong labels to be expected: the sum of the scores of all rows.

        Of rows that are not held it is that of as many rows held.
        """
        if self.clean_ratio is None:
            return len(self.suspects)
        return round((1 - self.clean_ratio) * self.rows)


def find_suspects(
    view: ModelView,
    rows: Rows,
    classes: Sequence[str],
    held: Samples | None = None,
    *,
    rows_per_slot: int | None = None,
) -> list[Suspect]:
    """Return the rows whose label looks wrong, worst first: the suspects of `check_labels`."""
    return check_labels(view, rows, classes, held, rows_per_slot=rows_per_slot).suspects


def check_labels(
    view: ModelView,
    rows: Rows,
    classes: Sequence[str],
    held: Samples | None = None,
    *,
    rows_per_slot: int | None = None,
) -> LabelCheck:
    """Score the labels of all rows, in one pass, and return the suspects and the clean ratio.

    `classes` names the labels. `held`, `trainer.held()`, makes the list better, and scores
    probabilities (`LabelScorer`). With `rows_per_slot`, slots are counted from the numbers of the
    samples.
    """
    scorer = LabelScorer(view, held)
    found, count = [], 0
    for samples, ids in rows:
        count += len(samples)
        candidates = scorer.candidates(samples).tolist() if len(samples) else []
        if not candidates:
            continue
        samples, ids = samples[torch.tensor(candidates)], [ids[row] for row in candidates]
        scores, others = scorer.scores(samples)
        for row in (scores > scorer.threshold).nonzero()[:, 0].tolist():
            number = int(samples.ids[row])
            found.append(
                Suspect(
                    ids[row],
                    classes[int(samples.labels[row])],
                    classes[int(others[row])],
                    scores[row].item(),
                    number,
                    None if rows_per_slot is None else number // rows_per_slot,
                )
            )
    suspects = sorted(found, key=lambda suspect: -suspect.score)
    return LabelCheck(suspects, count, scorer.clean_ratio)
