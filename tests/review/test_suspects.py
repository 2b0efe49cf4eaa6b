"""Suspects: wrong labels come first."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tamis import ModelView, Samples
from tamis.noise import pairs
from tamis.review import LabelScorer, find_suspects
from tamis.review import scorer as scoring
from tamis.review.held_labels import relative_confusion
from tamis.review.scorer import SMOOTHING
from tamis.runs import Suspect, write_suspects_csv
from tamis.runs.spreadsheet import disarm, rearm

CLASSES = ["cat", "dog, big", "fox"]


def named(samples: Samples) -> list[tuple[Samples, list[str]]]:
    return [(samples, [f"row {number}" for number in samples.ids.tolist()])]


def test_wrong_labels_are_found(blobs: Samples, blob_model: nn.Module) -> None:
    suspects = find_suspects(ModelView(blob_model), named(blobs), CLASSES)
    wrong = {f"row {number}" for number in blobs.ids[~blobs.clean].tolist()}
    assert {suspect.id for suspect in suspects} == wrong
    numbers = [(CLASSES.index(one.given), CLASSES.index(one.suggested)) for one in suspects]
    assert all(suggested == (given - 1) % 3 for given, suggested in numbers)


def test_the_worst_is_first_and_scores_follow_their_formula(
    blobs: Samples, blob_model: nn.Module
) -> None:
    suspects = find_suspects(ModelView(blob_model), named(blobs), CLASSES)
    scores = [suspect.score for suspect in suspects]
    assert scores == sorted(scores, reverse=True)
    worst = suspects[0]
    row = int(worst.id.removeprefix("row "))
    given, suggested = CLASSES.index(worst.given), CLASSES.index(worst.suggested)
    probabilities = blob_model(blobs.inputs[[row]]).softmax(dim=1)[0]
    expected = probabilities[suggested] / (probabilities[suggested] + probabilities[given])
    assert worst.score == pytest.approx(expected.item(), abs=1e-5)
    assert worst.row == row


@pytest.mark.parametrize("value", [1e12, 1e20, 3e38])
def test_one_huge_row_held_changes_no_suspect(
    blobs: Samples, blob_model: nn.Module, value: float
) -> None:
    view = ModelView(blob_model)
    held = Samples.of(blobs.inputs.clone(), blobs.labels.clone())
    held.inputs[0] = value
    held.inputs[0, 1:] *= -1
    others = blobs[slice(1, None)]
    scores, classes = LabelScorer(view, held).scores(others)
    expected, expected_classes = LabelScorer(view, held[slice(1, None)]).scores(others)
    assert torch.equal(scores, expected)
    assert torch.equal(classes, expected_classes)


def test_rows_held_reveal_which_labels_are_confused(blobs: Samples, blob_model: nn.Module) -> None:
    """In the blobs a wrong label is always the next class: where that is known, doubts follow."""
    scorer = LabelScorer(ModelView(blob_model), blobs)
    confusion = scorer.confusion
    assert confusion is not None
    assert confusion.diagonal().mean() == pytest.approx(0.7, abs=0.05)
    for label in range(3):
        assert confusion[label, (label + 1) % 3] > 5 * confusion[label, (label + 2) % 3]


def test_a_row_is_a_candidate_where_unanimous_neighbours_could_outvote_its_label() -> None:
    model = nn.Linear(1, 2)
    nn.init.zeros_(model.bias)
    model.weight.data = torch.tensor([[0.0], [1.0]])  # the input is the log odds of class 1
    least = -math.log((1 + SMOOTHING) / SMOOTHING)
    rows = Samples.of(torch.tensor([[least + 0.005], [least - 0.02]]), torch.tensor([0, 0]))
    assert LabelScorer(ModelView(model)).candidates(rows).tolist() == [0]


def test_the_verdict_is_that_of_a_loop(blobs: Samples) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3))
    held, scored = blobs[slice(80)], blobs[slice(60, 120)]
    view = ModelView(model)
    scorer = LabelScorer(view, held)
    assert scorer.confusion is not None
    relative = relative_confusion(scorer.confusion)
    weighed = scorer.log_posterior(scored).exp()
    features, probability = view.features(blobs.inputs), model(blobs.inputs).softmax(dim=1).double()
    scale = features[:80].std(dim=0, correction=0).clamp_min(1e-6)
    centred = (features - features[:80].mean(dim=0)) / scale
    for row in range(60, 120):
        votes = torch.zeros(3, dtype=torch.double)
        weights = {
            other: math.exp(40 * torch.cosine_similarity(centred[row], centred[other], 0).item())
            for other in range(80)
            if other != row
        }
        for other, weight in weights.items():
            likely = probability[other] * scorer.confusion[:, blobs.labels[other]]
            votes += weight / sum(weights.values()) * likely / likely.sum()
        wanted = probability[row] * (votes + 0.003) * relative[:, blobs.labels[row]]
        assert torch.allclose(weighed[row - 60], wanted / wanted.sum(), atol=1e-4)


def test_many_classes_are_scored_as_few_are(
    blobs: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3))
    held, scored = blobs[slice(60)], blobs[slice(40, 120)]
    expected = LabelScorer(ModelView(model), held)
    scores, others = expected.scores(scored)
    monkeypatch.setattr(pairs, "MANY_CLASSES", 2)
    monkeypatch.setattr(scoring, "MOST_NUMBERS", 500)
    scorer = LabelScorer(ModelView(model), held)
    assert scorer.confusion is None
    near = torch.testing.assert_close
    near(scorer.log_posterior(scored), expected.log_posterior(scored))
    near(scorer.scores(scored)[0], scores)
    assert torch.equal(scorer.scores(scored)[1], others)
    assert torch.equal(scorer.candidates(scored), expected.candidates(scored))
    assert len(scorer.scores(scored[slice(0)])[0]) == 0


def test_no_row_held_keeps_a_number_for_each_of_many_classes() -> None:
    torch.manual_seed(0)
    model, classes = nn.Linear(4, 5000), 5000
    held = Samples.of(torch.randn(300, 4), torch.randint(classes, (300,)))
    scorer = LabelScorer(ModelView(model), held)
    kept = [part for part in vars(scorer._held).values() if isinstance(part, Tensor)]
    assert sum(part.nbytes for part in kept) < 60 * (classes + 300 * 9)
    scores, others = scorer.scores(held)
    assert scores.isfinite().all()
    assert (others != held.labels).all()


def test_a_model_without_a_last_layer_is_used_alone(blobs: Samples, blob_model) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = blob_model

        def forward(self, inputs: Tensor) -> Tensor:
            return 2 * self.inner(inputs)

    suspects = find_suspects(ModelView(Odd()), named(blobs), CLASSES, blobs)
    wrong = {f"row {number}" for number in blobs.ids[~blobs.clean].tolist()}
    assert {suspect.id for suspect in suspects} == wrong


def test_they_are_written_by_class_name(
    blobs: Samples, blob_model: nn.Module, tmp_path: Path
) -> None:
    suspects = find_suspects(ModelView(blob_model), named(blobs), CLASSES)
    write_suspects_csv(tmp_path / "suspects.csv", suspects)
    with (tmp_path / "suspects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(suspects)
    assert rows[0]["id"] == suspects[0].id
    assert {row["given"] for row in rows} == {"cat", "dog, big", "fox"}
    assert list(tmp_path.iterdir()) == [tmp_path / "suspects.csv"]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1", "'=1", "''-1", "\uff1d1"]
)
def test_formulas_are_disarmed_and_come_back(text: str, tmp_path: Path) -> None:
    assert disarm(text).startswith("'")
    assert rearm(disarm(text)) == text
    write_suspects_csv(tmp_path / "suspects.csv", [Suspect(text, text, "b", 0.9)])
    with (tmp_path / "suspects.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["id"] == row["given"] == "'" + text


@pytest.mark.parametrize("text", ["", "a", "'", "'a", "a=1", "1-1", " =1"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert rearm(disarm(text)) == disarm(text) == rearm(text) == text


def test_an_empty_chunk_is_no_trouble(blob_model: nn.Module) -> None:
    nothing = Samples.of(torch.empty(0, 2), torch.empty(0, dtype=torch.long))
    assert find_suspects(ModelView(blob_model), named(nothing), CLASSES) == []


def test_rows_that_are_not_doubtful_are_no_suspects(blobs: Samples, blob_model: nn.Module) -> None:
    """What is passed over without asking the neighbours has no score above a half."""
    with torch.no_grad():
        blob_model.weight *= 3  # surer, as a trained model is
    scorer = LabelScorer(ModelView(blob_model), blobs)
    doubtful = set(scorer.candidates(blobs).tolist())
    suspected = set((scorer.scores(blobs)[0] > 0.5).nonzero()[:, 0].tolist())
    assert suspected <= doubtful
    assert len(doubtful) < len(blobs)
    assert [len(part) for part in scorer.scores(blobs[slice(0)])] == [0, 0]
