"""Every kind of noise makes the share of labels wrong that was requested, and marks which."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tamis.streams import (
    NOISES,
    Confusion,
    InstanceDependent,
    OpenSet,
    PairFlip,
    Redrawn,
    Symmetric,
)

ROWS, CLASSES = 20_000, 10
RATES = (0.0, 0.1, 0.5, 0.8)
LABEL_KINDS = [kind for kind in NOISES if kind is not OpenSet]

every_kind = pytest.mark.parametrize("kind", NOISES)
every_label_kind = pytest.mark.parametrize("kind", LABEL_KINDS)
every_rate = pytest.mark.parametrize("rate", RATES)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def close(share: float, expected: float, rows: int) -> bool:
    """Within 4 standard errors of a share of so many rows."""
    return abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / rows) + 1e-6


def share(these: Tensor) -> float:
    return these.double().mean().item()


@pytest.fixture(scope="module")
def rows() -> tuple[Tensor, Tensor]:
    generator = seeded(1)
    inputs = torch.randn(ROWS, 3, generator=generator)
    return inputs, torch.randint(CLASSES, (ROWS,), generator=generator)


@every_kind
@every_rate
def test_realised_rate_is_the_one_requested(
    rows: Any, build_noise: Any, kind: type, rate: float
) -> None:
    corrupted = build_noise(kind, *rows).corrupt(*rows, rate, seeded())
    assert close(share(~corrupted.clean), rate, ROWS)


@every_label_kind
@every_rate
def test_label_kinds_mark_which_labels_are_wrong(
    rows: Any, build_noise: Any, kind: type, rate: float
) -> None:
    inputs, truth = rows
    corrupted = build_noise(kind, inputs, truth).corrupt(inputs, truth, rate, seeded())
    assert torch.equal(corrupted.clean, corrupted.labels == truth)
    assert torch.equal(corrupted.inputs, inputs)


@every_rate
def test_open_set_marks_which_inputs_were_replaced(rows: Any, rate: float) -> None:
    inputs, truth = rows
    strangers = inputs[:100] + 1000
    corrupted = OpenSet(strangers).corrupt(inputs, truth, rate, seeded())
    assert torch.equal(corrupted.clean, (corrupted.inputs == inputs).all(dim=1))
    assert torch.equal(corrupted.labels, truth)
    known = {tuple(stranger) for stranger in strangers.tolist()}
    assert {tuple(row) for row in corrupted.inputs[~corrupted.clean].tolist()} <= known


@every_kind
def test_labels_stay_in_range_and_keep_their_type(rows: Any, build_noise: Any, kind: type) -> None:
    labels = build_noise(kind, *rows).corrupt(*rows, 0.8, seeded()).labels
    assert labels.dtype == torch.int64
    assert 0 <= labels.min() <= labels.max() < CLASSES


@every_kind
def test_originals_are_not_touched(rows: Any, build_noise: Any, kind: type) -> None:
    inputs, truth = (column.clone() for column in rows)
    build_noise(kind, inputs, truth).corrupt(inputs, truth, 0.8, seeded())
    assert torch.equal(inputs, rows[0])
    assert torch.equal(truth, rows[1])


@every_kind
def test_same_seed_same_noise_and_another_seed_another(
    rows: Any, build_noise: Any, kind: type
) -> None:
    noise = build_noise(kind, *rows)
    first, again, other = (noise.corrupt(*rows, 0.5, seeded(seed)) for seed in (3, 3, 4))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first.clean, other.clean)


@pytest.mark.parametrize("kind", [Symmetric, Redrawn])
def test_wrong_labels_are_even_over_the_other_classes(rows: Any, kind: type) -> None:
    truth = rows[1]
    corrupted = kind(CLASSES).corrupt(*rows, 0.5, seeded())
    wrong = ~corrupted.clean
    moved = (corrupted.labels - truth)[wrong] % CLASSES
    counts = torch.bincount(moved, minlength=CLASSES)[1:].double()
    even = counts.sum() / (CLASSES - 1)
    chi_square = ((counts - even) ** 2 / even).sum()
    assert chi_square < 26.1  # 8 degrees of freedom: exceeded at random once in 1,000


def test_redrawn_reaches_its_highest_rate_and_refuses_a_higher_one(rows: Any) -> None:
    highest = 1 - 1 / CLASSES
    wrong = ~Redrawn(CLASSES).corrupt(*rows, highest, seeded()).clean
    assert close(share(wrong), highest, ROWS)
    with pytest.raises(ValueError, match=r"10 classes .* 0\.900, got a noise rate of 0\.910"):
        Redrawn(CLASSES).corrupt(*rows, 0.91, seeded())


def test_pair_flip_goes_to_the_next_class(rows: Any) -> None:
    truth = rows[1]
    corrupted = PairFlip(CLASSES).corrupt(*rows, 0.5, seeded())
    wrong = ~corrupted.clean
    assert torch.equal(corrupted.labels[wrong], (truth[wrong] + 1) % CLASSES)


MATRIX = torch.tensor([[0.9, 0.1, 0.0], [0.15, 0.7, 0.15], [0.2, 0.0, 0.8]])


def confused(shares: Tensor, rate: float, known: bool) -> tuple[Tensor, Tensor]:
    truth = torch.multinomial(shares, ROWS, replacement=True, generator=seeded(2))
    noise = Confusion(MATRIX, shares if known else None)
    return truth, noise.corrupt(torch.zeros(ROWS, 1), truth, rate, seeded()).labels


def test_confusion_rates_are_in_proportion_to_the_matrix() -> None:
    truth, labels = confused(torch.ones(3), rate=0.4, known=False)
    for right in range(3):
        given = labels[truth == right]
        for wrong in {0, 1, 2} - {right}:
            # The matrix is wrong 0.2 of the time over even classes: 0.4 doubles every entry.
            expected = 2 * MATRIX[right, wrong].item()
            assert close(share(given == wrong), expected, len(given))


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_confusion_keeps_the_rate_over_uneven_classes(rate: float) -> None:
    truth, labels = confused(torch.tensor([6.0, 3.0, 1.0]), rate, known=True)
    assert close(share(labels != truth), rate, ROWS)


def test_confusion_refuses_a_rate_out_of_reach() -> None:
    with pytest.raises(ValueError, match=r"at most 0\.667, got 0\.700"):
        confused(torch.ones(3), rate=0.7, known=False)


def test_confusion_that_confuses_nothing_refuses_every_rate_but_0(rows: Any) -> None:
    noise = Confusion(torch.eye(CLASSES))
    assert noise.corrupt(*rows, 0.0, seeded()).clean.all()
    with pytest.raises(ValueError, match="at most 0"):
        noise.corrupt(*rows, 0.5, seeded())


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.9, 0.1]], "square"),
        ([[1.2, -0.2], [0.0, 1.0]], "negative"),
        ([[0.9, 0.2], [0.0, 1.0]], "sums to 1"),
        ([[math.nan, 1.0], [0.0, 1.0]], "sums to 1"),
    ],
)
def test_bad_confusion_matrices_are_refused(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Confusion(torch.tensor(matrix))


def test_instance_dependent_noise_is_worse_on_hard_inputs(rows: Any) -> None:
    inputs, truth = rows
    noise = InstanceDependent(CLASSES, inputs, spread=0.3)
    # Over many draws, an input's share of wrong labels shows its own rate.
    wrong = torch.stack(
        [~noise.corrupt(inputs[:500], truth[:500], 0.4, seeded(seed)).clean for seed in range(200)]
    )
    rates = wrong.double().mean(dim=0).sort().values
    # Rates run evenly from 0.1 to 0.7, so the means of the outer fifths are 0.16 and 0.64.
    assert rates[:100].mean() == pytest.approx(0.16, abs=0.05)
    assert rates[-100:].mean() == pytest.approx(0.64, abs=0.05)


def test_instance_dependent_wrong_class_depends_on_the_input() -> None:
    inputs = torch.randn(2, 3, generator=seeded(5)).repeat_interleave(5_000, dim=0)
    truth = torch.zeros(10_000, dtype=torch.long)
    reference = torch.randn(1_000, 3, generator=seeded(6))
    labels = InstanceDependent(CLASSES, reference).corrupt(inputs, truth, 0.5, seeded()).labels
    ones, others = (
        torch.bincount(part[part > 0], minlength=CLASSES).double() for part in labels.split(5_000)
    )
    assert (ones / ones.sum() - others / others.sum()).abs().sum() > 0.5


def test_open_set_refuses_strangers_of_another_shape(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"shape \(4,\) do not fit a stream of shape \(3,\)"):
        OpenSet(torch.zeros(5, 4)).corrupt(*rows, 0.5, seeded())


def test_open_set_replaces_complete_images() -> None:
    images, labels = torch.zeros(100, 2, 4, 4), torch.zeros(100, dtype=torch.long)
    corrupted = OpenSet(torch.ones(1, 2, 4, 4)).corrupt(images, labels, 0.5, seeded())
    assert torch.equal(corrupted.inputs.flatten(1).mean(dim=1), (~corrupted.clean).float())
