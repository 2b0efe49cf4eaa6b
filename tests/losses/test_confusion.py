"""The running confusion against a tally by hand, and when it counts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.losses import Backward, Forward, RunningConfusion, even_confusion
from tamis.losses.confusion import check_confusion
from tamis.model_view import ModelView

each = pytest.mark.parametrize("kind", [Forward, Backward])


def naive(
    batches: list[tuple[Tensor, Tensor]], classes: int, half_life: float, prior: float
) -> Tensor:
    """Tally row by row, every row faded by the rows of the batches after its own."""
    tally = [[0.0] * classes for _ in range(classes)]
    for number, (logits, shares) in enumerate(batches):
        later = sum(len(after) for after, _ in batches[number + 1 :])
        for row, target in zip(logits.tolist(), shares.tolist(), strict=True):
            total = sum(math.exp(z) for z in row)
            for true in range(classes):
                for given in range(classes):
                    probability = math.exp(row[true]) / total
                    tally[true][given] += probability * target[given] * 0.5 ** (later / half_life)
    for true in range(classes):
        tally[true][true] += prior
    return torch.tensor([[count / sum(row) for count in row] for row in tally])


@each
def test_it_is_the_faded_tally(kind, generator: Generator) -> None:
    batches = []
    criterion = kind(RunningConfusion(half_life=20, prior=2))
    for count in (5, 1, 13, 8):
        logits = 2 * torch.randn(count, 3, generator=generator)
        labels = torch.randint(3, (count,), generator=generator)
        shares = nn.functional.one_hot(labels, 3).float()
        if count == 13:
            shares = torch.rand(13, 3, generator=generator)
            shares /= shares.sum(dim=1, keepdim=True)
        batches.append((logits, shares))
        criterion(logits, shares if count == 13 else labels)
    found = criterion.confusion.matrix(3)
    torch.testing.assert_close(found, naive(batches, 3, 20, 2), rtol=1e-4, atol=1e-5)


def test_it_starts_at_the_identity_and_leaves_it_as_rows_come(generator: Generator) -> None:
    running, logits = RunningConfusion(), torch.zeros(10, 3)
    assert torch.equal(running.matrix(3), torch.eye(3))
    diagonals = []
    for _ in range(30):
        running.update(logits, torch.randint(3, (10,), generator=generator))
        matrix = running.matrix(3)
        check_confusion(matrix)
        diagonals.append(matrix.diagonal().mean().item())
    assert diagonals == sorted(diagonals, reverse=True)
    assert diagonals[0] > 0.9
    assert diagonals[-1] < 0.7


def test_it_finds_the_confusion_and_follows_it(confusion: Tensor, generator: Generator) -> None:
    """A model that is right reveals the labels' confusion, and a new one once the old has faded."""
    running = RunningConfusion(half_life=2_000)
    for truth in (confusion, confusion.roll(1, dims=0).roll(1, dims=1)):
        for _ in range(300):
            classes = torch.randint(4, (64,), generator=generator)
            labels = torch.multinomial(truth[classes], 1, generator=generator)[:, 0]
            running.update(20 * nn.functional.one_hot(classes, 4).float(), labels)
        found = running.matrix(4)
        assert (found - truth).abs().max() < 0.08


@each
def test_it_counts_what_is_learned_from_alone(kind, blobs: Samples, blob_model: nn.Module) -> None:
    criterion = kind()
    blind = ModelView(blob_model, criterion=criterion)
    blind.losses(blobs.inputs, blobs.labels)
    blind.feature_gradients(blobs.inputs, blobs.labels)
    with torch.no_grad():
        criterion(blob_model(blobs.inputs), blobs.labels)
    assert criterion.confusion.state_dict()["tally"].numel() == 0
    criterion(blob_model(blobs.inputs), blobs.labels)
    assert criterion.confusion.state_dict()["tally"].sum().item() == pytest.approx(300, rel=1e-4)


@each
def test_a_batch_is_judged_by_what_was_known_before_it(
    kind, logits: Tensor, labels: Tensor
) -> None:
    criterion = kind()
    criterion(logits, labels)
    with torch.no_grad():
        before = criterion(logits, labels)
    torch.testing.assert_close(criterion(logits, labels), before)
    with torch.no_grad():
        assert not torch.allclose(criterion(logits, labels), before)


@each
def test_a_bad_label_is_not_counted(kind, logits: Tensor, labels: Tensor) -> None:
    criterion = kind()
    criterion(logits, labels)
    before = criterion.confusion.state_dict()["tally"]
    labels[0] = -100
    with pytest.raises(IndexError):
        criterion(logits, labels)
    assert torch.equal(criterion.confusion.state_dict()["tally"], before)


def test_rows_that_are_not_finite_neither_count_nor_fade(generator: Generator) -> None:
    running, other = RunningConfusion(half_life=10), RunningConfusion(half_life=10)
    for _ in range(2):
        logits = torch.randn(6, 3, generator=generator)
        labels = torch.randint(3, (6,), generator=generator)
        other.update(logits[:4], labels[:4])
        logits[4, 0], logits[5, 1] = torch.nan, torch.inf
        running.update(logits, labels)
    torch.testing.assert_close(running.state_dict()["tally"], other.state_dict()["tally"])


def test_saved_and_resumed_equals_unbroken(generator: Generator) -> None:
    def play(running: RunningConfusion, seeds: range) -> None:
        for seed in seeds:
            rng = Generator().manual_seed(seed)
            running.update(torch.randn(7, 3, generator=rng), torch.randint(3, (7,), generator=rng))

    unbroken, first, second = RunningConfusion(), RunningConfusion(), RunningConfusion()
    play(unbroken, range(6))
    play(first, range(3))
    state = first.state_dict()
    play(first, range(2))
    second.load_state_dict(state)
    play(second, range(3, 6))
    assert torch.equal(unbroken.state_dict()["tally"], second.state_dict()["tally"])
    fresh = RunningConfusion()
    fresh.load_state_dict(RunningConfusion().state_dict())
    assert torch.equal(fresh.matrix(3), torch.eye(3))


def test_another_number_of_classes_is_refused(logits: Tensor, labels: Tensor) -> None:
    running = RunningConfusion()
    running.update(logits, labels)
    with pytest.raises(ValueError, match="over 4 classes, the logits 3"):
        running.matrix(3)


def test_its_settings_are_all_it_shows(logits: Tensor, labels: Tensor) -> None:
    running = RunningConfusion()
    running.update(logits, labels)
    assert repr(running) == "RunningConfusion(half_life=5000.0, prior=50.0)"
    for settings in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="needs"):
            RunningConfusion(*settings)


def test_an_even_confusion() -> None:
    for classes in (1, 2, 10):
        check_confusion(even_confusion(classes, 0.3))
    assert even_confusion(10, 0.7)[0, 0].item() == pytest.approx(0.7)
    with pytest.raises(ValueError, match="lies in"):
        even_confusion(3, 1.2)


@pytest.mark.parametrize(
    "matrix", [torch.ones(2, 3) / 3, torch.ones(2), 2 * torch.eye(2), torch.eye(2) * torch.nan,
               torch.tensor([[1.5, -0.5], [0.0, 1.0]])]
)  # fmt: skip
def test_what_is_no_confusion_is_refused(matrix: Tensor) -> None:
    with pytest.raises(ValueError, match="confusion matrix"):
        check_confusion(matrix)
