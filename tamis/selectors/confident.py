"""Confident learning: Northcutt, Jiang and Chuang, JAIR 2021, as cleanlab computes it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, draw_scored


@dataclass(frozen=True)
class Confident:
    """Drop the rows that cleanlab takes for mislabelled, then pick at random.

    `candidates`: random rows of the pool to judge, at least 4 for each pick. `filter_by`: how
    cleanlab turns the estimated joint of given and true labels into rows. Needs the extra `audit`.
    """

    candidates: int = 512
    filter_by: Literal[
        "prune_by_noise_rate",
        "prune_by_class",
        "both",
        "confident_learning",
        "predicted_neq_given",
        "low_normalized_margin",
        "low_self_confidence",
    ] = "prune_by_noise_rate"

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among those without an issue, all of them if there are fewer."""
        rows, probabilities = draw_scored(
            pool,
            lambda inputs, _: view.probabilities(inputs),
            max(self.candidates, 4 * k),
            generator,
        )
        if not len(rows):
            return Picks(rows)
        issues = find_issues(pool.labels[rows], probabilities.float(), self.filter_by)
        return Picks(draw(rows[~issues], k, generator))


def find_issues(labels: Tensor, probabilities: Tensor, filter_by: str) -> Tensor:
    """Return a mask of the rows with a label issue; none has one if all labels are the same."""
    if len(labels.unique()) < 2:
        return torch.zeros_like(labels, dtype=torch.bool)
    try:
        from cleanlab.filter import find_label_issues
    except ModuleNotFoundError:
        raise ImportError("Confident needs cleanlab: pip install 'tamis[audit]'.") from None

    with warnings.catch_warnings():  # a label may have one row or none in the draw
        warnings.filterwarnings("ignore", "May not flag all label issues")
        issues = find_label_issues(
            labels.cpu().numpy(), probabilities.cpu().numpy(), filter_by=filter_by, n_jobs=1
        )
    return torch.from_numpy(issues).to(labels.device)
