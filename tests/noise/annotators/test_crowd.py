"""Several labels a row become one; who gives bad ones is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tamis.errors import TamisError
from tamis.noise import Annotators
from tamis.noise.annotators import joint
from tamis.noise.annotators.confusion import START, estimate, mean_knowing
from tests.support.crowd import Crowd, crowd


def fitted(labels: Crowd, classes: int = 3, **settings: float) -> Annotators:
    annotators = Annotators(classes, **settings)
    annotators.update(*labels[1:])
    return annotators


def streamed(labels: Crowd, slot: int = 40, classes: int = 3) -> Annotators:
    annotators = Annotators(classes)
    for first in range(0, len(labels.rows), slot):
        annotators.update(*(column[first : first + slot] for column in labels[1:]))
    return annotators


def accuracy(annotators: Annotators, truth: np.ndarray) -> float:
    return (annotators.posterior().argmax(dim=1).numpy() == truth).mean()


def naive_em(labels: Crowd, classes: int, half_life: float, sweeps: int) -> np.ndarray:
    """Return posteriors by the EM of the paper, label by label, with the shrunken confusions."""
    number = labels.annotators.max() + 1
    given = np.bincount(labels.annotators)
    shares = np.full(classes, 1 / classes)
    knowing = np.full(number, START)
    means = START
    confusions = estimate(np.zeros((number, classes, classes)), shares, means).shares
    seen = list(zip(*labels[1:], strict=True))
    posterior = np.zeros((len(labels.truth), classes))
    for _ in range(sweeps):
        posterior[:] = shares
        for row, who, label in seen:
            posterior[row] *= confusions[who, :, label]
        posterior /= posterior.sum(axis=1, keepdims=True)
        counts, so_far = np.zeros((number, classes, classes)), np.zeros(number)
        for row, who, label in seen:
            age = given[who] - 1 - so_far[who]
            counts[who, :, label] += 0.5 ** (age / half_life) * posterior[row]
            so_far[who] += 1
        shares = (posterior.sum(axis=0) + 1) / (len(posterior) + classes)
        means = mean_knowing(knowing, given)
        confusions, knowing = estimate(counts, shares, means)
    return posterior


def test_it_is_the_em_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "TOLERANCE", 0)
    labels = crowd(60, 6)
    annotators = Annotators(3, half_life=20)
    monkeypatch.setattr(annotators, "refine", lambda **_: annotators._fit(4))
    annotators.update(*labels[1:])
    assert np.allclose(annotators.posterior().numpy(), naive_em(labels, 3, 20, 4))


def test_it_is_better_than_a_majority() -> None:
    labels = crowd(accuracy=0.65, spammers=3)
    votes = np.zeros((600, 3))
    np.add.at(votes, (labels.rows, labels.labels), 1)
    majority = (votes.argmax(axis=1) == labels.truth).mean()
    annotators = fitted(labels)
    assert accuracy(annotators, labels.truth) > majority + 0.03
    found = annotators.accuracy()
    assert found[:3].max() < 0.5 < 0.65 < found[3:].min()
    assert torch.allclose(annotators.confusion().sum(dim=2), torch.ones(8, 3).double())
    assert annotators.labels_given().tolist() == np.bincount(labels.annotators).tolist()
    assert annotators.labels_of_rows().tolist() == [4] * 600


def test_a_stream_ends_where_a_table_does() -> None:
    labels = crowd()
    one, other = fitted(labels), streamed(labels)
    assert abs(accuracy(one, labels.truth) - accuracy(other, labels.truth)) < 0.01
    assert (one.accuracy() - other.accuracy()).abs().max() < 0.05
    other.refine()
    assert (one.posterior() - other.posterior()).abs().max() < 0.01


def test_counts_of_a_stream_are_those_of_its_posteriors() -> None:
    annotators = streamed(crowd(turns=True))
    assert annotators.declines
    kept = annotators._counts.values.copy()
    for phase in range(len(kept)):
        annotators._recount(phase)
    assert np.allclose(kept, annotators._counts.values)
    total = annotators._posterior.values.sum(axis=0)
    assert np.allclose(annotators._class_counts, total)


@pytest.mark.parametrize("way", [fitted, streamed])
@pytest.mark.parametrize("seed", range(3))
def test_one_who_goes_bad_is_named_and_nobody_else(way, seed: int) -> None:
    labels = crowd(1000, turns=True, seed=seed)
    annotators = way(labels)
    (decline,) = annotators.declines
    mine = labels.rows[labels.annotators == 7]
    turned = int((mine < 500).sum())
    assert decline.annotator == 7
    assert turned - 40 <= decline.since <= turned + 40
    assert decline.since < decline.named <= turned + 200
    assert labels.annotators[decline.position] == 7
    assert decline.before > 0.6 > 0.5 > decline.after
    assert annotators.accuracy()[7] < 0.5
    assert annotators.labels_given()[7] == len(mine)


def test_one_who_was_always_bad_is_not_named() -> None:
    assert streamed(crowd(1000, spammers=2)).declines == []


def test_old_labels_keep_the_old_confusion(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = crowd(1500, 5, per_row=3, turns=True, spammers=0)
    found = accuracy(fitted(labels), labels.truth)
    monkeypatch.setattr("tamis.noise.annotators.crowd.LEVEL", np.inf)
    assert found > accuracy(fitted(labels), labels.truth)


def test_a_prior_decides_where_labels_do_not() -> None:
    annotators = Annotators(2)
    annotators.set_prior([0, 2], torch.tensor([[0.01, 0.99], [0.25, 0.75]]))
    annotators.update([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1])
    posterior = annotators.posterior()
    assert posterior[0, 1] > 0.95
    assert posterior[1, 1] < 0.9
    assert posterior[2].tolist() == pytest.approx([0.25, 0.75])


def test_saved_and_loaded_it_goes_on_as_before() -> None:
    labels = crowd(turns=True)
    parts = [tuple(column[at] for column in labels[1:]) for at in (slice(2000), slice(2000, None))]
    unbroken, saved = Annotators(3), Annotators(3)
    for annotators in (unbroken, saved):
        annotators.update(*parts[0])
    loaded = Annotators(3)
    loaded.load_state_dict(saved.state_dict())
    for annotators in (unbroken, loaded):
        annotators.update(*parts[1])
    ours, theirs = unbroken.state_dict(), loaded.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if name != "log_prior")
    assert unbroken.declines == loaded.declines != []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [0, 1], [0]), "of one length"),
        (([-1], [0], [0]), "numbered from 0"),
        (([0], [0], [3]), "up to 2"),
    ],
)
def test_bad_numbers_are_refused(columns, message: str) -> None:
    annotators = Annotators(3)
    with pytest.raises(ValueError, match=message):
        annotators.update(*columns)
    assert annotators.labels_of_rows().tolist() == []


def test_too_many_classes_are_refused() -> None:
    with pytest.raises(TamisError, match="too much memory"):
        Annotators(4000).update([0], [2], [0])
    with pytest.raises(ValueError, match="at least 2 classes"):
        Annotators(1)
    with pytest.raises(ValueError, match="half-life"):
        Annotators(2, half_life=0)


def test_nothing_is_no_update() -> None:
    annotators = Annotators(2)
    annotators.update([], [], [])
    assert annotators.posterior().shape == (0, 2)


@pytest.mark.parametrize("way", [fitted, streamed])
def test_of_three_who_label_everything_the_bad_one_is_named(way) -> None:
    """Until he is named, the two others agree less with the consensus, too."""
    labels = crowd(800, 3, per_row=3, spammers=0, turns=True)
    assert [each.annotator for each in way(labels).declines] == [2]
