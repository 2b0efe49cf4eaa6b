"""The search for suspects among rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.scorer import LabelScorer
from tamis.runs import Suspect

Rows = Iterable[tuple[Samples, Sequence[str]]]
"""Samples, each with the ids of its rows as text."""


def find_suspects(
    view: ModelView,
    rows: Rows,
    classes: Sequence[str],
    held: Samples | None = None,
    *,
    rows_per_slot: int | None = None,
) -> list[Suspect]:
    """Return the rows whose label looks wrong, worst first, in one pass through all rows.

    `classes` names the labels. `held`, `trainer.held()`, makes the list better (`LabelScorer`).
    With `rows_per_slot`, slots are counted from the numbers of the samples.
    """
    scorer = LabelScorer(view, held)
    found = []
    for samples, ids in rows:
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
    return sorted(found, key=lambda suspect: -suspect.score)
