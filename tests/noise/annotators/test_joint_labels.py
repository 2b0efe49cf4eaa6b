"""Joint labels of a stream: labels come, change and go, rows leave, classes are added."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from tamis.noise import JointLabels
from tamis.noise.annotators import held as held_module
from tamis.noise.annotators.joint_labels import FIRST, MODELS
from tests.support.crowd import Crowd, crowd


def streamed(labels: Crowd, slot: int = 40, keep: int | None = None, **settings) -> JointLabels:
    """Return joint labels of a stream in slots; only the newest rows are kept, if so wanted."""
    joint = JointLabels(3, **settings)
    for first in range(0, len(labels.rows), slot):
        rows, annotators, given = (column[first : first + slot] for column in labels[1:])
        joint.update(rows, annotators, given)
        if keep is not None:
            joint.keep(joint.ids[-keep:])
    return joint


def random_events(joint: JointLabels, steps: int, seed: int = 0) -> dict[int, dict[int, int]]:
    """Give labels, change them, withdraw them and remove rows; return the labels that are left."""
    draw = random.Random(seed)  # noqa: S311
    given: dict[int, dict[int, int]] = {}
    for _ in range(steps):
        rows = [draw.randrange(30) for _ in range(6)]
        who = [draw.randrange(-1, 5) for _ in rows]
        kind = draw.choice(["label"] * 4 + ["withdraw", "withdraw all", "remove", "predict"])
        if kind == "label":
            labels = [draw.randrange(3) for _ in rows]
            joint.update(rows, who, labels)
            for row, annotator, label in zip(rows, who, labels, strict=True):
                given.setdefault(row, {})[annotator] = label
        elif kind == "predict":
            joint.predict(
                rows,
                torch.tensor([draw.randrange(3) for _ in rows]),
                torch.tensor([draw.choice([0.4, 0.7, 0.9, 0.99, torch.nan]) for _ in rows]),
            )
        elif kind == "remove":
            joint.remove(rows[:2])
            for row in rows[:2]:
                given.pop(row, None)
        else:
            who = [-1 if kind == "withdraw all" else max(0, each) for each in who][:2]
            joint.withdraw(rows[:2], who)
            for row, annotator in zip(rows[:2], who, strict=True):
                if annotator == -1:
                    given.pop(row, None)
                else:
                    given.get(row, {}).pop(annotator, None)
    return {row: labels for row, labels in given.items() if labels}


def votes_of(joint: JointLabels) -> dict[int, dict[int, int]]:
    """Return the labels of people that are held."""
    found: dict[int, dict[int, int]] = {}
    for row in joint.ids.tolist():
        place = joint._places.find([row])
        _, owners, labels = joint._fit.labels_of(place)
        people = {
            int(who) - FIRST: int(label)
            for who, label in zip(owners, labels, strict=True)
            if who >= MODELS
        }
        if people:
            found[row] = people
    return found


@pytest.mark.parametrize("seed", range(3))
def test_labels_held_are_those_given_last_and_not_withdrawn(seed: int) -> None:
    joint = JointLabels(3)
    given = random_events(joint, 200, seed)
    assert votes_of(joint) == given
    labels = dict(zip(joint.ids.tolist(), joint.labels(joint.ids).tolist(), strict=True))
    for row, label in labels.items():
        assert (label in given[row].values()) if row in given else (label == -1)


def test_counts_are_those_of_the_posteriors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost by changes and withdrawals, nor by dropping what is too old."""
    monkeypatch.setattr(held_module, "LEAST_FITTED", 100)
    monkeypatch.setattr(held_module, "MOST_TAKEN", 50)
    joint = JointLabels(3)
    joint._fit._until_fit = 100
    random_events(joint, 150)
    fit = joint._fit
    kept = fit._counts.values.copy()
    for phase in range(len(kept)):
        fit._recount(phase)
    assert np.allclose(kept, fit._counts.values)
    total = fit._gone_classes + fit._posterior.values.sum(axis=0)
    assert np.allclose(fit._class_counts, total)
    votes = fit._votes
    for row in range(len(votes.last_in_row)):
        of_row = votes.of_rows(np.array([row]))
        assert of_row.tolist() == np.flatnonzero(votes.rows == row).tolist()


def test_it_is_better_than_a_majority() -> None:
    labels = crowd(accuracy=0.65, spammers=3)
    votes = np.zeros((600, 3))
    np.add.at(votes, (labels.rows, labels.labels), 1)
    majority = (votes.argmax(axis=1) == labels.truth).mean()
    joint = streamed(labels)
    found = joint.labels(np.arange(600)).numpy()
    assert (found == labels.truth).mean() > majority + 0.03
    assert joint.accuracy()[:3].max() < 0.5 < 0.65 < joint.accuracy()[3:].min()
    assert joint.labels_given().tolist() == np.bincount(labels.annotators).tolist()
    assert torch.allclose(joint.confusion().sum(dim=2), torch.ones(8, 3).double())
    assert joint.class_shares().sum() == pytest.approx(1)


def test_annotators_are_known_by_rows_that_are_gone() -> None:
    labels = crowd(2000, accuracy=0.75, spammers=2)
    all_rows, few = streamed(labels), streamed(labels, keep=100)
    assert len(few) == 100
    assert (all_rows.accuracy() - few.accuracy()).abs().max() < 0.08


def test_memory_is_bounded() -> None:
    joint = streamed(crowd(4000, 6), most_rows=50)
    assert len(joint) == 50
    votes = joint._fit._votes
    assert joint._places.count <= 60
    assert len(votes) <= 6 * held_module.WINDOW + 2 * held_module.LEAST_FITTED


def test_the_model_chooses_between_labels_and_adds_none() -> None:
    joint = JointLabels(3)
    rows = np.arange(400)
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 3, 400)
    for part in np.split(rows, 40):
        joint.predict(part, torch.from_numpy(truth[part]), torch.full((10,), 0.97))
        labels = np.where(draw.random(10) < 0.7, truth[part], draw.integers(0, 3, 10))
        joint.update(part, draw.integers(0, 4, 10), labels)
    joint.predict([1000, 1001], torch.tensor([2, 2]), torch.tensor([0.99, 0.99]))
    assert joint.update([1000], [0], [1]).tolist() == [1]
    assert joint.update([1001, 1001], [0, 1], [0, 2]).tolist() == [2, 2]
    assert joint.labels([5000]).tolist() == [-1]
    assert joint.withdraw([1000], [0]).tolist() == [-1]


def test_one_who_goes_bad_is_named_though_every_row_has_one_label() -> None:
    """The model's prediction is what his labels are compared with."""
    draw = np.random.default_rng(1)
    joint = JointLabels(3)
    named, bad = [], 0
    for slot in range(400):
        rows = np.arange(10 * slot, 10 * slot + 10)
        truth = draw.integers(0, 3, 10)
        right = draw.random(10) < 0.95
        predicted = np.where(right, truth, draw.integers(0, 3, 10))
        joint.predict(rows, torch.from_numpy(predicted), torch.full((10,), 0.9))
        who = draw.integers(0, 5, 10)
        guesses = (draw.random(10) > 0.85) | ((who == 4) & (slot >= 200))
        labels = np.where(guesses, draw.integers(0, 3, 10), truth)
        joint.update(rows, who, labels)
        joint.keep(rows)
        bad += int((who == 4).sum()) if slot >= 200 and not named else 0
        named += joint.pop_declines()
    assert [each.annotator for each in named] == [4]
    assert bad <= 200
    assert joint.accuracy()[4] < 0.55 < 0.75 < joint.accuracy()[:4].min()
    assert joint.declines == named


def test_a_second_label_of_an_annotator_replaces_his_first() -> None:
    joint = JointLabels(3)
    joint.update([7], [0], [1])
    assert joint.update([7, 7], [0, 0], [0, 2]).tolist() == [2, 2]
    assert votes_of(joint) == {7: {0: 2}}


def test_a_decision_is_right_whatever_comes() -> None:
    joint = JointLabels(3)
    joint.update([7, 7, 7], [0, 1, 2], [1, 1, 1])
    joint.relabel([7], [2])
    assert joint.labels([7]).tolist() == [2]
    assert joint.update([7], [3], [1]).tolist() == [2]
    assert joint.withdraw([7], [-1]).tolist() == [2]


def test_decisions_show_who_is_wrong() -> None:
    joint = JointLabels(2)
    rows = np.arange(60)
    joint.update(np.repeat(rows, 2), np.tile([0, 1], 60), np.tile([0, 1], 60))
    joint.relabel(rows, np.ones(60))
    accuracy = joint.accuracy()
    assert accuracy[0] < 0.3 < 0.7 < accuracy[1]


def test_giving_a_decision_again_changes_nothing() -> None:
    joint = JointLabels(3)
    joint.update([7, 7], [0, 1], [1, 2])
    joint.relabel([7], [2])
    before = joint.state_dict()
    joint.relabel([7], [2])
    after = joint.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before if "log_prior" not in key)


def test_givers_are_the_newest_whose_label_it_is() -> None:
    joint = JointLabels(3)
    joint.update([7, 7, 7, 8], [0, 1, 2, -1], [1, 1, 0, 2])
    assert joint.givers([8, 7, 9]).tolist() == [-1, 1, -1]
    joint.relabel([7], [2])
    assert joint.givers([7]).tolist() == [2]


def test_rows_whose_joint_label_changes_by_others_are_reported() -> None:
    labels = crowd(1200, 3, per_row=3, spammers=0, turns=True)
    joint = JointLabels(3)
    last: dict[int, int] = {}
    changed = 0
    for first in range(0, len(labels.rows), 30):
        rows, who, given = (column[first : first + 30] for column in labels[1:])
        last |= dict(zip(rows.tolist(), joint.update(rows, who, given).tolist(), strict=True))
        ids, after = joint.pop_changed()
        assert all(
            last[row] != label for row, label in zip(ids.tolist(), after.tolist(), strict=True)
        )
        last |= dict(zip(ids.tolist(), after.tolist(), strict=True))
        changed += len(ids)
    assert joint.declines
    assert changed > 5
    assert list(last.values()) == joint.labels(list(last)).tolist()


def test_classes_can_be_added() -> None:
    labels = crowd(600)
    joint = streamed(labels)
    before, accuracy = joint.labels(joint.ids), joint.accuracy()
    joint.relabel([5], [1])
    joint.grow(5)
    joint.grow(4)  # no effect: there are more
    assert joint.classes == 5
    rest = joint.ids != 5
    assert (joint.labels(joint.ids) == before)[rest].float().mean() > 0.98
    assert (joint.accuracy() - accuracy).abs().max() < 0.1
    assert joint.update([9000, 9000], [5, 6], [4, 4]).tolist() == [4, 4]
    assert joint.labels([5]).tolist() == [1]
    loaded = JointLabels(3)
    loaded.load_state_dict(joint.state_dict())
    assert loaded.classes == 5
    assert loaded.update([9001], [5], [3]).tolist() == [3]


def test_annotators_beyond_the_limit_count_as_not_known() -> None:
    joint = JointLabels(3, most_annotators=2)
    joint.update([0, 0, 1, 1], [0, 7, 1, 8], [1, 1, 2, 2])
    assert joint.labels_given().tolist() == [1, 1]
    assert joint.givers([0, 1]).tolist() == [-1, -1]


def test_saved_and_loaded_it_goes_on_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_module, "LEAST_FITTED", 64)
    unbroken, saved = JointLabels(3, most_rows=25), JointLabels(3, most_rows=25)
    for joint in (unbroken, saved):
        random_events(joint, 80, seed=4)
    loaded = JointLabels(3, most_rows=25)
    loaded.load_state_dict({key: value.clone() for key, value in saved.state_dict().items()})
    for joint in (unbroken, loaded):
        random_events(joint, 80, seed=5)
    ours, theirs = unbroken.state_dict(), loaded.state_dict()
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert torch.equal(value.nan_to_num(), theirs[key].nan_to_num()), key


@pytest.mark.parametrize(
    ("columns", "message"),
    [(([0], [0, 1], [0]), "of one length"), (([1], [0], [3]), "from 0 to 2")],
)
def test_bad_numbers_are_refused(columns, message: str) -> None:
    joint = JointLabels(3)
    with pytest.raises(ValueError, match=message):
        joint.update(*columns)
    assert len(joint) == 0


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="need a row and an annotator"):
        JointLabels(3, most_rows=0)


def test_nothing_is_no_update() -> None:
    joint = JointLabels(3)
    assert joint.update([], [], []).tolist() == []
    assert joint.withdraw([3], [0]).tolist() == [-1]
    joint.remove([4])
    assert len(joint) == 0


def test_nobody_is_named_where_the_model_fails() -> None:
    """All labels then disagree with its predictions, whoever gave them."""
    draw = np.random.default_rng(0)
    joint = JointLabels(5)
    for slot in range(300):
        rows, truth = np.arange(10 * slot, 10 * slot + 10), draw.integers(0, 5, 10)
        right = draw.random(10) < (0.95 if slot < 200 else 0.2)
        predicted = np.where(right, truth, draw.integers(0, 5, 10))
        joint.predict(rows, torch.from_numpy(predicted), torch.full((10,), 0.9))
        labels = np.where(draw.random(10) < 0.85, truth, draw.integers(0, 5, 10))
        joint.update(rows, draw.integers(0, 5, 10), labels)
        joint.keep(rows)
    assert joint.declines == []
    assert joint.accuracy().min() > 0.75
