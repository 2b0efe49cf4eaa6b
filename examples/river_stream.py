"""A River pipeline on a stream of images, 40% of whose labels are wrong, with a drift detector."""

import random

import pandas as pd
from river import datasets, metrics
from river.drift import ADWIN
from river.preprocessing import StandardScaler

from tamis import Naive, Plausible, Selector
from tamis.integrations.river import RiverClassifier

rows = list(datasets.ImageSegments().take(1500))
names = sorted({truth for _, truth in rows})


def accuracy(selector: Selector) -> tuple[float, int]:
    """Predict ten rows, then learn from them; return the share that is right, and the alarms."""
    rng = random.Random(0)  # noqa: S311
    model = StandardScaler() | RiverClassifier(classes=7, selector=selector)
    score, detector, alarms = metrics.Accuracy(), ADWIN(), 0
    for first in range(0, len(rows), 10):
        some = pd.DataFrame([x for x, _ in rows[first : first + 10]])
        truths = [truth for _, truth in rows[first : first + 10]]
        given = [rng.choice(names) if rng.random() < 0.4 else truth for truth in truths]
        for row, predicted in enumerate(model.predict_many(some) if first else []):
            score.update(truths[row], predicted)
            detector.update(predicted != given[row])
            alarms += detector.drift_detected
        model.learn_many(some, pd.Series(given))
    return score.get(), alarms


naive, _ = accuracy(Naive())
tamis, alarms = accuracy(Plausible())
print(f"river: accuracy naive {naive:.3f}, tamis {tamis:.3f}, alarms of drift: {alarms}")
