"""INCV against algorithm 2 of its paper, written out row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import INCV
from tamis.selectors.incv import estimate_remove, predict
from tamis.selectors.sampling import draw


def naive_scores(features: list, labels: list[int], others: list, classes: int, ridge: float):
    scaler = StandardScaler().fit(features)
    given = np.eye(classes)[labels]
    head = Ridge(alpha=ridge * len(labels)).fit(scaler.transform(features), given)
    return head.predict(scaler.transform(others))


def naive_incv(incv: INCV, features: Tensor, labels: Tensor, generator: Generator) -> set[int]:
    points, given, classes = features.tolist(), labels.tolist(), int(labels.max()) + 1
    selected: set[int] = set()
    left = set(range(len(given)))
    noise = None
    for _ in range(incv.rounds):
        order = draw(torch.tensor(sorted(left)), len(given), generator).tolist()
        middle = (len(order) + 1) // 2
        halves = order[:middle], order[middle:]
        found: set[int] = set()
        removed: set[int] = set()
        for learned, judged in (halves, halves[::-1]):
            taught = sorted(selected) + learned
            scores = naive_scores(
                [points[row] for row in taught],
                [given[row] for row in taught],
                [points[row] for row in judged],
                classes,
                incv.ridge,
            )
            loss = {row: -score[given[row]] for row, score in zip(judged, scores, strict=True)}
            agree = [
                row
                for row, score in zip(judged, scores, strict=True)
                if int(score.argmax()) == given[row]
            ]
            if noise is None:  # the authors' search, in finer steps
                noise = 0.0
                while (1 - noise) ** 2 + noise**2 / (classes - 1) > len(agree) / len(judged):
                    noise += 1e-5
            ratio = min(2.0, noise / (1 - noise)) if incv.remove is None else incv.remove
            worst = sorted(judged, key=loss.__getitem__, reverse=True)
            removed |= set(worst[: int(ratio * len(agree))])
            found |= set(agree)
        selected |= found
        left -= found | removed
    return selected


@pytest.mark.parametrize("settings", [{}, {"rounds": 1}, {"remove": 0.0}, {"ridge": 0.1}])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_the_paper(blobs: Samples, settings: dict, seed: int) -> None:
    incv = INCV(**settings)
    g = Generator().manual_seed(seed)
    points = blobs.inputs + 2 * torch.randn(300, 2, generator=g)
    features = (points @ torch.randn(2, 8, generator=g)).relu().double()
    marked = incv.cross_validate(features, blobs.labels, Generator().manual_seed(seed))
    naive = naive_incv(incv, features, blobs.labels, Generator().manual_seed(seed))
    assert set(marked.nonzero()[:, 0].tolist()) == naive
    assert 50 < len(naive) < 250


def test_the_head_is_ridge_regression(generator: Generator) -> None:
    features = torch.randn(40, 60, generator=generator).double()
    features[:, 7] = 0.1 + 0.2  # a dead unit
    others = torch.randn(10, 60, generator=generator).double()
    labels = torch.arange(40) % 3
    wanted = torch.eye(3).double()[labels]
    naive = naive_scores(features.tolist(), labels.tolist(), others.tolist(), 3, 0.5)
    live = torch.arange(60) != 7
    torch.testing.assert_close(
        predict(features, wanted, others, 0.5),
        predict(features[:, live], wanted, others[:, live], 0.5),
    )
    others[:, 7] = features[0, 7]
    torch.testing.assert_close(predict(features, wanted, others, 0.5), torch.from_numpy(naive))


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.35, 0.5])
@pytest.mark.parametrize("classes", [3, 10])
def test_the_noise_rate_is_found(noise: float, classes: int) -> None:
    agreement = (1 - noise) ** 2 + noise**2 / (classes - 1)
    assert estimate_remove(agreement, classes) == pytest.approx(noise / (1 - noise))
    assert estimate_remove(0.0, classes) == 2.0


def test_two_rows_that_disagree_are_not_selected() -> None:
    labels = torch.tensor([0, 1])
    features = torch.zeros(2, 3).double()
    assert not INCV().cross_validate(features, labels, Generator().manual_seed(0)).any()


def test_equal_scores_favour_no_class(blob_model: nn.Module) -> None:
    pool = Samples.of(torch.full((40, 2), 0.1), torch.arange(40) % 2)
    picks = INCV(candidates=20, rounds=1).select
    drawn = [picks(pool, ModelView(blob_model), 40, Generator().manual_seed(s)) for s in range(9)]
    rows = torch.cat([one.rows for one in drawn])
    assert set(pool.labels[rows].tolist()) == {0, 1}


def test_rows_of_one_label_are_all_kept(blobs: Samples, blob_model: nn.Module) -> None:
    one = blobs[blobs.labels == 1]
    picks = INCV().select(one, ModelView(blob_model), 1000, Generator().manual_seed(0))
    assert sorted(picks.rows.tolist()) == list(range(len(one)))


def test_a_model_that_ran_away_gives_no_picks(blobs: Samples) -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 3))
    with torch.no_grad():
        model[0].weight.fill_(torch.nan)
    assert len(INCV().select(blobs, ModelView(model), 8, Generator().manual_seed(0))) == 0


@pytest.mark.parametrize("settings", [{"rounds": 0}, {"ridge": 0.0}])
def test_settings_that_cannot_be(settings: dict) -> None:
    with pytest.raises(ValueError, match="INCV needs"):
        INCV(**settings)
