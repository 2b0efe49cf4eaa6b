"""RHO-LOSS against its definition, row by row in plain floats."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.buffers import Growing
from tamis.data import Samples
from tamis.model_view import Average, ModelView, Window
from tamis.selectors import RHO
from tamis.training import Trainer


def make_model(seed: int) -> nn.Linear:
    model = nn.Linear(3, 4).double()
    generator = Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return model


def make_pool(seed: int, rows: int = 60) -> Samples:
    generator = Generator().manual_seed(seed)
    inputs = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    return Samples.of(inputs, torch.randint(4, (rows,), generator=generator))


def loss_of(weight: Tensor, bias: Tensor, inputs: list[float], label: int) -> float:
    logits = [
        sum(w * x for w, x in zip(row, inputs, strict=True)) + b
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]
    return math.log(sum(math.exp(logit) for logit in logits)) - logits[label]


def gains_of(
    pool: Samples, now: tuple[Tensor, Tensor], then: list[tuple[Tensor, Tensor]]
) -> list[float]:
    """Loss under the weights now less the mean loss under the others."""
    gains = []
    for inputs, label in zip(pool.inputs.tolist(), pool.labels.tolist(), strict=True):
        irreducible = sum(loss_of(*state, inputs, label) for state in then) / len(then)
        gains.append(loss_of(*now, inputs, label) - irreducible)
    return gains


def highest(gains: list[float], k: int) -> set[int]:
    return set(sorted(range(len(gains)), key=lambda row: -gains[row])[:k])


def select(rho: RHO, pool: Samples, view: ModelView, k: int, seed: int = 0) -> list[int]:
    return rho.select(pool, view, k, Generator().manual_seed(seed)).rows.tolist()


@pytest.mark.parametrize("case", range(20))
@pytest.mark.parametrize("k", [1, 7, 59])
def test_with_a_holdout_model(case: int, k: int) -> None:
    pool, now, then = make_pool(case), make_model(case), make_model(case + 100)
    gains = gains_of(pool, (now.weight, now.bias), [(then.weight, then.bias)])
    picked = select(RHO(ModelView(then)), pool, ModelView(now), k)
    assert len(picked) == k
    assert set(picked) == highest(gains, k)


@pytest.mark.parametrize("case", range(5))
def test_against_the_running_average(case: int) -> None:
    pool, model, average = make_pool(case), make_model(case), Average(0.5)
    average.update(model)
    old = copy.deepcopy(model)
    model.load_state_dict(make_model(case + 100).state_dict())
    average.update(model)
    share = 1 - min(0.5, (1 + 2) / (10 + 2))
    then = tuple(
        (1 - share) * before + share * after
        for before, after in zip(old.parameters(), model.parameters(), strict=True)
    )
    gains = gains_of(pool, (model.weight, model.bias), [then])
    assert set(select(RHO(), pool, ModelView(model, average), 9)) == highest(gains, 9)


def test_against_a_window() -> None:
    pool, model, window = make_pool(0), make_model(0), Window(3)
    states = []
    for seed in range(3):
        model.load_state_dict(make_model(seed).state_dict())
        window.update(model)
        states.append((model.weight.clone(), model.bias.clone()))
    gains = gains_of(pool, states[-1], states)
    assert set(select(RHO(), pool, ModelView(model, window), 9)) == highest(gains, 9)


def test_a_window_of_1_is_refused_unless_there_is_a_holdout() -> None:
    pool, model = make_pool(0), make_model(0)
    with pytest.raises(ValueError, match="window='average'"):
        select(RHO(), pool, ModelView(model), 4)
    assert len(select(RHO(ModelView(make_model(1))), pool, ModelView(model), 4)) == 4


def test_the_highest_of_a_draw() -> None:
    pool, now, then = make_pool(3, rows=300), make_model(3), make_model(103)
    drawn = torch.randperm(300, generator=Generator().manual_seed(8))[:40]
    gains = gains_of(pool[drawn], (now.weight, now.bias), [(then.weight, then.bias)])
    expected = {int(drawn[row]) for row in highest(gains, 10)}
    picked = select(RHO(ModelView(then), batch=20), pool, ModelView(now), 10, seed=8)
    assert set(picked) == expected  # 40 are drawn: 4 a pick


def test_ties_are_broken_at_random() -> None:
    """As in the first slot, before the average has anything to remember."""
    pool, view = make_pool(0, rows=30), ModelView(make_model(0), Average())
    picked = [select(RHO(), pool, view, 5, seed) for seed in range(60)]
    assert all(len(set(rows)) == 5 for rows in picked)
    assert {row for rows in picked for row in rows} == set(range(30))


def test_k_larger_than_the_pool_and_one_row() -> None:
    rho, view = RHO(ModelView(make_model(1))), ModelView(make_model(0))
    assert sorted(select(rho, make_pool(0, rows=9), view, 50)) == list(range(9))
    assert select(rho, make_pool(0, rows=1), view, 50) == [0]


def test_rows_without_a_finite_gain_are_left_out() -> None:
    pool = make_pool(0, rows=6)
    pool.inputs[0] = torch.nan
    pool.inputs[1] = 1e200  # its loss overflows
    rho = RHO(ModelView(make_model(1)))
    view = ModelView(make_model(0), criterion=lambda logits, _: logits.square().sum(dim=1))
    assert sorted(select(rho, pool, view, 50)) == [2, 3, 4, 5]
    assert select(rho, pool[torch.tensor([0])], view, 50) == []
    assert select(rho, pool[torch.tensor([1])], view, 50) == []


def test_a_good_holdout_keeps_wrong_labels_out(blobs: Samples, blob_model: nn.Module) -> None:
    untrained = nn.Linear(2, 3)
    nn.init.zeros_(untrained.weight)
    nn.init.zeros_(untrained.bias)
    rows = select(RHO(ModelView(blob_model)), blobs, ModelView(untrained), 100)
    assert blobs.clean[rows].all()


def test_a_trainer_that_looks_through_its_average(blobs: Samples) -> None:
    model = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, RHO(), Growing(300), k=8)
    trainer.step(blobs)
    assert all(trainer.step().loss is not None for _ in range(5))
