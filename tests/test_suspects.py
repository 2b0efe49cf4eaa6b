"""Suspects: wrong labels come first."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import nn

from tamis import LocalModel, Samples
from tamis.suspects import find_suspects, write_suspects


def named(samples: Samples) -> list[tuple[Samples, list[str]]]:
    return [(samples, [f"row {number}" for number in samples.ids.tolist()])]


def test_wrong_labels_are_found(blobs: Samples, blob_model: nn.Module) -> None:
    suspects = find_suspects(LocalModel(blob_model), named(blobs))
    wrong = {f"row {number}" for number in blobs.ids[~blobs.clean].tolist()}
    assert {suspect.id for suspect in suspects} == wrong
    assert all(suspect.suggested == (suspect.given - 1) % 3 for suspect in suspects)


def test_the_worst_is_first_and_scores_follow_their_formula(
    blobs: Samples, blob_model: nn.Module
) -> None:
    suspects = find_suspects(LocalModel(blob_model), named(blobs))
    scores = [suspect.score for suspect in suspects]
    assert scores == sorted(scores, reverse=True)
    worst = suspects[0]
    row = int(worst.id.removeprefix("row "))
    belief = blob_model(blobs.inputs[[row]]).softmax(dim=1)[0]
    expected = (1 + belief[worst.suggested] - belief[worst.given]) / 2
    assert worst.score == pytest.approx(expected.item(), abs=1e-5)


def test_they_are_written_by_class_name(
    blobs: Samples, blob_model: nn.Module, tmp_path: Path
) -> None:
    suspects = find_suspects(LocalModel(blob_model), named(blobs))
    write_suspects(suspects, ["cat", "dog, big", "fox"], tmp_path / "suspects.csv")
    with (tmp_path / "suspects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(suspects)
    assert rows[0]["id"] == suspects[0].id
    assert {row["given"] for row in rows} == {"cat", "dog, big", "fox"}
    assert list(tmp_path.iterdir()) == [tmp_path / "suspects.csv"]


def test_an_empty_chunk_is_no_trouble(blob_model: nn.Module) -> None:
    nothing = Samples.of(torch.empty(0, 2), torch.empty(0, dtype=torch.long))
    assert find_suspects(LocalModel(blob_model), named(nothing)) == []
