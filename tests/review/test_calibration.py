"""Scores are probabilities: calibrated without the truth, and one number of wrong labels."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tamis import ModelView, Plausible, Samples
from tamis.lab.scene import PLACES, Scene
from tamis.lab.score_quality import Cell, by_rank, by_width, calibration_error, run_cell
from tamis.lab.suspect_quality import clean_of
from tamis.review import LabelScorer, LiveSuspects, check_labels, previewer
from tamis.review.calibration import (
    Calibration,
    Judgement,
    compressed,
    fit_calibration,
    judge,
    threshold_of,
)
from tamis.review.judge import (
    RIDGE,
    Prediction,
    SoftLabels,
    leave_one_out,
    random_features,
    standardised,
)
from tamis.review.live import Waiting
from tamis.runs import SuspectIndex
from tamis.training import Trainer


def rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 4, generator=generator)
    return features, torch.randint(3, (count,), generator=generator)


def test_a_row_left_out_is_predicted_as_if_the_fit_had_never_seen_it() -> None:
    features, _ = rows(40)
    shares = torch.rand(40, 3, generator=torch.Generator().manual_seed(1)).double()
    shares /= shares.sum(dim=1, keepdim=True)
    classes = torch.arange(3).expand(40, 3)
    found = leave_one_out(features, SoftLabels(classes, shares), 3)
    scaled = torch.cat([standardised(features), torch.ones(40, 1).double()], dim=1)
    for row in range(40):
        others = torch.arange(40) != row
        inputs, targets = scaled[others], shares[others]
        gram = inputs.T @ inputs + RIDGE * 40 * torch.eye(5).double()
        expected = (scaled[row] @ torch.linalg.inv(gram) @ inputs.T @ targets).clamp_min(1e-6)
        assert found.classes[row] == expected.argmax()
        wanted = expected.max() / expected.sum()
        assert found.confidence[row].item() == pytest.approx(wanted.item(), abs=1e-9)


def test_a_label_alone_is_a_target_of_one_class() -> None:
    features, labels = rows(300)
    dense = torch.nn.functional.one_hot(labels, 3)
    one = leave_one_out(features, SoftLabels(labels[:, None], torch.ones(300, 1)), 3)
    all_classes = SoftLabels(torch.arange(3).expand(300, 3), dense)
    assert torch.equal(one.classes, leave_one_out(features, all_classes, 3).classes)


def test_wide_inputs_and_odd_values_have_random_features() -> None:
    inputs = torch.zeros(5, 3, 100, 100)
    inputs[0], inputs[1] = math.nan, math.inf
    found = random_features(inputs)
    assert found.shape == (5, 512)
    assert found.isfinite().all()


def simulated(count: int = 4000) -> tuple[Tensor, Tensor, Prediction, Tensor]:
    """Return true and given labels, a prediction as accurate as it is confident, and leads.

    The leads are three times too large.
    """
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(3, (count,), generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.25
    shifts = torch.randint(1, 3, (2, count), generator=generator)
    given = torch.where(wrong, (truth + shifts[0]) % 3, truth)
    accuracy = torch.linspace(0.5, 0.99, count).double()
    missed = torch.rand(count, generator=generator) > accuracy
    predicted = torch.where(missed, (truth + shifts[1]) % 3, truth)
    evidence = 2 * wrong.double() - 1 + torch.randn(count, generator=generator).double()
    # The log odds of Gaussian evidence x are 2 x; these are three times as much, uncompressed.
    return truth, given, Prediction(predicted, accuracy), 2 * (3 * evidence).sinh()


def test_scores_become_the_probabilities_that_they_should_be() -> None:
    truth, given, prediction, leads = simulated()
    found = judge(prediction, given, 3, 0.25)
    assert found.clean_ratio == pytest.approx(0.75, abs=0.05)
    calibration = fit_calibration(leads, 0.75, [found], 3)
    assert compressed(leads).std() > 5
    assert calibration.weight == pytest.approx(1 / 3, rel=0.3)
    scores = calibration.scores(leads)
    assert scores.mean().item() == pytest.approx(0.25, abs=1e-9)
    for part in scores.sort().indices.split(800):
        assert scores[part].mean().item() == pytest.approx(
            (truth != given)[part].double().mean().item(), abs=0.05
        )


def test_the_weight_is_that_of_a_loop() -> None:
    _, given, prediction, leads = simulated(60)
    judgements = [judge(prediction, given, 3, 0.25), Judgement(given == 0, leads.sigmoid(), 0.5)]
    found = fit_calibration(leads, 0.7, judgements, 3)
    lead, weights, logs = compressed(leads).tolist(), [], []
    for step in range(45):
        weight = 10 ** (-2 + 2.18 * step / 44)
        low, high = -1000.0, 1000.0
        for _ in range(100):
            middle = (low + high) / 2
            mean = sum(1 / (1 + math.exp(-weight * x - middle)) for x in lead) / 60
            low, high = (middle, high) if mean < 0.3 else (low, middle)
        total = -2 * math.log(weight) ** 2
        for agrees, accuracy, _ in judgements:
            for x, same, right in zip(lead, agrees.tolist(), accuracy.tolist(), strict=True):
                wrong = 1 / (1 + math.exp(-weight * x - low))
                agree = (1 - wrong) * right + wrong * (1 - right) / 2
                total += math.log(max(agree if same else 1 - agree, 1e-9)) / 2
        weights.append(total)
        logs.append(math.log(weight))
    shares = [math.exp(total - max(weights)) for total in weights]
    expected = sum(map(lambda share, log: share * log, shares, logs)) / sum(shares)
    assert found.weight == pytest.approx(math.exp(expected), rel=1e-6)


def test_scores_rise_with_leads_and_invert() -> None:
    calibration = Calibration(0.4, -1.0, 0.8, 0.3)
    leads = torch.linspace(-60, 60, 1001).double()
    scores = calibration.scores(leads)
    assert (scores.diff() > 0).all()
    least = torch.tensor([calibration.least_lead]).double()
    assert calibration.scores(least).item() == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("scores", "threshold"),
    [
        ([0.9, 0.9, 0.1, 0.1], 0.5),  # two expected, two listed
        ([0.45, 0.4, 0.3, 0.05], 0.4),  # one expected, none above a half: the worst is listed
        ([0.1, 0.1, 0.1, 0.1], 0.1),  # none is worse than the average
        ([0.9, 0.9, 0.9, 0.9], 0.5),
    ],
)
def test_as_many_are_listed_as_are_expected(scores: list[float], threshold: float) -> None:
    assert threshold_of(torch.tensor(scores).double()) == pytest.approx(threshold)


@cache
def trained() -> Trainer:
    """Return a trainer of the board: digits, 30% of the labels wrong."""
    place = PLACES["digits"]
    scene = Scene(place, place.load(None), "symmetric", 0.7, 150, 0)
    trainer = scene.trainer(Plausible(), warm_up=0)
    arriving = scene.stream()
    for _ in range(scene.slots):
        trainer.step(next(arriving, None))
    return trainer


def test_the_sum_of_scores_is_the_number_of_wrong_labels() -> None:
    trainer = trained()
    held = trainer.held()
    scorer = LabelScorer(trainer.averaged, held)
    scores, _ = scorer.scores(held)
    names = [(held, list(map(str, held.ids.tolist())))]
    check = check_labels(trainer.averaged, names, list("0123456789"), held)
    assert check.rows == len(held)
    assert check.clean_ratio == scorer.clean_ratio
    assert check.wrong == round(scores.sum().item()) == round(len(held) * (1 - check.clean_ratio))
    assert check.wrong == pytest.approx(int((~held.clean).sum()), abs=0.03 * len(held))
    assert len(check.suspects) == pytest.approx(check.wrong, abs=0.02 * len(held))
    assert {int(one.id) for one in check.suspects} == set(
        held.ids[scores > scorer.threshold].tolist()
    )


def test_suspects_of_a_run_in_progress_have_the_same_scores(tmp_path: Path) -> None:
    trainer = trained()
    held, classes = trainer.held(), list("0123456789")
    names = list(map(str, held.ids.tolist()))
    live = LiveSuspects(tmp_path, trainer, classes, previewer((64,)), every=1)
    for slot, part in enumerate(torch.arange(len(held)).split(20)):
        live._waiting.append(Waiting(held[part], [names[at] for at in part], [slot] * len(part)))
    live.rescore(0)
    expected = check_labels(trainer.averaged, [(held, names)], classes, held).suspects
    scores = {one.id: (one.suggested, pytest.approx(one.score, abs=1e-6)) for one in expected}
    found = {one.id: (one.suggested, one.score) for one in SuspectIndex(tmp_path)}
    assert len(found) > 200
    assert found == scores


def test_calibration_changes_no_ranking_and_makes_no_pile_of_ones() -> None:
    trainer = trained()
    held = trainer.held()
    raw, raw_others = LabelScorer(trainer.averaged, held, calibrate=False).scores(held)
    scores, others = LabelScorer(trainer.averaged, held).scores(held)
    assert torch.equal(raw_others, others)
    order = scores.argsort(stable=True)
    assert (raw[order].diff() >= 0).all()
    assert (raw > 0.9999).sum() > 50
    assert (scores > 0.9999).sum() == 0
    suspects = scores[scores > 0.5]
    assert len((suspects * 1e6).round().unique()) > 0.95 * len(suspects)


def test_few_rows_held_leave_scores_as_they_are(blobs: Samples, blob_model: nn.Module) -> None:
    view, few = ModelView(blob_model), blobs[slice(99)]
    scorer = LabelScorer(view, few)
    assert scorer.calibration is None
    assert scorer.clean_ratio is None
    assert scorer.threshold == 0.5
    raw = LabelScorer(view, few, calibrate=False)
    assert torch.equal(scorer.scores(blobs)[0], raw.scores(blobs)[0])
    names = [(few, list(map(str, few.ids.tolist())))]
    check = check_labels(view, names, ["a", "b", "c"], few)
    assert check.wrong == len(check.suspects)


def test_no_candidate_is_passed_over_that_calibration_would_list() -> None:
    trainer = trained()
    held = trainer.held()
    scorer = LabelScorer(trainer.averaged, held)
    for threshold in (0.05, 0.5, 0.9):
        fitted = scorer.calibration
        assert fitted
        scorer.calibration = Calibration(fitted.weight, fitted.offset, 0.7, threshold)
        listed = (scorer.scores(held)[0] > threshold).nonzero()[:, 0].tolist()
        assert set(listed) <= set(scorer.candidates(held).tolist())


def test_scores_of_digits_are_calibrated() -> None:
    trainer = trained()
    held = trainer.held()
    scores = LabelScorer(trainer.averaged, held).scores(held)[0]
    raw = LabelScorer(trainer.averaged, held, calibrate=False).scores(held)[0]
    wrong = ~clean_of(held)
    for bins in (by_width, by_rank):
        assert calibration_error(scores, wrong, bins(scores)) <= 0.05
    assert (scores - wrong.double()).square().mean() < (raw - wrong.double()).square().mean()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("noise", ["symmetric", "pair"])
def test_scores_of_the_board_are_calibrated(noise: str, seed: int) -> None:
    """On seeds that no constant was chosen on; pair noise from a half on is ambiguous."""
    threads = torch.get_num_threads()
    for ratio in (0.9, 0.7, 0.5, 0.3) if noise == "symmetric" else (0.9, 0.7):
        calibrated, raw = run_cell(Cell("digits", noise, ratio, seed))[0]
        assert calibrated.ece <= 0.05
        assert calibrated.average_precision >= raw.average_precision
    torch.set_num_threads(threads)
