"""cleanlab: label issues from predictions that a model made before it learned from the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.integrations.columns import device_of
from tamis.model_view import ModelView

try:
    import pandas as pd
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
except ModuleNotFoundError:
    raise ImportError(
        "tamis.integrations.cleanlab needs cleanlab: pip install 'tamis[audit]'"
    ) from None

Array = np.ndarray[Any, Any]


class FirstLooks:
    """Keeps predictions for rows as they come: the model has not learned from their labels yet.

    cleanlab needs such out-of-sample probabilities, and elsewhere gets them by training the model
    again on each fold. Here the stream provides them, for one pass a row. The first rows are
    predicted by an untrained model: `skip` those.
    """

    def __init__(self) -> None:
        self._looks: list[tuple[Tensor, Tensor, Tensor]] = []

    def look(self, view: ModelView, samples: Samples) -> None:
        """Predict rows through `trainer.averaged`, before the trainer's step learns from them."""
        probabilities = view.probabilities(samples.inputs.to(device_of(view.model)))
        self._looks.append((samples.ids.cpu(), samples.labels.cpu(), probabilities.cpu()))

    def table(self, skip: int = 0) -> tuple[Array, Array, Array]:
        """Return ids, labels and probabilities of all rows but the first, as arrays."""
        ids, labels, probabilities = (
            torch.cat(parts)[skip:].numpy() for parts in zip(*self._looks, strict=True)
        )
        return ids, labels, probabilities

    def issues(self, skip: int = 0, **options: Any) -> pd.DataFrame:
        """Return `label_issues` of all rows but the first."""
        ids, labels, probabilities = self.table(skip)
        return label_issues(labels, probabilities, ids, **options)


def label_issues(
    labels: Array, probabilities: Array, ids: Array | None = None, **options: Any
) -> pd.DataFrame:
    """Return cleanlab's table of labels, worst first; the index is `id`.

    Columns are those of its `CleanLearning`: `is_label_issue` from `find_label_issues`, which takes
    the options, and `label_quality` from `get_label_quality_scores`. Written as CSV, the table is
    one that `tamis import` reads for review.
    """
    found = pd.DataFrame(
        {
            "is_label_issue": find_label_issues(labels, probabilities, **options),
            "label_quality": get_label_quality_scores(labels, probabilities),
            "given_label": labels,
            "predicted_label": probabilities.argmax(axis=1),
        },
        index=pd.Index(np.arange(len(labels)) if ids is None else ids, name="id"),
    )
    return found.sort_values("label_quality", kind="stable")


def datalab(labels: Array, probabilities: Array, **options: Any) -> Any:
    """Return a `Datalab` that has looked for issues; it needs the package datasets as well.

    Its `get_issues("label")` is a table in the order of the rows. `find_issues` takes the options,
    as `features` or `issue_types`.
    """
    from cleanlab import Datalab

    lab = Datalab({"label": labels}, label_name="label", verbosity=0)
    lab.find_issues(pred_probs=probabilities, **options)
    return lab
