"""FixMatch against its loss: the mean over labels, plus the mean over confident guesses."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, nn

from tamis import Growing, Trainer
from tamis.data import Samples
from tamis.losses import cross_entropy
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.selectors import ELR, FixMatch, Naive, Oracle
from tamis.selectors.fixmatch import Strong


@pytest.mark.parametrize("trusted", [Naive(), Oracle()])
def test_the_loss_is_that_of_the_paper(blobs: Samples, trusted) -> None:
    model = start(mlp, (2,), 3, seed=2)
    with torch.no_grad():
        model[-1].weight.mul_(8)
    selector, view, threshold = FixMatch(trusted, 0.8, 3, strength=0.5), ModelView(model), 0.8
    guessed = 0
    for seed in range(10):
        g = Generator().manual_seed(seed)
        own = trusted.select(blobs, view, 8, g).rows.tolist()
        others = torch.randperm(300, generator=g)[:24].tolist()
        others = [row for row in others if row not in own]
        logs = model(blobs.inputs).log_softmax(dim=1)
        labelled = [-logs[row, blobs.labels[row]] for row in own]
        unlabelled = []
        for row in others:
            if logs[row].max().exp() >= threshold:
                unlabelled.append(-logs[row].max())
        wanted = sum(labelled) / len(own) + 0.5 * sum(unlabelled) / len(others)
        picks = selector.select(blobs, view, 32, Generator().manual_seed(seed))
        losses = cross_entropy(model(blobs.inputs[picks.rows]), picks.targets)
        torch.testing.assert_close((losses * picks.weights).mean(), wanted)
        assert picks.rows[: len(own)].tolist() == own
        guessed += len(unlabelled)
    assert 0 < guessed < 240


def test_labels_of_guessed_rows_are_not_looked_at(blobs: Samples, blob_model: nn.Module) -> None:
    with torch.no_grad():
        blob_model.weight.mul_(5)
    other = Samples.of(blobs.inputs, (blobs.labels + 1) % 3)
    one, two = (
        FixMatch().select(pool, ModelView(blob_model), 32, Generator().manual_seed(0))
        for pool in (blobs, other)
    )
    assert one.rows.equal(two.rows)
    assert one.targets[8:].equal(two.targets[8:])
    assert len(one) > 8


def test_strong_views_are_of_guessed_rows_alone(blobs: Samples, blob_model: nn.Module) -> None:
    selector = FixMatch()
    strong = Strong(selector, lambda x, y, classes, generator: (x + 100, y))
    inputs, targets = blobs.inputs[:12], blobs.labels[:12]
    g = Generator().manual_seed(0)
    assert strong(inputs, targets, 3, g)[0].equal(inputs), "nothing was picked so far"
    selector.select(blobs, ModelView(blob_model), 32, g)
    changed, same = strong(inputs, targets, 3, g)
    assert changed[:8].equal(inputs[:8])
    assert (changed[8:] > 90).all()
    assert same.equal(targets)


def test_a_trainer_runs_it(blobs: Samples) -> None:
    model, selector = start(mlp, (2,), 3, seed=0), FixMatch(Oracle())
    strong = Strong(selector, lambda x, y, classes, generator: (x + 0.1, y))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, selector, Growing(300), augment=strong)
    slots = list(trainer.run([blobs] + [None] * 150))
    assert slots[-1].purity == 1
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    assert trainer.accuracy(blobs.inputs, right).ema > 0.97


def test_wrong_settings_get_a_sentence() -> None:
    for settings in ({"threshold": 0.0}, {"unlabelled": 0}, {"strength": -1.0}):
        with pytest.raises(ValueError, match="FixMatch needs"):
            FixMatch(**settings)
    with pytest.raises(ValueError, match="ELR has one"):
        FixMatch(ELR())
