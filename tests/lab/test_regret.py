"""Recorded chains are those of OGRS; prices keep lemma 2's bound where there is one."""

from __future__ import annotations

import csv
from argparse import ArgumentParser
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Generator

from tamis.data import Samples
from tamis.errors import UsageError
from tamis.lab import commands
from tamis.lab.experiments import regret
from tamis.lab.ogrs_variants import OGRSVariant, printed, released
from tamis.lab.regret import (
    CASES,
    LIMITED,
    UNLIMITED,
    WAYS,
    Settings,
    Terrain,
    record,
    run_case,
    see,
    train,
    wander,
)
from tamis.lab.regret_measures import lagrangian_regret
from tamis.model_view import ModelView
from tamis.models import mlp
from tamis.selectors import OGRS

TINY = Settings(steps=(1, 2, 4, 8), late=4, chains=8, seeds=2, slots=20)


@pytest.fixture
def pool(generator: Generator) -> Samples:
    inputs = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    return Samples.of(inputs, torch.randint(2, (60,), generator=generator))


@pytest.fixture
def view() -> ModelView:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ModelView(mlp((3,), 2).double())


@pytest.fixture
def terrain(pool: Samples, view: ModelView) -> Terrain:
    return see("inputs", pool, view)


@pytest.mark.parametrize(
    "rule",
    [
        *(printed(9, 20.0, max_uses=zeta) for zeta in (0, 1, 2, 10**6)),
        printed(40, 20.0, price_step=0.02, max_uses=2),
        released(),
        OGRSVariant(candidates=None, starts="picks", space="features"),
        OGRSVariant(candidates=None, starts="picks", max_uses=0, uses="visits"),
    ],
)
def test_recorded_chains_are_those_of_select(
    rule: OGRSVariant, pool: Samples, view: ModelView
) -> None:
    """All at once, and each as if it were alone: the same starts, ends and regret."""
    alone = [rule.select(pool, view, 1, Generator().manual_seed(seed)) for seed in range(12)]
    starts = torch.cat(
        [torch.randint(60, (1,), generator=Generator().manual_seed(seed)) for seed in range(12)]
    )
    chains = record(rule, see(rule.space, pool, view), starts)
    assert torch.equal(chains.rows[:, 0], starts)
    assert chains.rows[:, -1].tolist() == [picks.rows.item() for picks in alone]
    regrets = [picks.search.regret.item() for picks in alone]
    assert lagrangian_regret(chains.gradients).tolist() == pytest.approx(regrets)
    stayed = (chains.rows[:, 1:] == chains.rows[:, :-1]).double().mean(dim=1)
    assert stayed.tolist() == pytest.approx([picks.search.stayed.item() for picks in alone])


def test_the_default_ends_where_select_does(pool: Samples, view: ModelView) -> None:
    picks = OGRS(candidates=60).select(pool, view, 60, Generator().manual_seed(0))
    chains = record(OGRSVariant(candidates=60), see("features", pool, view), torch.arange(60))
    assert set(chains.rows[:, -1].tolist()) == set(picks.rows.tolist())


def test_the_price_is_that_of_a_loop(terrain: Terrain) -> None:
    rule = printed(50, 20.0, 0.25, max_uses=2)
    chains = record(rule, terrain, torch.arange(10))
    for rows, prices in zip(chains.rows.tolist(), chains.prices.tolist(), strict=True):
        uses, price = [0] * 60, 0.0
        for left, arrived, paid in zip(rows[:-1], rows[1:], prices, strict=True):
            price = max(0.0, price + 0.25 * (uses[left] - 2))
            uses[arrived] += 1
            assert paid == pytest.approx(price)
    assert chains.prices.max() > 0


@pytest.mark.parametrize("step_size", [2.0, 20.0, 200.0])
@pytest.mark.parametrize("max_uses", [3, 6])
def test_prices_keep_the_bound_where_slaters_condition_holds(
    terrain: Terrain, step_size: float, max_uses: int
) -> None:
    for steps in (8, 32, 128):
        chains = record(
            printed(steps, step_size, steps**-0.25, max_uses), terrain, torch.arange(60)
        )
        assert chains.bound.isfinite().all()
        assert (chains.prices <= chains.bound[:, None]).all()


def test_the_price_grows_without_bound_where_it_fails(terrain: Terrain) -> None:
    chains = record(printed(400, 20.0, 0.25, max_uses=0), terrain, torch.arange(20))
    assert chains.bound.isinf().all()
    assert (chains.prices.diff(dim=1) >= 0).all()
    for steps in (25, 50, 100, 200):
        after, later = chains.prices[:, steps - 1], chains.prices[:, 2 * steps - 1]
        assert (after >= 0.25 * (steps - 1)).all()  # every row but the start has been visited
        assert (later > 1.9 * after).all()


def test_slaters_condition_fails_once_every_row_is_used_up(terrain: Terrain) -> None:
    """Where every visit is a use, no fixed zeta is enough for any number of steps."""
    chains = record(printed(400, 20.0, 0.25, max_uses=3), terrain, torch.arange(5))
    assert chains.bound.isinf().all()
    assert (chains.prices[:, -1] > 2 * chains.prices[:, 299]).all()


def test_random_rows_are_those_the_generator_gives(terrain: Terrain) -> None:
    starts = torch.tensor([3, 1])
    one, two = (wander(terrain, starts, 6, Generator().manual_seed(0)) for _ in range(2))
    assert one.rows.shape == (2, 7)
    assert torch.equal(one.rows, two.rows)
    assert torch.equal(one.gradients[:, 0], terrain.gradients[starts])


def test_the_same_settings_give_the_same_numbers() -> None:
    one, two = (run_case(replace(TINY, seeds=1), CASES[0], lambda: None) for _ in range(2))
    for first, second in zip(one, two, strict=True):
        assert torch.equal(first.lagrangian.mean, second.lagrangian.mean)
        assert first.lagrangian.all == second.lagrangian.all
        assert torch.equal(first.path, second.path)


def test_a_case_is_measured_from_the_same_starts_in_every_way() -> None:
    ticks: list[int] = []
    results = run_case(TINY, CASES[0], lambda: ticks.append(1))
    assert len(ticks) == TINY.seeds
    assert tuple(result.way for result in results) == WAYS
    of = {result.way: result for result in results}
    first = [result.local.mean[0].item() for result in results]
    assert first == pytest.approx([first[0]] * 4, rel=1e-5)
    assert of[LIMITED].slater
    assert of[LIMITED].within
    assert not of[UNLIMITED].slater
    assert of[UNLIMITED].path.diff().min() >= 0


def test_training_leaves_no_uses_behind() -> None:
    terrain = train(CASES[0], TINY, seed=0)
    assert terrain.pool.uses.sum() == 0
    assert terrain.gradients.norm(dim=1).min() > 0


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def parse(*arguments: str):
    parser = ArgumentParser()
    commands.regret.add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_command_writes_its_folder(tmp_path: Path, monkeypatch, capsys) -> None:
    options = parse("--out", str(tmp_path / "out"), "--seeds", "1", "--chains", "6")
    tiny = partial(Settings, steps=TINY.steps, late=TINY.late, slots=20)
    monkeypatch.setattr(regret, "Settings", tiny)
    assert regret.run(options) == 0
    printed = capsys.readouterr().out
    for case in CASES:
        assert f"{case.name}, M = 1 to 8" in printed
        assert f"{case.name}: with zeta > 0" in printed
    assert (tmp_path / "out" / "regret.png").read_bytes().startswith(b"\x89PNG")
    rows = read_csv(tmp_path / "out" / "numbers.csv")
    assert len(rows) == len(CASES) * len(WAYS) * len(TINY.steps)
    assert all(float(row["local_regret"]) > 0 for row in rows)
    fits = read_csv(tmp_path / "out" / "exponents.csv")
    assert len(fits) == len(CASES) * len(WAYS) * 4
    assert all(float(row["low"]) <= float(row["high"]) for row in fits)


@pytest.mark.parametrize("arguments", [("--seeds", "0"), ("--chains", "0")])
def test_nothing_to_measure_is_an_error(arguments: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        regret.run(parse(*arguments))
