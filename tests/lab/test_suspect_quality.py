"""How good suspects are: measured rightly, and good."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from sklearn.metrics import average_precision_score

from tamis.cli.main import main
from tamis.lab.suspect_quality import (
    Settings,
    average_precision,
    in_chunks,
    measure,
    rank_by_cleanlab,
    rate,
    truly,
)
from tamis.streams import Constant, Replay, Symmetric, digits


@pytest.mark.parametrize("ties", [1.0, 0.1])
def test_average_precision_is_that_of_scikit_learn(ties: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = (torch.rand(500, generator=generator) / ties).round(decimals=1) * ties
    wrong = torch.rand(500, generator=generator) < scores / 2
    assert average_precision(scores, wrong) == pytest.approx(
        average_precision_score(wrong.numpy(), scores.numpy())
    )


def test_a_perfect_ranking_and_the_worst() -> None:
    wrong = torch.arange(1000) < 100
    best = rate("best", -torch.arange(1000.0), wrong)
    assert (best.average_precision, best.at_100, best.at_1000) == (1.0, 1.0, 0.1)
    worst = rate("worst", torch.arange(1000.0), wrong)
    assert worst.at_100 == 0
    assert worst.average_precision < 0.06


def test_the_truth_is_that_of_the_ledger() -> None:
    data = digits()
    stream = Replay(data.inputs, data.labels, Symmetric(10), Constant(0.7), rows_per_slot=7, seed=3)
    for given, true in zip(stream, truly(stream, data), strict=True):
        assert (given.labels == true.labels).equal(given.clean)
        assert given.ids.equal(true.ids)
    assert sum(map(len, in_chunks(stream))) == len(data.labels)


def test_cleanlab_gets_what_it_wants(blobs, blob_model) -> None:
    probabilities = blob_model(blobs.inputs).softmax(dim=1).detach()
    given = probabilities.gather(1, blobs.labels[:, None])[:, 0]
    scores = rank_by_cleanlab(blobs.labels, probabilities, "self_confidence")
    assert torch.allclose(scores, 1 - given.double(), atol=1e-6)


@pytest.mark.parametrize("noise", ["symmetric", "pair"])
def test_suspects_of_digits_are_better_than_cleanlabs(noise: str) -> None:
    found = measure(digits(), Settings(noise, reviewed=100))
    ours, *theirs = found.rankings
    assert ours.average_precision > 0.95
    assert ours.average_precision > max(other.average_precision for other in theirs)
    assert found.review.rows == 100
    assert found.review.after == 1
    assert found.review.after - found.review.before > 0.9


def test_the_command(tmp_path: Path, capsys) -> None:
    out = tmp_path / "numbers.csv"
    threads = torch.get_num_threads()
    assert main(["lab", "suspects", "--data", "digits", "--out", str(out)]) == 0
    torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    assert "self_confidence" in printed
    assert "100.0% after review" in printed.replace("\n", " ")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["ranking"] == "tamis"
    assert len(rows) == 4
    assert main(["lab", "suspects", "--data", "digits", "--clean", "1.5"]) == 2
