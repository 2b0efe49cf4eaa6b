"""SSR against its rule in plain Python: relabel, then keep where neighbours agree."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Generator, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.selectors import SSR
from tamis.selectors.ssr import draw_balanced

Bank = dict[int, tuple[int, list[float]]]


def unit(point: list[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in point))
    return [value / length for value in point]


def relabelled(shares: list[float], label: int, confident: float) -> int:
    return shares.index(max(shares)) if max(shares) > confident else label


def is_kept(selector: SSR, bank: Bank, point: list[float], label: int, classes: int) -> bool:
    """Return the votes of the nearest rows, each class over its frequency in the bank."""
    voters = min(selector.neighbours, max(1, len(bank) // classes))
    near = sorted(bank.values(), key=lambda row: -sum(map(math.prod, zip(row[1], point))))  # noqa: B905
    frequency = Counter(vote for vote, _ in bank.values())
    votes = Counter(vote for vote, _ in near[:voters])
    balanced = {vote: count / frequency[vote] for vote, count in votes.items()}
    return balanced.get(label, 0.0) / max(balanced.values()) >= selector.share - 1e-9


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_picks_are_those_of_the_rule(blobs: Samples, share: float) -> None:
    model = start(mlp, (2,), 3, seed=1).double()
    pool = Samples.of(blobs.inputs.double(), blobs.labels)
    selector = SSR(confident=0.4, share=share, neighbours=9, judged=1, bank=120)
    view, bank, relabels, drops = ModelView(model), Bank(), 0, 0
    for slot in range(4):
        rows = torch.randperm(300, generator=Generator().manual_seed(slot))[:60]
        features, shares = view.features_and_probabilities(pool.inputs[rows])
        labels = [
            relabelled(p, int(y), 0.4)
            for p, y in zip(shares.tolist(), pool.labels[rows], strict=True)
        ]
        points = [unit(point) for point in features.float().tolist()]
        for row, label, point in zip(rows.tolist(), labels, points, strict=True):
            bank.pop(row, None)
            bank[row] = label, point
        bank = dict(list(bank.items())[-120:])
        wanted = {
            row: label
            for row, label, point in zip(rows.tolist(), labels, points, strict=True)
            if is_kept(selector, bank, point, label, 3)
        }
        picks = selector.select(pool, view, 60, Generator().manual_seed(slot))
        found = zip(picks.rows.tolist(), picks.targets.argmax(dim=1).tolist(), strict=True)
        assert dict(found) == wanted
        assert (picks.targets.sum(dim=1) == 1).all()
        drops += 60 - len(wanted)
        relabels += sum(label != pool.labels[row] for row, label in wanted.items())
        with torch.no_grad():
            model[-1].weight.mul_(1.5)  # other probabilities in the next slot
    assert drops
    assert relabels
    assert selector.state_dict()["ids"].tolist() == list(bank)


def test_wrong_labels_are_dropped_or_corrected(blobs: Samples, blob_model: nn.Module) -> None:
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    for confident in (0.9, 1.0):  # by the model and the neighbours, and by the neighbours alone
        selector, g = SSR(confident=confident), Generator().manual_seed(0)
        for _ in range(10):
            picks = selector.select(blobs, ModelView(blob_model), 64, g)
        assert (picks.targets.argmax(dim=1) == right[picks.rows]).float().mean() > 0.97


def test_classes_are_drawn_equally_often() -> None:
    labels = torch.tensor([0] * 90 + [1] * 10)
    g = Generator().manual_seed(0)
    drawn = torch.cat([labels[draw_balanced(labels, 4, g)] for _ in range(500)])
    assert drawn.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert sorted(draw_balanced(labels, 100, g).tolist()) == list(range(100))


@pytest.mark.parametrize(
    "settings", [{"confident": 0.0}, {"share": 1.1}, {"neighbours": 0}, {"judged": 0}, {"bank": 0}]
)
def test_wrong_settings_get_a_sentence(settings: dict) -> None:
    with pytest.raises(ValueError, match="SSR"):
        SSR(**settings)
