"""The tracker against known clean ratios, with over- and underconfident models."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tamis import Naive, Replay, Sliding, Trainer
from tamis.models import mlp, start
from tamis.noise import Estimate, Tracker
from tamis.noise.agreement import observe, reweight
from tamis.streams import Constant, Symmetric, digits

CLASSES = 10


def make_rows(
    clean_ratio: float, spread: float, factor: float, seed: int, pair: bool = False
) -> tuple[Tensor, Tensor]:
    """Return probabilities of a calibrated model, its logits times a factor, and noisy labels."""
    generator = Generator().manual_seed(seed)
    rows = 4000
    true = torch.randint(CLASSES, (rows,), generator=generator)
    lead = spread * torch.randn(rows, generator=generator).abs()
    right = torch.rand(rows, generator=generator) < lead.exp() / (lead.exp() + CLASSES - 1)
    other = (true + torch.randint(1, CLASSES, (rows,), generator=generator)) % CLASSES
    predicted = torch.where(right, true, other)
    confidence = (factor * lead).exp() / ((factor * lead).exp() + CLASSES - 1)
    probabilities = ((1 - confidence) / (CLASSES - 1))[:, None].repeat(1, CLASSES)
    probabilities[torch.arange(rows), predicted] = confidence
    wrong = torch.rand(rows, generator=generator) > clean_ratio
    shift = 1 if pair else torch.randint(1, CLASSES, (rows,), generator=generator)
    return probabilities, torch.where(wrong, (true + shift) % CLASSES, true)


def follow(*rows: tuple[Tensor, Tensor], half_life: float = 1e9) -> Tracker:
    tracker = Tracker(CLASSES, half_life)
    for probabilities, labels in rows:
        for part in range(0, len(labels), 40):
            tracker.update(probabilities[part : part + 40], labels[part : part + 40])
    return tracker


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("factor", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("spread", [5.0, 12.0])  # right in about 65% and 85% of the rows
@pytest.mark.parametrize("clean_ratio", [0.9, 0.6, 0.3])
def test_it_finds_the_clean_ratio_at_any_confidence(
    clean_ratio: float, spread: float, factor: float, pair: bool
) -> None:
    tracker = follow(make_rows(clean_ratio, spread, factor, 0, pair))
    assert tracker.estimate().value == pytest.approx(clean_ratio, abs=0.05)
    assert (tracker.by_class() - clean_ratio).abs().mean() < 0.06


def test_rows_of_equal_weight_inform_as_rows_of_weight_one() -> None:
    probabilities, labels = make_rows(0.6, 8.0, 1.0, 0)
    full, small = Tracker(CLASSES, 500), Tracker(CLASSES, 500)
    for part in (slice(0, 2000), slice(2000, 4000)):
        rows = observe(probabilities[part], labels[part], CLASSES)
        full.count(rows)
        small.count(reweight(rows, torch.full((2000,), 1 / 32, dtype=torch.float64), rows.total))
    assert small.fit(1000) == full.fit(1000)
    assert small.weight() == full.weight()


def test_a_row_of_weight_two_is_counted_twice_and_informs_as_one() -> None:
    probabilities, labels = make_rows(0.6, 8.0, 1.0, 0)
    heavy, light = Tracker(CLASSES, 1e9), Tracker(CLASSES, 1e9)
    rows = observe(probabilities, labels, CLASSES)
    weights = torch.where(torch.arange(4000) < 1000, 2.0, 0.0).double()
    heavy.count(reweight(rows, weights, torch.tensor(1000.0)))
    light.update(probabilities[:1000], labels[:1000])
    assert torch.equal(heavy.pairs(), 2 * light.pairs())
    assert heavy.weight() == pytest.approx(light.weight()) == pytest.approx(1000)
    assert heavy.estimate() == light.estimate()


def test_bands_hold_the_truth_about_nine_times_in_ten() -> None:
    held = []
    for seed in range(40):
        ratio = 0.3 + 0.015 * seed
        low, high = follow(make_rows(ratio, 6.0, 1.0, seed)).estimate()[1:]
        held.append(low <= ratio <= high)
        assert high - low < 0.1
    assert 0.75 <= sum(held) / len(held) <= 1


def test_the_band_is_wider_where_two_numbers_do_not_fit() -> None:
    probabilities, labels = make_rows(0.6, 6.0, 1.0, 0)
    confidence = probabilities.max(dim=1).values
    odd = (confidence > 0.6) & (confidence < 0.9)  # wrong far more often than around it
    labels = torch.where(odd, (labels + 1) % CLASSES, labels)
    fits, strays = follow(make_rows(0.6, 6.0, 1.0, 0)), follow((probabilities, labels))
    widths = [tracker.estimate().high - tracker.estimate().low for tracker in (fits, strays)]
    assert widths[1] > 1.5 * widths[0]


def test_old_rows_fade() -> None:
    before, after = make_rows(0.9, 8.0, 1.0, 0), make_rows(0.4, 8.0, 1.0, 1)
    assert follow(before, after, half_life=500).estimate().value == pytest.approx(0.4, abs=0.05)
    assert follow(before, after).estimate().value == pytest.approx(0.65, abs=0.05)


def test_fading_bands_are_as_wide_as_the_rows_they_rest_on() -> None:
    rows = make_rows(0.6, 8.0, 1.0, 0)
    short, long = (follow(rows, half_life=half_life).estimate() for half_life in (200, 1e9))
    assert 1.5 < (short.high - short.low) / (long.high - long.low) < 6


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("clean_ratio", [0.9, 0.6, 0.3])
def test_with_many_rows_the_posterior_mean_is_the_best_fit(
    clean_ratio: float, factor: float
) -> None:
    tracker = follow(make_rows(clean_ratio, 8.0, factor, 0))
    ratio, temperature = tracker.fit()
    assert ratio == pytest.approx(tracker.estimate().value, abs=0.02)
    assert temperature == pytest.approx(factor, rel=0.2)


@pytest.mark.parametrize("clean_ratio", [0.95, 0.15])
def test_few_rows_move_the_posterior_mean_less_than_many(clean_ratio: float) -> None:
    probabilities, labels = make_rows(clean_ratio, 8.0, 1.0, 0)
    nothing, few, many = (
        follow((probabilities[:rows], labels[:rows])).fit()[0] for rows in (0, 6, len(labels))
    )
    assert Tracker(CLASSES).fit() == (0.5, 1.0)
    assert nothing == 0.5
    assert min(nothing, many) + 0.02 < few < max(nothing, many) - 0.02


def test_the_confusion_is_that_of_the_labels() -> None:
    even = follow(make_rows(0.6, 10.0, 1.0, 0)).confusion()
    pair = follow(make_rows(0.6, 10.0, 1.0, 0, pair=True)).confusion()
    torch.testing.assert_close(even.sum(dim=1), torch.ones(CLASSES, dtype=torch.float64))
    eye = torch.eye(CLASSES)
    expected = 0.6 * eye + 0.4 / 9 * (1 - eye)
    assert (even - expected).abs().max() < 0.1
    assert (pair - (0.6 * eye + 0.4 * eye.roll(1, dims=1))).abs().max() < 0.1


def test_state_goes_on_where_it_was() -> None:
    one, two = follow(make_rows(0.6, 8.0, 1.0, 0), half_life=500), Tracker(CLASSES, 500)
    two.load_state_dict(one.state_dict())
    for tracker in (one, two):
        tracker.update(*make_rows(0.4, 8.0, 1.0, 1))
    assert one.estimate() == two.estimate()
    assert torch.equal(one.by_class(), two.by_class())


def test_no_rows_and_unusable_rows_change_nothing() -> None:
    tracker = Tracker(CLASSES)
    assert tracker.estimate() == (0.5, 0.0, 1.0)
    assert tracker.by_class().isnan().all()
    tracker.update(torch.empty(0, CLASSES), torch.empty(0, dtype=torch.long))
    tracker.update(torch.full((5, CLASSES), torch.nan), torch.zeros(5, dtype=torch.long))
    tracker.update(torch.full((5, CLASSES), 0.1), torch.tensor([-1, 10, 99, -100, 10]))
    assert tracker.estimate() == (0.5, 0.0, 1.0)
    assert tracker.fit() == (0.5, 1.0)
    for settings in ({"classes": 1}, {"classes": 3, "half_life": 0}):
        with pytest.raises(ValueError, match=r"at least 2|above 0"):
            Tracker(**settings)


def test_a_trainer_follows_its_stream() -> None:
    data = digits()
    inputs, labels = data.inputs.repeat(3, 1, 1), data.labels.repeat(3)
    stream = Replay(inputs, labels, Symmetric(10), Constant(0.6), rows_per_slot=4)
    model = start(mlp, data.input_shape, 10, 0)
    tracker = Tracker(10)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    trainer = Trainer(model, optimizer, Naive(), Sliding(1000), k=32, tracker=tracker)
    for _ in trainer.run(stream):
        pass
    assert tracker.estimate().value == pytest.approx(0.6, abs=0.06)


def probabilities_and_labels(
    clean_ratio: float, follows: bool, pairs: bool, rows: int = 20_000
) -> tuple[Tensor, Tensor]:
    """Return probabilities of a calibrated model, and labels wrong for the next class or for any.

    The model's mistakes are for the next class if they follow those of the labels, else for any.
    """
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(10, (rows,), generator=generator)
    following, any_other = (true + 1) % 10, torch.randint(1, 10, (2, rows), generator=generator)
    confidence = (4 * torch.rand(rows, generator=generator) - 1).sigmoid()
    is_right, is_clean = torch.rand(2, rows, generator=generator) < torch.stack(
        [confidence, torch.full((rows,), clean_ratio)]
    )
    predicted = torch.where(is_right, true, following if follows else (true + any_other[0]) % 10)
    labels = torch.where(is_clean, true, following if pairs else (true + any_other[1]) % 10)
    probabilities = ((1 - confidence) / 9)[:, None].repeat(1, 10)
    return probabilities.scatter(1, predicted[:, None], confidence[:, None]), labels


def with_and_without_overlap(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[Tensor, Tensor]
) -> tuple[Estimate, Estimate]:
    tracker = Tracker(10, half_life=1e9)
    tracker.update(*rows)
    found = tracker.estimate()
    monkeypatch.setattr(Tracker, "_most_overlap", lambda _: 0)
    return found, tracker.estimate()


def test_mistakes_that_follow_wrong_labels_are_seen_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = probabilities_and_labels(0.8, follows=True, pairs=True)
    found, blind = with_and_without_overlap(monkeypatch, rows)
    assert abs(found.value - 0.8) < abs(blind.value - 0.8) / 2


def test_wrong_labels_of_any_class_leave_mistakes_out_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = probabilities_and_labels(0.6, follows=True, pairs=False)
    found, blind = with_and_without_overlap(monkeypatch, rows)
    assert found == blind
    assert found.low <= 0.6 <= found.high


def test_mistakes_that_do_not_follow_pairs_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = probabilities_and_labels(0.6, follows=False, pairs=True)
    found, _ = with_and_without_overlap(monkeypatch, rows)
    assert abs(found.value - 0.6) < 0.03


def test_of_two_classes_there_is_one_to_be_wrong_for() -> None:
    tracker = Tracker(2, half_life=1e9)
    probabilities = torch.tensor([[0.9, 0.1]]).repeat(1000, 1)
    labels = (torch.arange(1000) % 5 == 0).long()
    tracker.update(probabilities, labels)
    found = tracker.estimate()
    assert found.low < found.value < found.high


def test_relabelled_rows_count_as_if_they_had_come_so() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = (4 * torch.randn(300, 3, generator=generator)).softmax(dim=1)
    labels = torch.randint(3, (300,), generator=generator)
    right = probabilities.argmax(dim=1)
    wrong = (labels != right).nonzero()[:, 0]
    corrected, other = Tracker(3, half_life=100), Tracker(3, half_life=100)
    for rows in torch.arange(300).split(1):
        corrected.update(probabilities[rows], labels[rows])
        other.update(probabilities[rows], right[rows])
    corrected.relabel(probabilities[wrong], labels[wrong], right[wrong], ages=299 - wrong)
    for name, tally in other.state_dict().items():
        assert torch.allclose(corrected.state_dict()[name], tally, atol=1e-9), name


def test_no_more_is_relabelled_than_was_counted() -> None:
    tracker = Tracker(3)
    confident, unconfident = torch.tensor([[0.98, 0.01, 0.01]]), torch.tensor([[0.4, 0.3, 0.3]])
    one, two = torch.tensor([1]), torch.tensor([2])
    tracker.update(confident, one)
    before = tracker.state_dict()
    for probabilities in (unconfident, torch.full((1, 3), torch.nan)):  # counted in other bins
        tracker.relabel(probabilities, one, two, ages=torch.zeros(1))
        assert all(value.equal(before[name]) for name, value in tracker.state_dict().items())
    for _ in range(3):
        tracker.relabel(confident, one, two, ages=torch.zeros(1))
    assert all((value >= 0).all() for value in tracker.state_dict().values())
    assert tracker.pairs()[0].tolist() == [0, 0, 1]
