"""The methods of the comparison on tables: tamis, and scikit-learn's models as they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tamis.lab.tables import Cell, Encoded, Measured, sklearn_on, tamis_on


def columns(encoded: Encoded, scaled: bool) -> Any:
    """Return what makes numbers of a row: categories one-hot, numbers scaled or as they are."""
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = list(range(encoded.numbers))
    codes = list(range(encoded.numbers, encoded.rows.shape[1]))
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    scaler = StandardScaler() if scaled else "passthrough"
    return make_column_transformer((scaler, numbers), (one_hot, codes))


def logistic_regression(encoded: Encoded, seed: int) -> Any:
    """Return logistic regression on scaled columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(columns(encoded, True), LogisticRegression(max_iter=1000))


def random_forest(encoded: Encoded, seed: int) -> Any:
    """Return a random forest."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(columns(encoded, False), RandomForestClassifier(random_state=seed))


def gradient_boosting(encoded: Encoded, seed: int) -> Any:
    """Return gradient boosting over histograms, which knows categories."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    codes = list(range(encoded.numbers, encoded.rows.shape[1]))
    return HistGradientBoostingClassifier(random_state=seed, categorical_features=codes or None)


def perceptron(encoded: Encoded, seed: int) -> Any:
    """Return scikit-learn's MLP on scaled columns."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(columns(encoded, True), MLPClassifier(random_state=seed))


METHODS: dict[str, Callable[[Cell], Measured]] = {
    "tamis": tamis_on,
    "logistic regression": partial(sklearn_on, logistic_regression, False),
    "random forest": partial(sklearn_on, random_forest, True),
    "gradient boosting": partial(sklearn_on, gradient_boosting, True),
    "MLP": partial(sklearn_on, perceptron, False),
}
