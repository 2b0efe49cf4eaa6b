"""Noise with structure: where it strikes, what it names, and that its rate is kept."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tamis.streams import AnnotatorTurns, Boundary, ClassLocal, digits, gaussians

RATES = (0.05, 0.3, 0.5, 0.8)
every_rate = pytest.mark.parametrize("rate", RATES)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def drawn(noise, inputs: Tensor, labels: Tensor, rate: float, draws: int) -> Tensor:
    """Which labels are wrong, a row a draw."""
    return torch.stack(
        [~noise.corrupt(inputs, labels, rate, seeded(seed)).clean for seed in range(draws)]
    )


@pytest.fixture(scope="module", params=[digits, gaussians], ids=["images", "columns"])
def data(request):
    return request.param()


@pytest.fixture(scope="module")
def boundary(data) -> Boundary:
    return Boundary(len(data.classes), data.inputs, data.labels)


@every_rate
def test_boundary_keeps_the_rate_over_draws(data, boundary: Boundary, rate: float) -> None:
    wrong = drawn(boundary, data.inputs, data.labels, rate, 200).double()
    error = (rate * (1 - rate) / wrong.numel()) ** 0.5
    assert abs(wrong.mean().item() - rate) < 4 * error


def test_boundary_rates_are_those_of_a_loop(data, boundary: Boundary) -> None:
    """Up to 0.2 below the rate all wrong, from 0.2 above it on none, a straight line between."""
    margins, runner_up = boundary.margins(data.inputs, data.labels)
    wrong = drawn(boundary, data.inputs, data.labels, 0.4, 400).double().mean(dim=0)
    order = margins.argsort().tolist()
    for place in range(0, len(order), 20):
        rank = (place + 0.5) / len(order)
        rate = 1.0 if rank < 0.2 else 0.0 if rank > 0.6 else (0.6 - rank) / 0.4
        assert wrong[order[place]].item() == pytest.approx(rate, abs=0.12)
    given = boundary.corrupt(data.inputs, data.labels, 0.4, seeded())
    assert torch.equal(given.labels[~given.clean], runner_up[~given.clean])
    assert (runner_up != data.labels).all()


def test_boundary_ranks_equal_margins_at_random() -> None:
    inputs, labels = torch.zeros(500, 2), torch.zeros(500, dtype=torch.long)
    wrong = drawn(Boundary(3, inputs, labels), inputs, labels, 0.3, 40)
    assert wrong.double().mean().item() == pytest.approx(0.3, abs=0.015)


def test_boundary_without_softness_is_a_threshold() -> None:
    data = digits()
    noise = Boundary(10, data.inputs, data.labels, softness=0)
    wrong = ~noise.corrupt(data.inputs, data.labels, 0.3, seeded()).clean
    margins = noise.margins(data.inputs, data.labels)[0]
    assert wrong.sum() == pytest.approx(0.3 * len(wrong), abs=1)
    assert margins[wrong].max() <= margins[~wrong].min()


def test_the_teacher_has_learned_and_is_the_same_for_a_seed() -> None:
    data = digits()
    one, again, other = (Boundary(10, data.inputs, data.labels, seed=seed) for seed in (1, 1, 2))
    margins = one.margins(data.test_inputs, data.test_labels)[0]
    assert (margins > 0).double().mean() > 0.93
    assert torch.equal(margins, again.margins(data.test_inputs, data.test_labels)[0])
    assert not torch.equal(margins, other.margins(data.test_inputs, data.test_labels)[0])


def test_the_teacher_draws_nothing_from_the_global_generator() -> None:
    data = gaussians()
    before = torch.random.get_rng_state()
    Boundary(2, data.inputs, data.labels)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("to_next", [False, True])
def test_only_labels_of_the_classes_that_are_hit_are_wrong(to_next: bool) -> None:
    truth = torch.arange(10).repeat(2000)
    noise = ClassLocal(10, (1, 4, 9), to_next)
    corrupted = noise.corrupt(torch.zeros(len(truth), 1), truth, 0.18, seeded())
    wrong = ~corrupted.clean
    assert wrong.double().mean().item() == pytest.approx(0.18, abs=0.011)
    moved = (corrupted.labels - truth) % 10
    for right in range(10):
        share = wrong[truth == right].double().mean().item()
        assert share == pytest.approx(0.6 if right in (1, 4, 9) else 0, abs=0.045)
    assert set(moved[wrong].tolist()) == ({1} if to_next else set(range(1, 10)))


def test_class_local_keeps_the_rate_over_uneven_classes() -> None:
    shares = torch.tensor([6.0, 3.0, 1.0])
    truth = torch.multinomial(shares, 20_000, replacement=True, generator=seeded(2))
    noise = ClassLocal(3, (1,), shares=shares)
    wrong = ~noise.corrupt(torch.zeros(len(truth), 1), truth, 0.24, seeded()).clean
    assert wrong.double().mean().item() == pytest.approx(0.24, abs=0.012)
    assert wrong[truth == 1].double().mean().item() == pytest.approx(0.8, abs=0.03)


def test_class_local_refuses_what_cannot_be() -> None:
    rows = torch.zeros(10, 1), torch.arange(10)
    with pytest.raises(ValueError, match=r"at most 0\.300, got 0\.400"):
        ClassLocal(10, (0, 1, 2)).corrupt(*rows, 0.4, seeded())
    for hit in ((), (10,), (-1,)):
        with pytest.raises(ValueError, match="classes 0 to 9"):
            ClassLocal(10, hit)


@every_rate
def test_annotators_in_turn_keep_the_rate_over_draws(rate: float) -> None:
    rows = torch.zeros(300, 1), torch.arange(300) % 10
    wrong = drawn(AnnotatorTurns(10, rows=20), *rows, rate, 200).double()
    assert wrong.mean().item() == pytest.approx(rate, abs=0.01)
    alone = drawn(AnnotatorTurns(10), *(column[:5] for column in rows), rate, 4000).double()
    assert alone.mean().item() == pytest.approx(rate, abs=0.02)


def test_each_annotator_errs_in_his_own_way() -> None:
    truth = torch.zeros(8000, dtype=torch.long)
    noise = AnnotatorTurns(10, rows=2000)
    labels = noise.corrupt(torch.zeros(8000, 1), truth, 0.5, seeded()).labels
    counts = torch.stack([torch.bincount(part, minlength=10) for part in labels.split(2000)])
    rates = 1 - counts[:, 0].sort().values / 2000
    # One rate lies in each quarter of the range from 0.2 to 0.8.
    for rate, middle in zip(rates.tolist(), (0.725, 0.575, 0.425, 0.275), strict=True):
        assert rate == pytest.approx(middle, abs=0.075 + 0.045)
    others = counts[:, 1:] / counts[:, 1:].sum(dim=1, keepdim=True)
    assert all((others[one] - others[0]).abs().sum() > 0.3 for one in (1, 2, 3))
