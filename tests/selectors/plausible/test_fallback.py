"""Picks and targets where nothing confirms the evidence."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Generator, Tensor

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.selectors import Plausible
from tamis.selectors.plausible import Fallback
from tamis.selectors.plausible.candidates import look
from tamis.selectors.sampling import LEAST_PER_PICK, draw_rows
from tests.support.plausible_loops import make_candidates

CPU = torch.device("cpu")


def weights_by_a_loop(labels: list[int], given: list[float], power: float) -> list[float]:
    """Return the weight of each label among equal ones, row by row."""
    powers = [(p + 0.01) ** power for p in given]
    mean = sum(powers) / len(powers)
    found = []
    for label, own in zip(labels, powers, strict=True):
        equal = [p for p, other in zip(powers, labels, strict=True) if other == label]
        found.append(own * (len(equal) + 1) / (sum(equal) + mean))
    return found


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_weights_are_those_of_the_loop(strength: float) -> None:
    rows = make_candidates(60, 5, 3, 0)
    given = rows.probabilities.gather(1, rows.labels[:, None])[:, 0].tolist()
    expected = weights_by_a_loop(rows.labels.tolist(), given, 0.7 * strength)
    found = Fallback(power=0.7).weights(rows, torch.tensor(strength))
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def test_no_class_is_starved_however_little_the_model_knows_it() -> None:
    rows = make_candidates(400, 4, 3, 1)
    rows.probabilities[:, 3] /= 1000
    weights = Fallback().weights(rows, torch.tensor(1.0))
    for number in range(4):
        assert weights[rows.labels == number].mean() > 0.7


def test_rows_that_cannot_be_used_count_for_nothing() -> None:
    rows = make_candidates(40, 4, 3, 2)
    usable = torch.arange(40) < 30
    weights = Fallback().weights(rows._replace(usable=usable), torch.tensor(1.0))
    good = rows._replace(**{name: column[:30] for name, column in rows._asdict().items()})
    torch.testing.assert_close(weights[:30], Fallback().weights(good, torch.tensor(1.0)))
    assert weights.isfinite().all()


def test_it_grows_with_the_share_of_wrong_labels_and_with_what_nothing_confirms() -> None:
    rule, none = Fallback(), torch.tensor(0.0)
    ratios = [1.0, 0.9, 0.7, 0.5, 0.2]
    found = [rule.strength(none, torch.tensor(ratio)).item() for ratio in ratios]
    assert found == pytest.approx([0, 0.04, 0.36, 1, 1])
    assert rule.strength(torch.tensor(0.5), torch.tensor(0.5)).item() == pytest.approx(1 / 32)
    assert rule.strength(torch.tensor(1.0), torch.tensor(0.5)).item() == 0


def unconfirmed(classes: int) -> tuple[Plausible, Samples, ModelView, Tensor]:
    """Return a rule to which nothing confirms the evidence, rows and a model that knows little."""
    generator = Generator().manual_seed(0)
    labels = torch.randint(classes, (400,), generator=generator)
    inputs = torch.randn(400, 6, generator=generator) + torch.eye(classes, 6)[labels]
    view, rule = ModelView(start(mlp, (6,), classes, 0)), Plausible()
    pool = Samples.of(inputs, labels)
    for _ in range(10):
        rule.select(pool, view, 16, generator)
    assert rule.agreements._confirmed.value is not None
    rule.agreements._judges.value = torch.tensor(0.6)
    rule.agreements._confirmed.value = torch.tensor(0.2)
    return rule, pool, view, labels


def test_picks_and_targets_are_those_of_a_loop() -> None:
    """Drawn by margin, by what is left to learn, and by likely labels; targets are softened."""
    rule, pool, view, labels = unconfirmed(4)
    softened = 0
    for seed in range(5):
        ours, again = copy.deepcopy(rule), copy.deepcopy(rule)
        generator = Generator().manual_seed(seed)
        picks = ours.select(pool, view, 12, Generator().manual_seed(seed))
        rows = draw_rows(len(pool), LEAST_PER_PICK * 12, generator, CPU)
        uniform = torch.rand(len(rows), generator=generator).tolist()
        with_inputs = again.input_votes.due
        seen = look(pool[rows], view, torch.ones(48, dtype=torch.bool), with_inputs=with_inputs)
        new = again.first_looks.update(pool.ids, rows)
        verdict = again.judge(seen, pool.ids[rows], new, len(pool))
        weighting = float(again.agreements.weighting())
        evenness = float(again.agreements.evenness())
        noise = min(1.0, 2 * (1 - float(again.calibration.clean_ratio)))
        strength = (1 - weighting) ** 5 * noise**2
        assert strength > 0.1
        given = seen.probabilities.gather(1, seen.labels[:, None])[:, 0].tolist()
        likely = weights_by_a_loop(labels[rows].tolist(), given, strength)
        keys = {}
        for at, row in enumerate(rows.tolist()):
            if verdict.plausible[at]:
                weight = max(float(verdict.margin[at]), 1e-4) ** weighting * likely[at]
                weight *= (1.01 - given[at]) ** (weighting * evenness)
                keys[row] = math.log(weight) - math.log(-math.log(uniform[at]))
        expected = sorted(keys, key=keys.__getitem__, reverse=True)[:12]
        assert picks.rows.tolist() == expected
        assert picks.targets is not None
        place = {row: at for at, row in enumerate(rows.tolist())}
        for row, target in zip(expected, picks.targets, strict=True):
            label = torch.eye(4)[labels[row]]
            half = strength / 2
            mixed = (1 - half) * label + half * verdict.posterior[place[row]]
            torch.testing.assert_close(target, mixed, rtol=1e-4, atol=1e-5)
            softened += bool(target.max() < 0.999)
    assert softened >= 30
