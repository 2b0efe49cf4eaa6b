"""Cross-validated trimming, on clusters whose labels are corrupt at a known ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.noise import CrossValidation
from tamis.noise.cross_validation import standardise

LOCAL = ModelView(nn.Flatten())


def clusters(rows: int, clean_ratio: float, seed: int, classes: int = 10) -> Samples:
    generator = Generator().manual_seed(seed)
    truth = torch.randint(classes, (rows,), generator=generator)
    centres = torch.randn(classes, 20, generator=generator)
    inputs = centres[truth] + torch.randn(rows, 20, generator=generator)
    clean = torch.rand(rows, generator=generator) < clean_ratio
    wrong = (truth + torch.randint(1, classes, (rows,), generator=generator)) % classes
    return Samples.of(inputs, torch.where(clean, truth, wrong), clean=clean)


def naive_fit(method: CrossValidation, seen: Tensor, labels: Tensor, share: float) -> Tensor:
    """One model at a time, on the rows that it keeps and no others."""
    weights = torch.zeros(seen.shape[1], int(labels.max()) + 1, requires_grad=True)
    rows = list(range(len(labels)))
    for _ in range(method.rounds):
        optimizer = torch.optim.Adam(
            [weights], lr=method.rate, weight_decay=method.weight_decay, foreach=False
        )
        for _ in range(method.steps):
            loss = cross_entropy(seen[rows] @ weights, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses = cross_entropy(seen @ weights, labels, reduction="none").tolist()
        count = max(1, math.floor(share * len(losses) + 1e-9))
        rows = sorted(range(len(losses)), key=losses.__getitem__)[:count]
    return weights.detach()


def naive_estimate(method: CrossValidation, samples: Samples, generator: Generator) -> float:
    seen, labels = standardise(samples.inputs), samples.labels
    fold = [
        int(number) % method.folds for number in torch.randperm(len(labels), generator=generator)
    ]
    best, most = 0.0, -1
    for share in method.candidates:
        right = 0
        for held_out in range(method.folds):
            train = [row for row, name in enumerate(fold) if name != held_out]
            test = [row for row, name in enumerate(fold) if name == held_out]
            weights = naive_fit(method, seen[train], labels[train], share)
            right += int(((seen[test] @ weights).argmax(dim=1) == labels[test]).sum())
        if right >= most:  # candidates rise, so that of equals the largest is taken
            best, most = share, right
    return best


def test_all_models_at_once_are_the_models_one_at_a_time() -> None:
    samples = clusters(150, 0.6, seed=0, classes=4)
    method = CrossValidation(space="inputs")
    seen, shares = standardise(samples.inputs), [1.0, 0.6, 0.29, 0.001]
    together = method._fit(seen, samples.labels, 4, shares)
    for weights, share in zip(together, shares, strict=True):
        alone = naive_fit(method, seen, samples.labels, share)
        assert torch.allclose(weights, alone, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_choice_is_the_naive_one(seed: int) -> None:
    samples = clusters(200, 0.6, seed, classes=4)
    method = CrossValidation((0.3, 0.6, 1.0), folds=4, space="inputs", rounds=2)
    expected = naive_estimate(method, samples, Generator().manual_seed(seed))
    assert method.estimate(samples, LOCAL, Generator().manual_seed(seed)) == expected


@pytest.mark.parametrize("seed", [10, 11])
@pytest.mark.parametrize("clean_ratio", [0.5, 0.7, 0.9, 1.0])
def test_enough_rows_give_the_ratio_to_a_tenth(clean_ratio: float, seed: int) -> None:
    samples = clusters(2000, clean_ratio, seed)
    found = CrossValidation(space="inputs").estimate(samples, LOCAL, Generator().manual_seed(seed))
    assert found == pytest.approx(clean_ratio, abs=0.1 + 1e-9)


def test_features_are_those_of_the_model() -> None:
    """Of inputs that are uninformative by themselves the model's first layer makes the clusters."""
    samples = clusters(1000, 0.7, seed=0)
    mixing = torch.randn(20, 20, generator=Generator().manual_seed(1))
    model = nn.Sequential(nn.Linear(20, 20, bias=False), nn.Linear(20, 10))
    with torch.no_grad():
        model[0].weight.copy_(torch.linalg.inv(mixing))
    mixed = replace(samples, inputs=samples.inputs @ mixing.T)
    generator, again = Generator().manual_seed(0), Generator().manual_seed(0)
    by_features = CrossValidation().estimate(mixed, ModelView(model), generator)
    assert by_features == CrossValidation(space="inputs").estimate(samples, LOCAL, again)


def test_same_seed_same_ratio_and_no_global_generator() -> None:
    samples, before = clusters(300, 0.6, seed=0), torch.random.get_rng_state()
    method = CrossValidation((0.4, 0.6, 0.8), space="inputs")
    first, again = (method.estimate(samples, LOCAL, Generator().manual_seed(3)) for _ in range(2))
    assert first == again
    assert torch.equal(torch.random.get_rng_state(), before)


def test_bad_rows_are_left_out() -> None:
    samples = clusters(600, 0.6, seed=0)
    corrupt, unlabelled = samples.inputs.clone(), samples.labels.clone()
    corrupt[:50] = math.nan
    unlabelled[50:100] = -1
    bad = replace(samples, inputs=corrupt, labels=unlabelled)
    method = CrossValidation((0.4, 0.6, 0.8, 1.0), space="inputs")
    expected = method.estimate(samples[slice(100, None)], LOCAL, Generator().manual_seed(0))
    assert method.estimate(bad, LOCAL, Generator().manual_seed(0)) == expected


def test_one_class_and_duplicates_need_no_trimming() -> None:
    same = Samples.of(torch.ones(12, 3), torch.full((12,), 7))
    assert CrossValidation(space="inputs").estimate(same, LOCAL, Generator().manual_seed(0)) == 1


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_fewer_rows_than_folds_are_refused(rows: int) -> None:
    few = clusters(3, 1.0, seed=0)[slice(rows)]
    with pytest.raises(ValueError, match=f"3 folds need as many good rows, got {rows}"):
        CrossValidation(space="inputs").estimate(few, LOCAL, Generator())


@pytest.mark.parametrize(
    "settings",
    [
        {"candidates": ()},
        {"candidates": (0.0,)},
        {"candidates": (1.1,)},
        {"folds": 1},
        {"steps": 0},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"Candidates are shares|must be at least"):
        CrossValidation(**settings)


def test_candidates_are_all_tenths() -> None:
    assert CrossValidation().candidates == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
