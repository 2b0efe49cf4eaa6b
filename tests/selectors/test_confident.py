"""Confident against cleanlab itself, index for index."""

from __future__ import annotations

import sys
from statistics import mean

import pytest
import torch
from cleanlab.filter import find_label_issues
from torch import Generator, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import Confident
from tamis.selectors.confident import find_issues

FILTERS = ["prune_by_noise_rate", "prune_by_class", "both", "confident_learning"]


@pytest.mark.parametrize("filter_by", FILTERS)
def test_it_is_cleanlabs_own_answer(
    blobs: Samples, blob_model: nn.Module, capsys: pytest.CaptureFixture[str], filter_by: str
) -> None:
    view = ModelView(blob_model)
    probabilities = view.probabilities(blobs.inputs)
    theirs = find_label_issues(
        blobs.labels.numpy(), probabilities.numpy(), filter_by=filter_by, n_jobs=1
    )
    assert find_issues(blobs.labels, probabilities, filter_by).tolist() == theirs.tolist()
    picks = Confident(filter_by=filter_by).select(blobs, view, 1000, Generator().manual_seed(0))
    assert sorted(picks.rows.tolist()) == (~theirs).nonzero()[0].tolist()
    assert 30 < theirs.sum() < 150
    assert capsys.readouterr() == ("", "")


def test_confident_rows_of_the_paper(blobs: Samples, blob_model: nn.Module) -> None:
    """Eq. 1 and 2: thresholds by class, then the surest class of those above theirs."""
    given = blobs.labels.tolist()
    predicted = ModelView(blob_model).probabilities(blobs.inputs).double().tolist()
    least = [
        mean(p[c] for p, label in zip(predicted, given, strict=True) if label == c)
        for c in range(3)
    ]
    issues = []
    for p, label in zip(predicted, given, strict=True):
        above = [c for c in range(3) if p[c] >= least[c]]
        surest = max(above, key=p.__getitem__) if above else label
        issues.append(surest != label and p[label] < max(p))
    probabilities = torch.tensor(predicted)
    assert find_issues(blobs.labels, probabilities, "confident_learning").tolist() == issues


def test_labels_with_one_row_or_none() -> None:
    """Label 0 is not there, label 3 has one row, which cleanlab never flags."""
    labels = torch.tensor([1, 1, 1, 2, 2, 2, 2, 3])
    probabilities = torch.full((8, 4), 0.05)
    probabilities[range(8), [1, 1, 2, 2, 2, 2, 1, 1]] = 0.85
    issues = find_issues(labels, probabilities, "prune_by_noise_rate")
    assert issues.tolist() == [False, False, True, False, False, False, True, False]


def test_one_label_has_no_issue(blobs: Samples, blob_model: nn.Module) -> None:
    one = blobs[blobs.labels == 2]
    picks = Confident().select(one, ModelView(blob_model), 1000, Generator().manual_seed(0))
    assert sorted(picks.rows.tolist()) == list(range(len(one)))


def test_a_model_that_ran_away_gives_no_picks(blobs: Samples, blob_model: nn.Module) -> None:
    with torch.no_grad():
        blob_model.weight.fill_(torch.nan)
    picks = Confident().select(blobs, ModelView(blob_model), 8, Generator().manual_seed(0))
    assert len(picks) == 0


def test_it_names_what_is_missing(blobs: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    with pytest.raises(ImportError, match=r"tamis\[audit\]"):
        find_issues(torch.tensor([0, 1]), torch.eye(2), "both")
