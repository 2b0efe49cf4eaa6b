"""Augmentation against naive loops. What was drawn is read off the result."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from tamis import Growing, Naive, Samples, Trainer
from tamis.models import mlp, start
from tamis.training.augment import Both, DropTokens, Mixup, ShiftAndFlip, TwoViews

ALL = (Mixup(), ShiftAndFlip(), Both(ShiftAndFlip(), Mixup()))
each = pytest.mark.parametrize("augment", ALL, ids=lambda augment: type(augment).__name__)


def drawn_by_mixup(mixed: Tensor) -> tuple[float, list[int]]:
    """Read the share and the other rows off rows of the identity, mixed."""
    share = mixed.diagonal().min().item()
    others = [
        next((j for j, part in enumerate(row) if j != i and part > 0), i)
        for i, row in enumerate(mixed.tolist())
    ]
    return share, others


@pytest.mark.parametrize("soft", [False, True])
def test_mixup_is_the_papers(generator: Generator, soft: bool) -> None:
    rows = 8
    labels = torch.randint(3, (rows,), generator=generator)
    shares = torch.rand(rows, 4, generator=generator).softmax(dim=1)
    inputs = torch.eye(rows)[:, None, :].repeat(1, 2, 1)
    mixed, targets = Mixup(1.0)(inputs, shares if soft else labels, 4, generator)
    share, others = drawn_by_mixup(mixed[:, 0])
    assert 0 < share < 1
    assert sorted(others) == list(range(rows))
    assert others != list(range(rows))
    assert targets.shape == (rows, 4)
    before = shares.tolist() if soft else [[float(c == y) for c in range(4)] for y in labels]
    for i, j in enumerate(others):
        for channel in range(2):
            for x in range(rows):
                expected = share * (x == i) + (1 - share) * (x == j)
                assert mixed[i, channel, x].item() == pytest.approx(expected, abs=1e-6)
        for c in range(4):
            expected = share * before[i][c] + (1 - share) * before[j][c]
            assert targets[i, c].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("strength", [0.2, 1.0, 5.0])
def test_shares_follow_the_beta_distribution(generator: Generator, strength: float) -> None:
    pair = torch.eye(2)
    shares = []
    while len(shares) < 1000:
        mixed, _ = Mixup(strength)(pair, torch.arange(2), 2, generator)
        if not torch.equal(mixed, pair):  # else the rows were mixed with themselves
            shares.append(mixed[0, 0].item())
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)
    assert np.var(shares) == pytest.approx(1 / (4 * (2 * strength + 1)), rel=0.15)


def test_mixup_keeps_the_type_of_its_inputs(generator: Generator) -> None:
    for kind in (torch.float64, torch.bfloat16):
        inputs, targets = Mixup()(torch.ones(3, 2, dtype=kind), torch.arange(3), 3, generator)
        assert inputs.dtype == targets.dtype == kind


def test_mixup_of_one_row_is_the_row(generator: Generator) -> None:
    inputs, targets = Mixup()(torch.ones(1, 2), torch.tensor([1]), 3, generator)
    torch.testing.assert_close(inputs, torch.ones(1, 2))
    torch.testing.assert_close(targets, torch.tensor([[0.0, 1.0, 0.0]]))


def test_mixup_refuses_what_cannot_be_mixed(generator: Generator) -> None:
    with pytest.raises(TypeError, match="uint8"):
        Mixup()(torch.ones(2, 2, dtype=torch.uint8), torch.arange(2), 2, generator)
    for strength in (0, -1, torch.inf, torch.nan):
        with pytest.raises(ValueError, match="strength"):
            Mixup(strength)


def moved(image: list[list[float]], down: int, right: int, mirrored: bool) -> list[list[float]]:
    """Move an image, pixel by pixel; what is uncovered is 0. The mirror comes last."""
    height, width = len(image), len(image[0])
    result = [[0.0] * width for _ in range(height)]
    for y in range(height):
        for x in range(width):
            if 0 <= y - down < height and 0 <= x - right < width:
                result[y][width - 1 - x if mirrored else x] = image[y - down][x - right]
    return result


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("channels", [None, 3])
def test_images_are_moved_and_mirrored(
    generator: Generator, flip: bool, channels: int | None
) -> None:
    shape = (5, 4) if channels is None else (channels, 5, 4)
    images = 1 + torch.rand(400, *shape, generator=generator)
    labels = torch.arange(400)
    result, targets = ShiftAndFlip(pad=1, flip=flip)(images, labels, 400, generator)
    assert targets is labels
    assert result.shape == images.shape
    draws: Counter[tuple[int, int, bool]] = Counter()
    moves = [(d, r, m) for d in (-1, 0, 1) for r in (-1, 0, 1) for m in (False, True)[: 1 + flip]]
    for before, after in zip(
        images.unsqueeze(1) if channels is None else images,
        result.unsqueeze(1) if channels is None else result,
        strict=True,
    ):
        fitting = [
            move
            for move in moves
            if [moved(layer, *move) for layer in before.tolist()] == after.tolist()
        ]
        assert len(fitting) == 1
        draws[fitting[0]] += 1
    assert set(draws) == set(moves)
    assert max(draws.values()) < 3 * 400 / len(moves)


def test_no_move_is_no_change(generator: Generator) -> None:
    images = torch.randint(256, (3, 2, 4, 4), generator=generator, dtype=torch.uint8)
    result, _ = ShiftAndFlip(pad=0, flip=False)(images, torch.arange(3), 3, generator)
    assert torch.equal(result, images)


def test_shifting_refuses_what_is_no_image(generator: Generator) -> None:
    with pytest.raises(TypeError, match=r"\(3, 2\) are not images"):
        ShiftAndFlip()(torch.ones(3, 2), torch.arange(3), 3, generator)
    with pytest.raises(ValueError, match="pad=-1"):
        ShiftAndFlip(pad=-1)


def test_both_is_one_after_the_other(generator: Generator) -> None:
    images, labels = torch.rand(6, 5, 5, generator=generator), torch.arange(6)
    first, second = ShiftAndFlip(), Mixup()
    ours = Both(first, second)(images, labels, 6, Generator().manual_seed(1))
    again = Generator().manual_seed(1)
    theirs = second(*first(images, labels, 6, again), 6, again)
    assert all(map(torch.equal, ours, theirs))


@each
def test_random_numbers_come_from_the_generator_alone(augment, generator: Generator) -> None:
    images, labels = torch.rand(6, 5, 5, generator=generator), torch.arange(6)
    kept = images.clone()
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (
        augment(images, labels, 6, Generator().manual_seed(seed))[0] for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    assert torch.equal(images, kept)


@each
def test_a_trainer_takes_it(augment, generator: Generator) -> None:
    images = torch.rand(40, 1, 6, 6, generator=generator)
    labels = torch.randint(3, (40,), generator=generator)

    def losses() -> list[float | None]:
        model = start(mlp, (1, 6, 6), 3, 0)
        trainer = Trainer(
            model,
            torch.optim.SGD(model.parameters(), 0.1),
            Naive(),
            Growing(40),
            k=8,
            augment=augment,
        )
        return [slot.loss for slot in trainer.run([Samples.of(images, labels)] + [None] * 5)]

    assert losses() == losses()
    assert None not in losses()


def test_tokens_are_dropped_and_none_appear(generator: Generator) -> None:
    tokens = torch.randint(0, 5, (200, 30), generator=generator).float()
    result, targets = DropTokens(0.3)(tokens, torch.arange(200), 200, generator)
    assert torch.equal(targets, torch.arange(200))
    dropped = result != tokens
    assert not result[dropped].any()
    assert 0.25 < dropped[tokens > 0].float().mean() < 0.35
    with pytest.raises(ValueError, match="share=1"):
        DropTokens(1.0)


def test_two_views_are_all_rows_twice(generator: Generator) -> None:
    inputs, labels = torch.rand(6, 1, 8, 8, generator=generator), torch.arange(6)
    state = generator.get_state()
    views, targets = TwoViews(ShiftAndFlip(2))(inputs, labels, 6, generator)
    generator.set_state(state)
    assert views[:6].equal(inputs)
    assert views[6:].equal(ShiftAndFlip(2)(inputs, labels, 6, generator)[0])
    assert targets.tolist() == [*range(6), *range(6)]
