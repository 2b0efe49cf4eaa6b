"""The constraint on group shares, small; `tamis lab fairness` runs it at size."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from torch import Generator, nn

from tamis.data import Samples
from tamis.errors import UsageError
from tamis.lab.experiments import fairness
from tamis.model_view import ModelView
from tamis.selectors import OGRS
from tamis.selectors.ogrs.fairness import draw_fairly


@pytest.fixture
def skewed(generator: Generator) -> Samples:
    """Two groups of equal size; the losses of one are lower, so chains end there."""
    labels = torch.randint(2, (400,), generator=generator)
    groups = torch.randint(2, (400,), generator=generator)
    reach = torch.where(groups == 0, 3.0, 1.0)[:, None]
    inputs = reach * torch.where(labels == 0, -1.0, 1.0)[:, None] + torch.randn(
        400, 4, generator=generator
    )
    return Samples.of(inputs, labels, groups=groups)


def share_of_group_1(ogrs: OGRS, pool: Samples) -> float:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0] * 4, [1.0] * 4]))
        model.bias.zero_()
    rows = [
        ogrs.select(pool, ModelView(model), 32, Generator().manual_seed(seed)).rows
        for seed in range(20)
    ]
    return pool.groups[torch.cat(rows)].float().mean().item()


def test_shares_come_back_to_the_pools(skewed: Samples) -> None:
    held = skewed.groups.float().mean().item()
    plain = abs(share_of_group_1(OGRS(), skewed) - held)
    fair = abs(share_of_group_1(OGRS(fair_within=0.0), skewed) - held)
    assert plain > 0.1
    assert fair < plain / 3


@pytest.mark.parametrize("seed", range(20))
def test_no_group_passes_its_quota_and_taxes_explain_the_picks(seed: int) -> None:
    generator = Generator().manual_seed(seed)
    groups = torch.randint(3, (90,), generator=generator)
    rows = torch.randperm(90, generator=generator)[:50]
    keys = torch.rand(91, generator=generator)
    picks, taxes = draw_fairly(rows, groups, 0.05, 24, keys)
    counts = torch.bincount(groups[picks], minlength=3)
    held = torch.bincount(groups, minlength=3) / 90
    assert (counts <= (held + 0.05) * 24 + 1).all()
    assert len(set(picks.tolist())) == len(picks) <= 24

    taxed = keys[rows] + taxes[groups[rows]]
    picked = torch.isin(rows, picks)
    assert taxed[picked].max() <= taxed[~picked].min() + 1e-6  # nobody left out is cheaper


def test_a_wide_tolerance_changes_nothing(skewed: Samples) -> None:
    gap = share_of_group_1(OGRS(fair_within=1.0), skewed) - share_of_group_1(OGRS(), skewed)
    assert abs(gap) < 0.05


def test_classes_are_the_groups_where_there_are_no_others(skewed: Samples) -> None:
    blind = Samples.of(skewed.inputs, skewed.labels)
    picks = OGRS(fair_within=0.0, candidates=400).select(
        blind, ModelView(nn.Linear(4, 2)), 32, Generator().manual_seed(0)
    )
    counts = torch.bincount(blind.labels[picks.rows], minlength=2)
    assert (counts <= torch.bincount(blind.labels) / 400 * 32 + 1).all()
    assert len(picks) > 0


def test_the_command_writes_its_numbers(tmp_path: Path) -> None:
    assert fairness.run(Namespace(out=tmp_path, seeds=1, slots=230)) == 0
    with (tmp_path / "fairness.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["naive", "OGRS", "OGRS, fair"]
    with pytest.raises(UsageError):
        fairness.run(Namespace(out=tmp_path, seeds=0, slots=230))
