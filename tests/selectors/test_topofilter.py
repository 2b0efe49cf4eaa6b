"""TopoFilter against its paper: neighbours, flood fill and votes, row by row."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import TopoFilter
from tamis.selectors.topofilter import squared_distances


def nearest(points: list[list[float]], rows: list[int], row: int, count: int) -> list[int]:
    def apart(other: int) -> float:
        return sum((a - b) ** 2 for a, b in zip(points[row], points[other], strict=True))

    return sorted((other for other in rows if other != row), key=apart)[:count]


def naive_filter(rule: TopoFilter, features: Tensor, labels: Tensor) -> list[int]:
    points, given = features.tolist(), labels.tolist()
    rows = list(range(len(given)))
    near = {row: set(nearest(points, rows, row, rule.neighbours)) for row in rows}

    def joined(a: int, b: int) -> bool:
        both = (b in near[a], a in near[b])
        return given[a] == given[b] and (all(both) if rule.mutual else any(both))

    best: dict[int, list[int]] = {}
    seen: set[int] = set()
    for start in rows:
        if start in seen:
            continue
        piece, todo = [], [start]
        seen.add(start)
        while todo:
            row = todo.pop()
            piece.append(row)
            fresh = [other for other in rows if other not in seen and joined(row, other)]
            seen.update(fresh)
            todo += fresh
        if len(piece) > len(best.get(given[start], [])):
            best[given[start]] = piece

    inside = sorted(row for piece in best.values() for row in piece)
    kept = []
    for row in inside:
        voters = min(rule.voters, len(best[given[row]]) - 1)
        votes = Counter(given[other] for other in nearest(points, inside, row, voters))
        if voters and votes[given[row]] / voters >= rule.share:
            kept.append(row)
    return kept or inside


@pytest.mark.parametrize(
    "rule",
    [
        TopoFilter(),
        TopoFilter(neighbours=4, mutual=False),
        TopoFilter(neighbours=4, voters=5, share=0.9),
        TopoFilter(neighbours=1, share=1.0),
        TopoFilter(neighbours=500, share=0.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("seed", range(2))
def test_rows_are_those_of_the_paper(rule: TopoFilter, seed: int) -> None:
    g = Generator().manual_seed(seed)
    truth = torch.randint(4, (120,), generator=g)
    features = torch.randn(4, 5, generator=g)[truth] + 0.6 * torch.randn(120, 5, generator=g)
    noise = torch.randint(4, (120,), generator=g)
    labels = torch.where(torch.rand(120, generator=g) < 0.7, truth, noise)
    assert rule.filter(features, labels).tolist() == naive_filter(rule, features, labels)


def test_a_far_piece_of_a_label_is_dropped() -> None:
    features = torch.cat([torch.zeros(30, 2), torch.full((10, 2), 9.0), torch.full((30, 2), 9.0)])
    labels = torch.tensor([0] * 40 + [1] * 30)
    assert TopoFilter().filter(features, labels).tolist() == [*range(30), *range(40, 70)]


def test_all_duplicates_hang_together(generator: Generator) -> None:
    labels = torch.arange(101) % 5
    features = 1e3 * torch.randn(5, 67, generator=generator)[labels]
    apart = squared_distances(features).fill_diagonal_(0)
    assert torch.equal(apart == 0, labels[:, None] == labels)
    assert len(TopoFilter(neighbours=2).filter(features, labels)) == 101


def test_the_larger_of_equal_components_is_random(blob_model: nn.Module) -> None:
    ends = torch.tensor([[-5.0, 0.0], [5.0, 0.0]])
    pool = Samples.of(ends.repeat(4, 1), torch.zeros(8).long())
    sides = set()
    for seed in range(20):
        rule = TopoFilter(neighbours=2)
        rows = rule.select(pool, ModelView(blob_model), 8, Generator().manual_seed(seed)).rows
        (side,) = set(pool.inputs[rows, 0].tolist())
        assert len(rows) == 4
        sides.add(side)
    assert sides == {-5.0, 5.0}


def test_where_the_votes_leave_nothing_the_pieces_stand() -> None:
    features = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    labels = torch.tensor([0, 1, 0, 1])
    assert TopoFilter(neighbours=1).filter(features, labels).tolist() == [0, 1]


def test_a_model_that_ran_away_gives_no_picks(blobs: Samples) -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 3))
    with torch.no_grad():
        model[0].weight.fill_(torch.nan)
    assert len(TopoFilter().select(blobs, ModelView(model), 8, Generator().manual_seed(0))) == 0


@pytest.mark.parametrize("settings", [{"neighbours": 0}, {"voters": 0}, {"share": 1.1}])
def test_settings_that_cannot_be(settings: dict) -> None:
    with pytest.raises(ValueError, match="TopoFilter needs"):
        TopoFilter(**settings)
