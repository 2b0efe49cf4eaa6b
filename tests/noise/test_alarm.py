"""The alarm on stationary streams, and on streams that change in known ways."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tamis.noise import Alarm, Change, Tracker
from tamis.noise.alarm import RESTS, deviations, remapping, shift

CLASSES = 6
HALF_LIFE = 500.0
Rows = tuple[Tensor, Tensor]


def make_rows(
    count: int,
    clean_ratio: float,
    seed: int,
    spread: float | Tensor = 8.0,
    factor: float = 1.0,
    classes_predicted: int = CLASSES,
) -> Rows:
    """Return probabilities of a calibrated model, its logits times a factor, and noisy labels."""
    generator = Generator().manual_seed(seed)
    rows = torch.arange(count)
    lead = spread * torch.randn(count, generator=generator).abs()
    right = torch.rand(count, generator=generator) < lead.exp() / (lead.exp() + CLASSES - 1)
    predicted = torch.randint(classes_predicted, (count,), generator=generator)
    other = (predicted + torch.randint(1, CLASSES, (count,), generator=generator)) % CLASSES
    true = torch.where(right, predicted, other)
    confidence = (factor * lead).exp() / ((factor * lead).exp() + CLASSES - 1)
    probabilities = ((1 - confidence) / (CLASSES - 1))[:, None].repeat(1, CLASSES)
    probabilities[rows, predicted] = confidence
    wrong = torch.rand(count, generator=generator) > clean_ratio
    moved = (true + torch.randint(1, CLASSES, (count,), generator=generator)) % CLASSES
    return probabilities, torch.where(wrong, moved, true)


def changes_in(alarm: Alarm, *parts: Rows, size: int = 25) -> list[Change]:
    """Return the changes that an alarm detects, fed a few rows at a time."""
    found = []
    for probabilities, labels in parts:
        for rows in torch.arange(len(labels)).split(size):
            alarm.update(probabilities[rows], labels[rows])
            if change := alarm.pop_change():
                found.append(change)
    return found


BEFORE = make_rows(4000, 0.9, 0)


def swap(rows: Rows, first: int, second: int) -> Rows:
    labels = rows[1].clone()
    labels[rows[1] == first], labels[rows[1] == second] = second, first
    return rows[0], labels


CHANGES = {
    "labels get worse": ("noise", make_rows(1000, 0.5, 1)),
    "labels get a little worse": ("noise", make_rows(1000, 0.7, 1)),
    "half of the classes no longer occur": (
        "concept",
        make_rows(1000, 0.9, 1, classes_predicted=3),
    ),
    "classes change their names": ("concept", (BEFORE[0][:1000], (BEFORE[1][:1000] + 2) % CLASSES)),
    "two classes change their names": ("concept", swap(make_rows(1000, 0.9, 1), 1, 4)),
    "the model is lost": ("concept", make_rows(1000, 0.9, 1, spread=2.0, factor=0.8)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_detected_once_with_its_kind(name: str) -> None:
    kind, after = CHANGES[name]
    (change,) = changes_in(Alarm(CLASSES), BEFORE, after)
    assert change.kind == kind
    assert 4000 < change.row <= 4500
    assert change.before == pytest.approx(0.9, abs=0.05)


def test_better_labels_are_detected_too_and_older_rows_forgotten() -> None:
    alarm, plain = Alarm(CLASSES, HALF_LIFE), Tracker(CLASSES, HALF_LIFE)
    parts = make_rows(4000, 0.5, 0), make_rows(500, 0.9, 1)
    (change,) = changes_in(alarm, *parts)
    assert change.kind == "noise"
    assert change.before == pytest.approx(0.5, abs=0.07)
    assert change.after == pytest.approx(0.9, abs=0.07)
    for probabilities, labels in parts:
        for rows in torch.arange(len(labels)).split(25):
            plain.update(probabilities[rows], labels[rows])
    assert alarm.estimate().value == pytest.approx(0.9, abs=0.05)
    assert plain.estimate().value < 0.8


@pytest.mark.parametrize("clean_ratio", [0.9, 0.6, 0.3])
def test_nothing_is_detected_where_nothing_changes(clean_ratio: float) -> None:
    for seed in range(2):
        assert not changes_in(Alarm(CLASSES, HALF_LIFE), make_rows(8000, clean_ratio, seed))


def test_a_model_that_learns_is_no_change() -> None:
    learning = torch.linspace(1, 12, 10_000)
    for seed in range(2):
        rows = make_rows(10_000, 0.6, seed, spread=learning)
        assert not changes_in(Alarm(CLASSES, HALF_LIFE), rows)


def test_the_next_change_is_detected_after_a_rest() -> None:
    worse, better = make_rows(4000, 0.5, 1), make_rows(1000, 0.9, 2)
    alarm = Alarm(CLASSES, HALF_LIFE)
    first, second = changes_in(alarm, BEFORE, worse, better)
    assert (first.kind, second.kind) == ("noise", "noise")
    assert second.row > 8000
    soon = make_rows(int(RESTS * HALF_LIFE) - 500, 0.5, 1)
    assert len(changes_in(Alarm(CLASSES, HALF_LIFE), BEFORE, soon, better)) == 1


def test_rows_that_are_off_only_for_a_moment_are_no_change() -> None:
    burst = make_rows(25, 0.0, 1)
    alarm = Alarm(CLASSES, HALF_LIFE)
    assert not changes_in(alarm, BEFORE, burst, make_rows(3000, 0.9, 2))
    assert changes_in(alarm, make_rows(1000, 0.5, 3))  # it is still armed


@pytest.mark.parametrize("cut", [4025, 4100, 4900])
def test_saved_and_loaded_equals_unbroken(cut: int) -> None:
    probabilities, labels = (
        torch.cat(part) for part in zip(BEFORE, make_rows(3000, 0.5, 1), strict=True)
    )
    unbroken, head, tail = (Alarm(CLASSES, HALF_LIFE) for _ in range(3))
    for rows in torch.arange(cut).split(25):
        head.update(probabilities[rows], labels[rows])
        unbroken.update(probabilities[rows], labels[rows])
    size = {name: part.shape for name, part in head.state_dict().items() if name != "change"}
    tail.load_state_dict({name: part.clone() for name, part in head.state_dict().items()})
    for rows in torch.arange(cut, 7000).split(25):
        for alarm in (unbroken, tail):
            alarm.update(probabilities[rows], labels[rows])
    assert unbroken.pop_change() == tail.pop_change() is not None
    for name, part in unbroken.state_dict().items():
        torch.testing.assert_close(part, tail.state_dict()[name], rtol=0, atol=0)
        assert name == "change" or part.shape == size[name]  # memory does not grow


def test_no_rows_and_unusable_rows_change_nothing() -> None:
    alarm = Alarm(CLASSES, 50)
    assert alarm.pop_change() is None
    alarm.update(torch.empty(0, CLASSES), torch.empty(0, dtype=torch.long))
    for _ in range(100):
        alarm.update(torch.full((10, CLASSES), torch.nan), torch.full((10,), -1))
    assert alarm.pop_change() is None
    assert alarm.estimate() == (0.5, 0.0, 1.0)


def test_a_shift_is_measured_in_deviations() -> None:
    def of(*rows: Rows) -> tuple[float, ...]:
        newer, older = Tracker(CLASSES, 1e9), Tracker(CLASSES, 1e9)
        older.update(*BEFORE)
        newer.update(*rows[0])
        return shift(newer, older)

    same = torch.tensor([of(make_rows(300, 0.9, seed)) for seed in range(1, 61)])
    assert same[:, 1:].mean(dim=0).abs().max() < 0.4
    assert (same[:, 1:].std(dim=0) - 1).abs().max() < 0.3
    assert 0.5 < same[:, 0].square().mean() < 1.5  # chi squared of 1
    assert of(make_rows(300, 0.6, 1))[0] > 4
    assert of(make_rows(300, 0.6, 1))[2] > 4
    assert of(make_rows(300, 0.9, 1, classes_predicted=4))[1] > 4
    assert shift(Tracker(CLASSES), Tracker(CLASSES)) == (0, 0, 0)


@pytest.mark.parametrize(("square", "freedom", "expected"), [(16.919, 9, 1.645), (9.342, 10, 0.0)])
def test_chi_squared_in_deviations(square: float, freedom: int, expected: float) -> None:
    assert deviations(square, freedom) == pytest.approx(expected, abs=0.02)
    assert deviations(5.0, 0) == 0


def test_labels_that_moved_to_one_class_differ_from_labels_that_scatter() -> None:
    eye = torch.eye(4, dtype=torch.float64)
    assert remapping(10 * eye.roll(1, dims=1), 10 * eye.roll(1, dims=1)) == pytest.approx(40**0.5)
    assert remapping(10 * eye, 10 * eye) == 0
    assert remapping(10 * eye.roll(1, dims=1), 10 * eye) == pytest.approx(-(40**0.5))
    generator = Generator().manual_seed(0)
    early, late = (torch.randint(9, (9, 9), generator=generator).double() for _ in range(2))
    assert abs(remapping(early, late)) < 3


def correct_some(alarm: Tracker, rows: Rows, corrected: int) -> None:
    """Correct labels of the newest rows but 500 to what a good model predicts."""
    probabilities, labels = (column[-500 - corrected : -500] for column in rows)
    ages = torch.arange(500 + corrected, 500, -1) - 1
    wrong = probabilities.argmax(dim=1) != labels
    alarm.relabel(
        probabilities[wrong],
        labels[wrong],
        probabilities[wrong].argmax(dim=1),
        ages=ages[wrong],
    )


def test_corrected_labels_are_no_change_of_the_stream() -> None:
    alarm, before, after = Alarm(CLASSES), make_rows(4000, 0.6, 0), make_rows(4000, 0.6, 1)
    assert not changes_in(alarm, before)
    ratio = alarm.estimate().value
    correct_some(alarm, before, 2000)
    assert alarm.estimate().value > ratio + 0.1
    resumed = Alarm(CLASSES)
    resumed.load_state_dict(alarm.state_dict())
    assert not changes_in(alarm, after)
    assert not changes_in(resumed, after)
    assert all(
        value.equal(resumed.state_dict()[name]) for name, value in alarm.state_dict().items()
    )


def test_a_change_after_corrections_is_detected_as_without_them() -> None:
    corrected, plain = Alarm(CLASSES), Alarm(CLASSES)
    before, after = make_rows(4000, 0.8, 0), make_rows(1500, 0.4, 1)
    for alarm in (corrected, plain):
        changes_in(alarm, before)
    correct_some(corrected, before, 1000)
    assert changes_in(corrected, after) == changes_in(plain, after) != []
    assert corrected.estimate() == plain.estimate()


def test_a_state_without_a_change_replaces_one_that_waits() -> None:
    alarm, change = Alarm(CLASSES), Change("noise", 5, 0.9, 0.5)
    before = alarm.state_dict()
    alarm.load_state_dict(before | {"change": torch.tensor([1.0, *change[1:]])})
    assert alarm.state_dict()["change"].tolist() == pytest.approx([1.0, *change[1:]])
    alarm.load_state_dict(before)
    assert alarm.pop_change() is None
