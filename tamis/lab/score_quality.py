"""How well scores of labels are calibrated, against the ground truth, as they are and as they were.

A cell is one training run: one of the board's with `Plausible`, or a table as `tamis train` trains
it. All its labels are scored, calibrated and not.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.data import Samples, concat
from tamis.lab.scene import PLACES, Scene
from tamis.lab.suspect_quality import average_precision, clean_of
from tamis.lab.tables import LABEL, split, write
from tamis.lab.tables import Cell as TableCell
from tamis.review.scorer import LabelScorer, spread_over
from tamis.selectors import Plausible
from tamis.sources import Validator, open_table
from tamis.training import Trainer
from tamis.training.fitting import fit_table

BINS = 15
"""Bins of scores, of equal width or with equally many rows."""
CALIBRATED, RAW = "calibrated", "raw"


@dataclass(frozen=True)
class Cell:
    """One run: data of the board or a table, how its labels go wrong, and a seed."""

    data: str
    noise: str
    clean_ratio: float
    seed: int


@dataclass(frozen=True)
class Measured(Cell):
    """What the scores of a cell are worth.

    `kind`: calibrated or raw. `ece` and `ece_mass` are expected calibration errors over 15 bins
    of equal width and of equally many rows. `expected` is the sum of the scores, `wrong` the true
    number of wrong labels, `suspects` how many labels are suspect. `extreme` scores are 1.0000 in
    four digits.
    """

    kind: str
    rows: int
    ece: float
    ece_mass: float
    brier: float
    average_precision: float
    auc: float
    wrong: int
    expected: float
    suspects: int
    extreme: int
    highest: float


@dataclass(frozen=True)
class Bin(Cell):
    """One bin of scores of a cell: its rows, their mean score and the share of wrong labels."""

    kind: str
    number: int
    rows: int
    score: float
    wrong: float


class Scored(NamedTuple):
    """The labels of a run: which are wrong, and two kinds of scores, with their thresholds."""

    wrong: Tensor
    scores: dict[str, Tensor]
    thresholds: dict[str, float]


def run_cell(cell: Cell, folder: Path | None = None) -> tuple[list[Measured], list[Bin]]:
    """Train, score all labels, and compare the scores with the truth."""
    torch.set_num_threads(1)
    scored = board_run(cell, folder) if cell.data in PLACES else table_run(cell)
    measured, bins = [], []
    for kind, scores in scored.scores.items():
        measured.append(measure(cell, kind, scores, scored.wrong, scored.thresholds[kind]))
        bins += bins_of(cell, kind, scores, scored.wrong)
    return measured, bins


def board_run(cell: Cell, folder: Path | None) -> Scored:
    """Train `Plausible` as the board does, and score the rows held."""
    place = PLACES[cell.data]
    data = place.load(folder)
    scene = Scene(place, data, cell.noise, cell.clean_ratio, place.slots, cell.seed)
    trainer = scene.trainer(Plausible(), warm_up=0)
    arriving = scene.stream()
    for _ in range(scene.slots):
        trainer.step(next(arriving, None))
    return score(trainer, trainer.held(), ~clean_of(trainer.held()))


def table_run(cell: Cell) -> Scored:
    """Train on a table as `tamis train` does, and score its rows."""
    rows = split(TableCell(cell.data, cell.noise, round(1 - cell.clean_ratio, 4), cell.seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, rows.train, rows.given)
        table = open_table(path, LABEL, Validator())
        trainer = fit_table(table, seed=cell.seed)
        return score(trainer, concat([samples for samples, _ in table.named()]), ~rows.clean)


def score(trainer: Trainer, samples: Samples, wrong: Tensor) -> Scored:
    """Score labels, calibrated and not."""
    scorer = LabelScorer(trainer.averaged, spread_over(trainer.held()))
    raw = LabelScorer(trainer.averaged, spread_over(trainer.held()), calibrate=False)
    return Scored(
        wrong.cpu(),
        {CALIBRATED: scorer.scores(samples)[0].cpu(), RAW: raw.scores(samples)[0].cpu()},
        {CALIBRATED: scorer.threshold, RAW: raw.threshold},
    )


def measure(cell: Cell, kind: str, scores: Tensor, wrong: Tensor, threshold: float) -> Measured:
    """Return all numbers of one kind of scores."""
    return Measured(
        cell.data,
        cell.noise,
        cell.clean_ratio,
        cell.seed,
        kind,
        len(scores),
        calibration_error(scores, wrong, by_width(scores)),
        calibration_error(scores, wrong, by_rank(scores)),
        (scores - wrong.double()).square().mean().item(),
        average_precision(scores, wrong),
        area_under_curve(scores, wrong),
        int(wrong.sum()),
        scores.sum().item(),
        int((scores > threshold).sum()),
        int((scores >= 0.99995).sum()),
        scores.max().item(),
    )


def by_width(scores: Tensor) -> Tensor:
    """Return the bin of each score, of equal width."""
    return (scores * BINS).long().clamp(0, BINS - 1)


def by_rank(scores: Tensor) -> Tensor:
    """Return the bin of each score, of equally many rows."""
    ranks = scores.argsort().argsort()
    return ranks * BINS // len(scores)


def calibration_error(scores: Tensor, wrong: Tensor, bins: Tensor) -> float:
    """Return the mean distance of the mean score of a bin from its share of wrong labels."""
    gaps = torch.zeros(BINS, dtype=torch.double).index_add_(0, bins, scores - wrong.double())
    return (gaps.abs().sum() / len(scores)).item()


def area_under_curve(scores: Tensor, wrong: Tensor) -> float:
    """Return how often a wrong label has a higher score than a right one; equal ones count half."""
    _, place, counts = scores.unique(return_inverse=True, return_counts=True)
    ranks = counts.cumsum(0) - (counts - 1) / 2
    bad = int(wrong.sum())
    above = float(ranks[place][wrong].sum()) - bad * (bad + 1) / 2
    return above / (bad * (len(wrong) - bad))


def bins_of(cell: Cell, kind: str, scores: Tensor, wrong: Tensor) -> list[Bin]:
    """Return the bins of equal width that have rows."""
    place = by_width(scores)
    return [
        Bin(
            cell.data, cell.noise, cell.clean_ratio, cell.seed, kind, number,
            int((place == number).sum()),
            scores[place == number].mean().item(),
            wrong[place == number].double().mean().item(),
        )
        for number in place.unique().tolist()
    ]  # fmt: skip
