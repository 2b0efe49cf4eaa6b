"""River's own checks, its evaluation and its drift detectors."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from river import checks, datasets, drift, evaluate, metrics, preprocessing
from river.drift import ADWIN

from tamis import ITLM, OGRS, Naive, Plausible, Samples, Sliding, Trainer
from tamis.integrations.river import RiverClassifier
from tamis.models import logistic, mlp, start
from tamis.selectors.plausible import Neighbours

LEFT_OUT = {
    # One slot for many rows is not a slot for each; River leaves its own linear models out, too.
    "check_learn_many_matches_learn_one",
    # It compares pickles, and a torch.Generator is never pickled twice to the same bytes.
    "check_no_state_aliasing_with_input",
}


def quick() -> RiverClassifier:
    return RiverClassifier(model=logistic, selector=Naive(), k=4, held=50)


def marks_of(check) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if "memory_growth" in check.__name__ else []


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=marks_of(check))
        for check in checks.yield_checks(quick())
        if check.__name__ not in LEFT_OUT
    ],
)
def test_the_checks_of_river(check) -> None:
    check(quick())


def test_rows_are_copied() -> None:
    model, x = quick(), {"a": 1.0, "b": 2.0}
    model.learn_one(x, True)
    x["a"] = 1e9
    assert model.trainer.buffer.pool().inputs.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("selector", [Plausible, OGRS, ITLM])
@pytest.mark.parametrize("many", [False, True])
def test_it_picks_as_a_trainer_does(selector, many: bool, slots, same_weights) -> None:
    rows = list(datasets.ImageSegments().take(60))
    found = RiverClassifier(7, selector=selector(), k=8, held=40)
    if many:
        for first in range(0, 60, 12):
            some = rows[first : first + 12]
            found.learn_many(pd.DataFrame([x for x, _ in some]), pd.Series([y for _, y in some]))
    else:
        for x, y in rows:
            found.learn_one(x, y)
    by_classifier = list(slots)
    slots.clear()
    names = sorted(rows[0][0])
    inputs = torch.tensor([[x[name] for name in names] for x, _ in rows], dtype=torch.double)
    order = list(dict.fromkeys(y for _, y in rows))
    labels = torch.tensor([order.index(y) for _, y in rows])
    model = start(mlp, (len(names),), 7, 0).double()
    rule = torch.optim.Adam(model.parameters(), 0.001)
    trainer = Trainer(model, rule, selector(), Sliding(40), k=8, window="average")
    trainer.validator.classes = 7
    step = 12 if many else 1
    for first in range(0, 60, step):
        at = slice(first, first + step)
        trainer.step(Samples.of(inputs[at], labels[at], first))
    assert by_classifier == slots
    assert same_weights(found.trainer.model, model)


def noisy(count: int):
    """Phishing sites, 30% of the labels wrong, and the truth beside."""
    rng = torch.Generator().manual_seed(0)
    for x, y in datasets.Phishing().take(count):
        yield x, y ^ (torch.rand((), generator=rng).item() < 0.3), y


@pytest.mark.slow
def test_progressive_validation_in_a_pipeline() -> None:
    small = RiverClassifier(2, selector=Plausible(neighbours=Neighbours(voters=256)), k=16)
    model = preprocessing.StandardScaler() | small
    stream = ((x, given) for x, given, _ in noisy(600))
    score = evaluate.progressive_val_score(stream, model, metrics.Accuracy())
    assert 0.5 < score.get() < 0.72  # a share of 0.7 of the labels is right
    found = metrics.Accuracy()
    for x, _, truth in noisy(1250):
        found.update(truth, model.predict_one(x))
    assert found.get() > 0.8


@pytest.mark.slow
def test_drift_detectors() -> None:
    """Classes change places half-way: the detector notices, and another model is reset."""
    rows = list(datasets.Phishing().take(300))
    rows += [(x, not y) for x, y in rows]
    small = RiverClassifier(2, selector=Plausible(neighbours=Neighbours(voters=256)), k=8, held=200)
    alarms, model = ADWIN(), preprocessing.StandardScaler() | small
    noticed = []
    for number, (x, y) in enumerate(rows):
        alarms.update(model.predict_one(x) != y)
        if alarms.drift_detected:
            noticed.append(number)
        model.learn_one(x, y)
    assert any(number > 300 for number in noticed)
    retrained = drift.DriftRetrainingClassifier(quick(), drift.binary.DDM())
    for x, y in rows:
        retrained.learn_one(x, y)
    assert retrained.model.trainer.slots < 300
    assert set(retrained.predict_proba_one(rows[0][0])) == {True, False}


def test_features_and_labels_that_come_later() -> None:
    model = RiverClassifier(2, k=4)
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_many(pd.DataFrame({"a": [1.0]})).shape == (1, 0)
    model.learn_one({"b": 1.0, "a": 2.0}, "ant")
    assert model.predict_proba_one({}) == {"ant": 1.0}
    model.learn_many(pd.DataFrame({"c": [9.0], "a": [1.0]}, index=[7]), pd.Series(["bee"], [7]))
    many = model.predict_proba_many(pd.DataFrame({"a": [1.0, 2.0]}, index=[3, 4]))
    assert (list(many), list(many.index)) == (["ant", "bee"], [3, 4])
    assert model.predict_proba_one({"a": 2.0, "c": 5.0})["bee"] == pytest.approx(many.bee[4])
    with pytest.raises(ValueError, match="Label 'cat' is one more than classes=2"):
        model.learn_one({"a": 1.0}, "cat")
