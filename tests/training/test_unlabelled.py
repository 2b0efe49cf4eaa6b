"""Rows without labels in the optimiser's step."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tamis import Naive, Sliding, Trainer
from tamis.buffers import WaitingRoom
from tamis.data import UNLABELLED, Picks, Samples
from tamis.losses import cross_entropy
from tamis.model_view import ModelView
from tamis.models import mlp
from tamis.selectors import Plausible
from tamis.training.unlabelled import SWAPPED, Batch, guess, join, picks_without_labels, swap
from tests.support.identical import identical

CLASSES = 3


TARGET = torch.tensor([0.1, 0.1, 0.8])


class Guessing(Naive):
    """Takes the first rows without labels for class 2."""

    def select_unlabelled(
        self, rows: Samples, view: ModelView, k: int, generator: Generator
    ) -> Picks:
        assert (rows.labels == UNLABELLED).all()
        return Picks(torch.arange(k), targets=TARGET.expand(k, CLASSES))


def slot_of(start: int, labelled: bool, count: int = 8) -> Samples:
    generator = Generator().manual_seed(start)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    inputs = torch.randn(count, 4, generator=generator)
    inputs[torch.arange(count), labels] += 6
    labels = labels if labelled else torch.full_like(labels, UNLABELLED)
    return Samples.of(inputs, labels, first_id=start)


def trainer_of(selector: object, waiting: WaitingRoom | None) -> Trainer:
    torch.manual_seed(0)
    model = mlp((4,), classes=CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer, selector, Sliding(100), k=8, waiting=waiting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("k", "held", "waiting", "expected"),
    [(32, 0, 0, 0), (32, 10, 0, 0), (32, 100, 100, 16), (10, 9_000, 1_000, 1), (8, 0, 50, 8)],
)
def test_the_share_of_picks_is_that_of_the_rows(
    k: int, held: int, waiting: int, expected: int
) -> None:
    assert picks_without_labels(k, held, waiting) == expected


def test_a_share_of_the_numbers_is_that_of_one_other_row() -> None:
    others = torch.arange(50.0)[:, None].expand(50, 400)  # each row has one number everywhere
    inputs = torch.full((20, 400), -1.0)
    found = swap(inputs, others, Generator().manual_seed(0))
    changed = found != inputs
    assert changed.float().mean() == pytest.approx(SWAPPED, abs=0.02)
    donors = [row[at].unique().tolist() for row, at in zip(found, changed, strict=True)]
    assert all(len(numbers) == 1 for numbers in donors)
    assert len({numbers[0] for numbers in donors}) > 5


def naive_loss(logits: Tensor, targets: Tensor, weights: Tensor | None) -> float:
    """Return the mean over picks of a weight above 0, one at a time."""
    losses = [
        -sum(t * p for t, p in zip(target, row, strict=True))
        for target, row in zip(targets.tolist(), logits.log_softmax(dim=1).tolist(), strict=True)
    ]
    kept = [1.0] * len(losses) if weights is None else (weights > 0).float().tolist()
    return sum(one * keep for one, keep in zip(losses, kept, strict=True)) / sum(kept)


@pytest.mark.parametrize("given_fakes", [0, 2])
@pytest.mark.parametrize("guessed_fakes", [0, 1])
@pytest.mark.parametrize("hard", [True, False])
def test_the_loss_is_the_mean_over_all_real_picks(
    given_fakes: int, guessed_fakes: int, hard: bool
) -> None:
    """On a GPU some picks have weight 0, and the others weigh more for it."""
    generator = Generator().manual_seed(1)

    def weights_of(rows: int, fakes: int) -> Tensor | None:
        real = torch.arange(rows) >= fakes
        return real * (rows / real.sum()) if fakes else None

    labels = torch.randint(CLASSES, (6,), generator=generator)
    shares = torch.eye(CLASSES)[labels]
    soft = torch.rand(4, CLASSES, generator=generator).softmax(dim=1)
    given = Batch(torch.randn(6, 4), labels if hard else shares, weights_of(6, given_fakes))
    guessed = Batch(torch.randn(4, 4), soft, weights_of(4, guessed_fakes))
    both = join(given, guessed, CLASSES)
    assert both.inputs.equal(torch.cat([given.inputs, guessed.inputs]))
    assert both.targets.equal(torch.cat([shares, soft]))
    logits = torch.randn(10, CLASSES, generator=generator)
    losses = cross_entropy(logits, both.targets)
    loss = (losses if both.weights is None else losses * both.weights).mean()
    assert loss.item() == pytest.approx(naive_loss(logits, both.targets, both.weights), abs=1e-5)


def test_only_selectors_that_use_them_get_rows_that_wait() -> None:
    trainer = trainer_of(Naive(), WaitingRoom())
    trainer.step(slot_of(0, labelled=True))
    trainer.step(slot_of(100, labelled=False))
    settings = (trainer.view, 8, 8, Generator().manual_seed(0))
    assert guess(Naive(), trainer.waiting, *settings) is None
    assert guess(Guessing(), None, *settings) is None
    assert guess(Guessing(), WaitingRoom(), *settings) is None
    found = guess(Guessing(), trainer.waiting, *settings)
    assert found is not None
    assert len(found.inputs) == 4


def test_they_teach_and_are_neither_counted_as_picks_nor_as_used() -> None:
    errors = []
    for selector in (Naive(), Guessing()):
        trainer = trainer_of(selector, WaitingRoom())
        trainer.step(slot_of(0, labelled=True))
        slot = trainer.step(slot_of(100, labelled=False))
        for _ in range(150):
            slot = trainer.step()
        assert trainer.waiting is not None
        waiting = trainer.waiting.pool()
        errors.append((trainer.now.probabilities(waiting.inputs[:4]) - TARGET).abs().mean())
        assert (slot.ids < 100).all()
        assert int(slot.class_picks.sum()) == 8
        assert not waiting.uses.any()
    assert errors[1] < errors[0] / 2


def test_without_such_rows_all_numbers_are_the_same_to_the_bit() -> None:
    alone, beside = trainer_of(Plausible(), None), trainer_of(Plausible(), WaitingRoom())
    for start in range(0, 400, 8):
        for trainer in (alone, beside):
            trainer.step(slot_of(start, labelled=True))
    assert identical(alone.model.state_dict(), beside.model.state_dict())
    assert identical(alone.selector.state_dict(), beside.selector.state_dict())  # type: ignore[attr-defined]


def test_saved_and_resumed_equals_unbroken_while_they_are_used() -> None:
    def play(breaks: bool) -> tuple[Trainer, list[int]]:
        trainer, guessed = trainer_of(Watched(), WaitingRoom(rows=50)), []
        for slot in range(480):
            if breaks and slot in (300, 440):
                state = trainer.state_dict()
                trainer = trainer_of(Watched(), WaitingRoom(rows=50))
                trainer.load_state_dict(state)
            trainer.step(slot_of(8 * slot, labelled=slot % 3 == 0))
            guessed.append(trainer.selector.guessed)  # type: ignore[attr-defined]
        return trainer, guessed

    unbroken, counts = play(breaks=False)
    assert counts[200] == 0
    assert counts[-1] > 100
    broken, _ = play(breaks=True)
    assert identical(broken.state_dict(), unbroken.state_dict())


class Watched(Plausible):
    """Counts its picks without labels."""

    guessed = 0

    def select_unlabelled(
        self, rows: Samples, view: ModelView, k: int, generator: Generator
    ) -> Picks:
        picks = super().select_unlabelled(rows, view, k, generator)
        self.guessed += len(picks)
        return picks
