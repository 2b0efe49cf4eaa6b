"""scikit-learn's own checks; skorch against the plain loop; cleanlab on first looks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis import OGRS, Naive, Plausible, Replay, Sliding, Trainer
from tamis.integrations.sklearn import TamisClassifier
from tamis.models import logistic, mlp, start
from tamis.review.exchange.cleanlab_table import read_table
from tamis.streams import Symmetric, digits


@parametrize_with_checks([TamisClassifier(epochs=4, learning_rate=0.005)])
def test_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


def test_the_classifier_picks_as_a_trainer_does(fresh, rows, slots, same_weights) -> None:
    names = np.array(["ant", "bee", "cat"])[rows.labels]
    found = TamisClassifier(mlp, fresh(), k=16, epochs=3).fit(rows.inputs.numpy(), names)
    by_classifier = list(slots)
    slots.clear()
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    model = start(mlp, (2,), 3, seed).double()
    rule = torch.optim.Adam(model.parameters(), 0.001)
    trainer = Trainer(model, rule, fresh(), Sliding(256), k=16, window="average", seed=seed)
    trainer.validator.classes = 3
    trainer.step((rows.inputs.double(), rows.labels))
    for _ in range(47):
        trainer.step()
    assert len(by_classifier) == 3 * 256 / 16
    assert by_classifier == slots
    assert same_weights(found.trainer_.model, model)


def test_a_stream_of_partial_fits(rows, slots) -> None:
    found = TamisClassifier(k=16, held=100)
    for inputs, labels, _ in rows.pools():
        found.partial_fit(inputs.numpy(), labels.numpy(), classes=[0, 1, 2])
    assert len(slots) == 8 * 64 / 16
    assert len(found.trainer_.buffer) == 100
    with pytest.raises(ValueError, match=r"Label .*5.* is none of the classes"):
        found.partial_fit([[0.0, 0.0]], [5])
    assert found.partial_fit([[0.0, 0.0]], [2]).predict_proba([[0.0, 0.0]]).shape == (1, 3)


def test_settings_stay_as_they_were_given(rows) -> None:
    selector = Plausible()
    found = TamisClassifier(selector=selector, epochs=1).fit(rows.inputs.numpy(), rows.labels)
    assert found.selector is selector
    assert selector.state_dict() == {}
    assert found.trainer_.selector.state_dict()


def test_the_classifier_among_scikit_learns_own(rows) -> None:
    inputs, labels = rows.inputs.numpy(), rows.labels.numpy()
    quick = make_pipeline(StandardScaler(), TamisClassifier(logistic, learning_rate=0.05, epochs=5))
    assert cross_val_score(quick, inputs, labels, cv=3).mean() > 0.6  # 30% of labels are wrong
    search = GridSearchCV(quick, {"tamisclassifier__selector": [Naive(), OGRS()]}, cv=2)
    assert search.fit(inputs, labels).best_score_ > 0.6


def nets(**settings):
    from tamis.integrations.skorch import SieveNet

    known = {
        "k": 16, "lr": 0.1, "max_epochs": 2, "batch_size": 64, "train_split": None, "verbose": 0,
    }  # fmt: skip
    return SieveNet(**(known | settings))


def test_skorch_picks_as_the_plain_loop_does(
    fresh, rows, net, recording, train_plainly, same_weights
) -> None:
    found, other = nets(module=net, selector=fresh()).initialize(), net()
    sieve = recording(found.module_, fresh())
    found.sieve_ = sieve
    found.partial_fit(rows.inputs.numpy(), rows.labels.numpy())
    assert sieve.log == train_plainly(fresh(), other, rows.pools())
    assert same_weights(found.module_, other)


def test_skorch_in_a_stream(rows, net, recording, train_plainly, same_weights) -> None:
    """Each partial fit brings other rows, as one epoch of pools does."""
    found, other = nets(module=net, max_epochs=1).initialize(), net()
    sieve = found.sieve_ = recording(found.module_, Plausible())
    pools = rows.pools()[:4]
    for inputs, labels, _ in pools:
        found.partial_fit(inputs, labels)
    assert sieve.log == train_plainly(Plausible(), other, pools)
    assert same_weights(found.module_, other)


def test_skorch_with_a_split_a_score_and_a_pickle(rows, net) -> None:
    from skorch.callbacks import EpochScoring
    from skorch.dataset import ValidSplit

    score = EpochScoring("accuracy", on_train=True, use_caching=False, name="train_acc")
    found = nets(
        module=mlp_of_two,
        train_split=ValidSplit(4),
        callbacks=[score],
        iterator_train__shuffle=True,
    )
    found.fit(rows.inputs, rows.labels)
    assert found.history[-1, "valid_acc"] > 0.3
    assert found.history[-1, "train_acc"] > 0.3
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert np.array_equal(again.predict(rows.inputs), found.predict(rows.inputs))
    again.partial_fit(rows.inputs, rows.labels)
    copied = clone(found.set_params(k=8))
    assert (copied.k, copied.selector) == (8, None)


def mlp_of_two() -> torch.nn.Module:
    return start(mlp, (2,), 3, seed=0)


def test_skorch_in_cross_validation(rows) -> None:
    inputs, labels = rows.inputs.numpy(), rows.labels.numpy()
    quick = nets(module=mlp_of_two, selector=OGRS(), max_epochs=5)
    assert cross_val_score(quick, inputs, labels, cv=3).mean() > 0.6


@pytest.fixture(scope="module")
def looks():
    """What is thought of 800 digits as they come, 30% of them mislabelled."""
    from tamis.integrations.cleanlab import FirstLooks

    data, looks = digits(), FirstLooks()
    model = start(mlp, data.input_shape, 10, seed=0)
    rule = torch.optim.SGD(model.parameters(), 0.3)
    trainer = Trainer(model, rule, Plausible(), Sliding(1000))
    clean = []
    stream = Replay(data.inputs, data.labels, Symmetric(10), lambda _: 0.7, 200, rows_per_slot=4)
    for samples in stream:
        looks.look(trainer.averaged, samples)
        trainer.step(samples)
        clean.append(samples.clean)
    return looks, torch.cat(clean)


def test_cleanlab_finds_issues_from_first_looks(looks, tmp_path) -> None:
    looks, clean = looks
    table = looks.issues(skip=200)
    assert list(table) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    assert sorted(table.index) == list(range(200, 800))
    assert table.label_quality.is_monotonic_increasing
    found = table.index[table.is_label_issue]
    assert (~clean[list(found)]).float().mean() > 0.8
    assert len(found) > 0.8 * (~clean[200:]).sum()
    options = looks.issues(skip=200, filter_by="confident_learning")
    assert options.is_label_issue.sum() > 0
    table.to_csv(tmp_path / "issues.csv")
    first = read_table(tmp_path / "issues.csv")[0]
    assert first.suspect is not None
    assert (first.id, first.suspect.score) == (str(table.index[0]), 1 - table.label_quality.iloc[0])


def test_first_looks_are_out_of_sample(looks) -> None:
    """The very first rows are judged by a model that has seen nothing."""
    ids, labels, probabilities = looks[0].table()
    model = start(mlp, digits().input_shape, 10, seed=0)
    stream = Replay(
        digits().inputs, digits().labels, Symmetric(10), lambda _: 0.7, 200, rows_per_slot=4
    )
    samples = next(iter(stream))
    assert ids[:4].tolist() == samples.ids.tolist()
    assert labels[:4].tolist() == samples.labels.tolist()
    wanted = model(samples.inputs).softmax(dim=1).detach().numpy()
    assert np.allclose(probabilities[:4], wanted)


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")  # or Datalab finds nothing
def test_datalab_finds_the_same_labels(looks) -> None:
    pytest.importorskip("datasets", reason="Datalab needs the package datasets")
    from tamis.integrations.cleanlab import datalab

    _, labels, probabilities = looks[0].table(skip=200)
    lab = datalab(labels, probabilities, issue_types={"label": {}})
    ours = looks[0].issues(skip=200).sort_index().is_label_issue
    assert np.array_equal(lab.get_issues("label").is_label_issue, ours)
