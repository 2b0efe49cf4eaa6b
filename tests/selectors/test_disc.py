"""DISC against its rule in plain Python: thresholds by row and view, three kinds of rows."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.losses import GCE, cross_entropy
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.selectors import DISC


def push(
    inputs: Tensor, targets: Tensor, classes: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return inputs that are moved a little: a strong view without random numbers."""
    return inputs + 0.3, targets


def verdict(selector: DISC, looks: int, weak, strong, label: int, bars) -> tuple[int, float]:
    """Return the class to learn of one row, and the weight; 0 where it is left out."""
    above = [weak[label] > bars[0], strong[label] > bars[1]]
    if looks < selector.looks or all(above):
        return label, 1.0
    if any(above):
        return label, ((weak[label] + strong[label]) / 2) ** selector.power
    mean = [(one + other) / 2 for one, other in zip(weak, strong, strict=True)]
    if max(mean) > min(sum(bars) / 2 + selector.margin, selector.ceiling):
        return mean.index(max(mean)), 1.0
    return label, 0.0


def test_picks_are_those_of_the_rule(blobs: Samples) -> None:
    pool = Samples.of(blobs.inputs.double(), blobs.labels)[:100]
    model, rule = start(mlp, (2,), 3, seed=0).double(), (0.6, 0.2, 2, 0.7)
    selector = DISC(*rule, strong=push)
    view, optimizer = ModelView(model), torch.optim.SGD(model.parameters(), 0.5)
    bars, looks, kinds = {}, {}, set()
    for slot in range(25):
        rows = torch.randperm(100, generator=Generator().manual_seed(slot))[:60]
        both = [view.probabilities(pool.inputs[rows] + move).float() for move in (0, 0.3)]
        wanted = {}
        for row, weak, strong in zip(rows.tolist(), *(one.tolist() for one in both), strict=True):
            own = bars.get(row, [1 / 3, 1 / 3])
            label = int(pool.labels[row])
            learned, weight = verdict(selector, looks.get(row, 0), weak, strong, label, own)
            if weight:
                wanted[row] = learned, weight
                kinds.add("hard" if weight < 1 else "purified" if learned != label else "clean")
            else:
                kinds.add("left out")
            bars[row] = [0.6 * t + 0.4 * max(p) for t, p in zip(own, (weak, strong), strict=True)]
            looks[row] = looks.get(row, 0) + 1
        picks = selector.select(pool, view, 60, Generator().manual_seed(slot))
        learned = picks.targets.argmax(dim=1).tolist()
        assert dict(zip(picks.rows.tolist(), learned, strict=True)) == {
            row: label for row, (label, _) in wanted.items()
        }
        share = len(wanted) / 60
        weights = [weight * share for _, weight in wanted.values()]
        assert sorted(picks.weights.tolist()) == pytest.approx(sorted(weights), abs=1e-5)
        optimizer.zero_grad()
        losses = cross_entropy(model(pool.inputs[picks.rows]), picks.targets.double())
        (losses * picks.weights).mean().backward()
        optimizer.step()
    assert kinds == {"clean", "hard", "purified", "left out"}


def test_the_weight_of_a_hard_row_gives_the_generalised_cross_entropy(generator) -> None:
    logits = torch.randn(20, 4, generator=generator).double().requires_grad_()
    labels = torch.randint(4, (20,), generator=generator)
    own = logits.softmax(dim=1).gather(1, labels[:, None])[:, 0].detach()
    ours, theirs = (
        torch.autograd.grad(losses.sum(), logits)[0]
        for losses in (own**0.7 * cross_entropy(logits, labels), GCE(0.7)(logits, labels))
    )
    torch.testing.assert_close(ours, theirs)


def test_without_a_strong_view_no_row_is_hard(blobs: Samples, blob_model: nn.Module) -> None:
    selector, view = DISC(looks=0), ModelView(blob_model)
    for slot in range(30):
        picks = selector.select(blobs, view, 60, Generator().manual_seed(slot))
        assert len(picks.weights.unique()) == 1


def test_one_step_of_no_row_is_a_short_one(blobs: Samples, blob_model: nn.Module) -> None:
    """Where none passes, the nearest is picked, with the weight of one row of all judged."""
    selector = DISC(momentum=0.0, looks=0, margin=1.0, ceiling=1.0)
    blobs.labels[:] = (blobs.labels + 1) % 3
    view = ModelView(blob_model)
    for slot in range(30):
        picks = selector.select(blobs[:40], view, 40, Generator().manual_seed(slot))
    assert len(picks) == 1
    assert picks.weights.tolist() == pytest.approx([1 / 40])


@pytest.mark.parametrize("settings", [{"momentum": 1.0}, {"ceiling": 0.0}, {"power": 1.5}])
def test_wrong_settings_get_a_sentence(settings: dict) -> None:
    with pytest.raises(ValueError, match="DISC needs"):
        DISC(**settings)
