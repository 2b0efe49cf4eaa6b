"""The mixture proportion, on scores whose make is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.noise import Proportion
from tamis.noise.proportion import best_bin


def simulate(
    rows: int, classes: int, clean_ratio: float, lead: float, seed: int, pairs: bool = False
) -> Samples:
    """Inputs are logits, that of the true class ahead by `lead`; wrong labels are random."""
    generator = Generator().manual_seed(seed)
    truth = torch.randint(classes, (rows,), generator=generator)
    logits = torch.randn(rows, classes, generator=generator)
    logits[torch.arange(rows), truth] += lead
    if pairs:  # the next class is the one that the model takes the true one for
        logits[torch.arange(rows), (truth + 1) % classes] += lead - 1
    clean = torch.rand(rows, generator=generator) < clean_ratio
    shift = 1 if pairs else torch.randint(1, classes, (rows,), generator=generator)
    return Samples.of(logits, torch.where(clean, truth, (truth + shift) % classes), clean=clean)


def share(samples: Samples) -> float:
    assert samples.clean is not None
    return samples.clean.float().mean().item()


def estimate(samples: Samples) -> float:
    return Proportion().estimate(samples, ModelView(nn.Flatten()), Generator())


def paper_best_bin(mixture: list[float], component: list[float], rows: int) -> float:
    """Algorithm 1 for sets {score <= t}: lowest bound over every t, then the bare ratio there."""
    chosen, lowest = math.nan, math.inf
    for t in sorted(set(mixture + component)):
        in_mixture = sum(score <= t for score in mixture) / len(mixture)
        in_component = sum(score <= t for score in component) / len(component)
        if in_component == 0:
            continue
        error = math.sqrt(math.log(4 / 0.1) / (2 * rows))
        bound = in_mixture / in_component + (1 + 0.01) / in_component * (error + error)
        if bound < lowest - 1e-12:
            chosen, lowest = in_mixture / in_component, bound
    return chosen


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("decimals", [1, 6], ids=["ties", "no ties"])
def test_best_bin_is_the_papers(seed: int, decimals: int) -> None:
    generator = Generator().manual_seed(seed)
    component = torch.rand(80, 2, generator=generator).pow(2).round(decimals=decimals)
    mixture = torch.cat([component[:40, 0], torch.rand(30, generator=generator).sqrt()])
    expected = paper_best_bin(mixture.tolist(), component.flatten().tolist(), rows=70)
    assert best_bin(mixture, component, rows=70) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clean_ratio", [0.4, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize(("classes", "rows"), [(10, 300), (10, 3000), (3, 3000)])
def test_a_model_that_is_mostly_right_gives_the_ratio(
    classes: int, rows: int, clean_ratio: float, seed: int
) -> None:
    samples = simulate(rows, classes, clean_ratio, lead=4, seed=seed)
    assert estimate(samples) == pytest.approx(share(samples), abs=0.05 if rows < 1000 else 0.02)


@pytest.mark.parametrize("clean_ratio", [0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_poor_model_makes_the_estimate_low_by_little(clean_ratio: float) -> None:
    """Right on two rows of three, so that some right labels look like random ones."""
    errors = []
    for seed in range(5):
        samples = simulate(3000, 10, clean_ratio, lead=2, seed=seed)
        errors.append(estimate(samples) - share(samples))
    assert -0.05 < sum(errors) / 5 < 0.01
    assert all(abs(error) < 0.07 for error in errors)


def test_a_model_that_knows_nothing_finds_that_labels_are_random() -> None:
    samples = simulate(3000, 10, clean_ratio=0.7, lead=0, seed=0)
    assert estimate(samples) == pytest.approx(0.1, abs=0.05)


def test_labels_wrong_by_likeness_look_right() -> None:
    """The bias that docs/methods/clean_ratio.md warns of."""
    samples = simulate(3000, 10, clean_ratio=0.6, lead=4, seed=0, pairs=True)
    assert estimate(samples) > share(samples) + 0.2


def test_bad_rows_are_left_out() -> None:
    samples = simulate(500, 5, clean_ratio=0.6, lead=4, seed=0)
    corrupted, unlabelled = samples.inputs.clone(), samples.labels.clone()
    corrupted[::7] = math.nan
    unlabelled[::5] = -1
    good = (corrupted.isfinite().all(dim=1) & (unlabelled >= 0)).nonzero()[:, 0]
    bad = replace(samples, inputs=corrupted, labels=unlabelled)
    assert len(good) < 400
    assert estimate(bad) == estimate(samples[good])
    with pytest.raises(ValueError, match="at least 1 row"):
        estimate(replace(samples, labels=torch.full((500,), -1)))


@pytest.mark.parametrize(
    "logits", [torch.tensor([[3.0, 0.0, 0.0]]), torch.zeros(20, 4), torch.zeros(5, 1)]
)
def test_one_row_duplicates_one_class(logits: Tensor) -> None:
    samples = Samples.of(logits, torch.zeros(len(logits), dtype=torch.long))
    assert 1 / logits.shape[1] <= estimate(samples) <= 1


@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"delta": 1.0}, {"gamma": -0.1}])
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Proportion(**settings)
