"""Tabular data in a scikit-learn pipeline: tumours, 30% of whose labels are wrong."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tamis import Naive, Plausible, Selector
from tamis.integrations.sklearn import TamisClassifier

columns, truth = load_breast_cancer(return_X_y=True)
given = np.where(np.random.default_rng(0).random(len(truth)) < 0.3, 1 - truth, truth)


def accuracy(selector: Selector) -> float:
    """Train on given labels, test on true ones: the mean of three splits."""
    scores = []
    for train, test in StratifiedShuffleSplit(3, test_size=0.3, random_state=0).split(
        columns, truth
    ):
        model = make_pipeline(StandardScaler(), TamisClassifier(selector=selector, epochs=10))
        model.fit(columns[train], given[train])
        scores.append(model.score(columns[test], truth[test]))
    return float(np.mean(scores))


print(f"tabular: accuracy naive {accuracy(Naive()):.3f}, tamis {accuracy(Plausible()):.3f}")
