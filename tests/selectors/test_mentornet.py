"""MentorNet's predefined curriculum against its definition, row by row."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import MentorNet

LOCAL = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0])  # inputs are losses


def pool_of(losses: Tensor) -> Samples:
    return Samples.of(losses[:, None], torch.zeros(len(losses), dtype=torch.long))


def slots_of(seed: int, slots: int = 12, rows: int = 40) -> list[Tensor]:
    generator = Generator().manual_seed(seed)
    return [5 * torch.rand(rows, generator=generator, dtype=torch.float64) for _ in range(slots)]


def percentile_of(losses: list[float], share: float) -> float:
    ordered = sorted(losses)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def curriculum(slots: list[Tensor], mentor: MentorNet) -> list[dict[int, float]]:
    """The weights of the rows that weigh anything, slot by slot."""
    limit, expected = 0.0, []
    for slot, losses in enumerate(slots):
        level = percentile_of(losses.tolist(), mentor.percentile)
        limit = level if slot == 0 else mentor.decay * limit + (1 - mentor.decay) * level
        weights = {}
        for row, loss in enumerate(losses.tolist()):
            if slot < mentor.burn_in:
                weight = 1.0
            elif mentor.softness == 0:
                weight = 1.0 if loss <= limit else 0.0
            else:
                weight = min(max(0.0, 1 - (loss - limit) / mentor.softness), 1.0)
            if weight > 0:
                weights[row] = weight
        expected.append(weights)
    return expected


def select(mentor: MentorNet, losses: Tensor, k: int = 1000, seed: int = 0) -> dict[int, float]:
    picks = mentor.select(pool_of(losses), LOCAL, k, Generator().manual_seed(seed))
    assert picks.weights is not None
    return dict(zip(picks.rows.tolist(), picks.weights.tolist(), strict=True))


@pytest.mark.parametrize("case", range(10))
@pytest.mark.parametrize(
    "mentor",
    [
        MentorNet(),
        MentorNet(softness=0.0),
        MentorNet(0.3, 2.0, 0.5),
        MentorNet(burn_in=4),
        MentorNet(percentile=0.0, decay=0.0),
    ],
    ids=repr,
)
def test_slot_after_slot_as_defined(case: int, mentor: MentorNet) -> None:
    slots = slots_of(case)
    fresh = MentorNet(**vars_of(mentor))
    for losses, weights in zip(slots, curriculum(slots, mentor), strict=True):
        assert select(fresh, losses) == pytest.approx(weights, abs=1e-9)


def vars_of(mentor: MentorNet) -> dict[str, float]:
    return {name: value for name, value in vars(mentor).items() if not name.startswith("_")}


@pytest.mark.parametrize("softness", [0.25, 1.0, 3.0])
def test_weights_minimise_what_the_paper_minimises(softness: float) -> None:
    losses = slots_of(0)[0]
    limit = percentile_of(losses.tolist(), 0.7)
    weights = select(MentorNet(softness=softness), losses)
    grid = [step / 1000 for step in range(1001)]
    for row, loss in enumerate(losses.tolist()):
        best = min(
            grid, key=lambda v, loss=loss: v * loss + softness * v**2 / 2 - (limit + softness) * v
        )
        assert weights.get(row, 0.0) == pytest.approx(best, abs=1e-3)


def test_at_most_k_and_each_can_be_picked() -> None:
    losses = slots_of(1)[0]
    everyone = select(MentorNet(), losses)
    picks = [select(MentorNet(), losses, 4, seed) for seed in range(100)]
    assert all(len(weights) == 4 for weights in picks)
    assert all(weights.items() <= everyone.items() for weights in picks)
    assert {row for weights in picks for row in weights} == set(everyone)


def test_it_waits_where_losses_jump_and_catches_up() -> None:
    mentor = MentorNet(softness=0.0)
    assert len(select(mentor, torch.full((10,), 1.0))) == 10
    waited = 0
    while not select(mentor, torch.linspace(5, 6, 10)):
        waited += 1
    assert 5 < waited < 50


@pytest.mark.parametrize("softness", [0.0, 1.0])
def test_ties_are_broken_at_random(softness: float) -> None:
    mentor = MentorNet(softness=softness)
    picked = [select(mentor, torch.full((30,), 0.1), 5, seed) for seed in range(60)]
    assert all(list(weights.values()) == [1.0] * 5 for weights in picked)
    assert {row for weights in picked for row in weights} == set(range(30))


def test_one_row() -> None:
    assert select(MentorNet(), torch.tensor([3.0])) == {0: 1.0}


def test_losses_that_are_not_finite_are_neither_picked_nor_remembered() -> None:
    view = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0] * 1e10 / 1e10)
    with_bad, without = MentorNet(), MentorNet()
    good = torch.tensor([0.5, 1.0, 9.0])
    bad = torch.cat([good, torch.tensor([1e35, torch.nan])])  # 1e35 * 1e10 is infinite
    rows = with_bad.select(pool_of(bad), view, 9, Generator().manual_seed(0)).rows.tolist()
    assert set(rows) == set(select(without, good)) == {0, 1}
    assert len(with_bad.select(pool_of(bad[4:]), LOCAL, 9, Generator().manual_seed(0))) == 0
    torch.testing.assert_close(with_bad.state_dict(), without.state_dict())


def test_saved_and_resumed_equals_unbroken() -> None:
    slots = slots_of(3, 20)
    unbroken, first, second = (MentorNet(burn_in=12) for _ in range(3))
    for losses in slots[:10]:
        select(unbroken, losses)
        select(first, losses)
    second.load_state_dict(first.state_dict())
    for seed, losses in enumerate(slots[10:]):
        assert select(second, losses, 5, seed) == select(unbroken, losses, 5, seed)
    assert repr(second) == repr(MentorNet(burn_in=12))


@pytest.mark.parametrize("wrong", [{"percentile": 1.1}, {"softness": -1}, {"decay": 1.0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs a percentile"):
        MentorNet(**wrong)
