"""Suspects with what to show of them, their neighbours, and the index that they stand on."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tamis import ModelView, Samples
from tamis.review import (
    NeighbourIndex,
    encode_png,
    files,
    find_neighbours,
    find_suspects,
    neighbours,
    preview_columns,
    preview_text,
    previewer,
    write_review_files,
)
from tamis.runs import Suspect, SuspectIndex, write_suspects, write_suspects_csv

CLASSES = ["cat", "=dog", "<b>fox</b>"]


def named(samples: Samples) -> list[tuple[Samples, list[str]]]:
    return [(samples, [f"row {number}" for number in samples.ids.tolist()])]


def decode(png: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)))


@pytest.mark.parametrize("shape", [(8, 6), (1, 8, 6), (3, 8, 6)])
def test_pictures_come_back(shape: tuple[int, ...]) -> None:
    picture = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    pixels = decode(encode_png(picture))
    wanted = picture.movedim(0, -1) if shape[0] == 3 else picture.reshape(8, 6)
    assert pixels.shape == tuple(wanted.shape)
    assert np.abs(pixels / 255 - wanted.numpy()).max() < 0.003


@pytest.mark.parametrize(
    ("numbers", "low", "high"),
    [
        (torch.tensor([[0.0, 255.0]] * 2), 0, 255),
        (torch.tensor([[-1.0, 1.0]] * 2), 0, 255),
        (torch.tensor([[0.0, 510.0]] * 2), 0, 255),
        (torch.tensor([[0, 255]] * 2, dtype=torch.uint8), 0, 255),
        (torch.tensor([[torch.nan, torch.inf]] * 2), 0, 0),
        (torch.zeros(2, 2), 0, 0),
    ],
)
def test_any_range_of_numbers_is_a_picture(numbers: Tensor, low: int, high: int) -> None:
    pixels = decode(encode_png(numbers))
    assert (pixels.min(), pixels.max()) == (low, high)


def test_large_pictures_are_made_small() -> None:
    assert max(decode(encode_png(torch.rand(3, 500, 300))).shape) <= 96


def test_rows_are_previewed_by_their_columns() -> None:
    show = previewer((3,), ["a", "=b", "c"])
    assert show(torch.tensor([1.0, 2.123456789, -3])) == {
        "columns": {"a": 1.0, "=b": 2.1235, "c": -3.0}
    }
    assert preview_columns(torch.ones(2)) == {"columns": {"0": 1.0, "1": 1.0}}
    assert len(preview_columns(torch.ones(1000))["columns"]) == 60
    assert preview_text("x" * 5000) == {"text": "x" * 2000}
    assert "image" in previewer((28, 28))(torch.rand(28, 28))
    assert "columns" in previewer((2, 3))(torch.rand(2, 3))


@pytest.fixture
def folder(tmp_path: Path, blobs: Samples, blob_model: nn.Module) -> Path:
    view = ModelView(blob_model)
    suspects = find_suspects(view, named(blobs), CLASSES, blobs, rows_per_slot=10)
    preview = previewer((2,), ["x", "y"])
    write_review_files(
        tmp_path, suspects, named(blobs), CLASSES, preview=preview, view=view, held=blobs
    )
    return tmp_path


def test_all_is_left_about_suspects(folder: Path, blobs: Samples) -> None:
    index = SuspectIndex(folder)
    wrong = {f"row {number}" for number in blobs.ids[~blobs.clean].tolist()}
    assert {suspect.id for suspect in index} == wrong
    first = index.read(list(index)[:1])[0]
    row = int(first.id.removeprefix("row "))
    assert first.slot == row // 10
    assert first.given == CLASSES[int(blobs.labels[row])]
    assert list(first.preview["columns"].values()) == pytest.approx(
        blobs.inputs[row].tolist(), 1e-3
    )
    assert len(index) == len(wrong)
    assert index.labels == set(CLASSES)
    assert first.id in index
    assert "no such" not in index
    assert index.get("no such") is None
    assert [suspect.score for suspect in index] == sorted(
        (suspect.score for suspect in index), reverse=True
    )


def test_neighbours_are_near_and_never_the_row_itself(folder: Path, blobs: Samples) -> None:
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    neighbourhood = NeighbourIndex(folder)
    for suspect in SuspectIndex(folder):
        near = neighbourhood.of(suspect.id)
        assert len(near) == 5
        rows = [int(other.id.removeprefix("row ")) for other in near]
        assert int(suspect.id.removeprefix("row ")) not in rows
        assert all(right[row] == CLASSES.index(suspect.suggested) for row in rows)
        assert all("x" in other.preview["columns"] for other in near)
    assert neighbourhood.of("no such") == []


def test_probabilities_are_those_of_the_likeliest_classes_and_of_the_label(
    tmp_path: Path, blobs: Samples, blob_model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_CLASSES", 1)
    view = ModelView(blob_model)
    suspects = find_suspects(view, named(blobs), CLASSES, blobs)
    write_review_files(
        tmp_path, suspects, named(blobs), CLASSES, preview=previewer((2,)), view=view, held=blobs
    )
    index = SuspectIndex(tmp_path)
    wanted = view.probabilities(blobs.inputs)
    for suspect in index.read(list(index)):
        shares = wanted[suspect.row]
        labels = [int(shares.argmax()), CLASSES.index(suspect.given)]
        assert suspect.probabilities == pytest.approx(
            {CLASSES[label]: float(shares[label]) for label in labels}, abs=1e-4
        )


def test_neighbours_are_those_of_a_loop(blobs: Samples, blob_model: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 3))
    view = ModelView(model)
    near = find_neighbours(view, blobs.inputs[:20], blobs.ids[:20], blobs, count=4)
    features = view.features(blobs.inputs)
    scaled = (features - features.mean(dim=0)) / features.std(dim=0, correction=0).clamp_min(1e-6)
    for row in range(20):
        similarity = [
            -2.0 if other == row else torch.cosine_similarity(scaled[row], scaled[other], 0).item()
            for other in range(len(blobs))
        ]
        best = sorted(similarity, reverse=True)[:4]
        assert near.similarity[row].tolist() == pytest.approx(best, abs=1e-5)


def test_few_rows_are_compared_at_once_where_many_are_held(
    blobs: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    view = ModelView(nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 3)))
    expected = find_neighbours(view, blobs.inputs[:20], blobs.ids[:20], blobs)
    sizes, features = [], view.features

    def counted(inputs: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return features(inputs)

    monkeypatch.setattr(view, "features", counted)
    monkeypatch.setattr(neighbours, "MOST_NUMBERS", 3 * len(blobs))
    found = find_neighbours(view, blobs.inputs[:20], blobs.ids[:20], blobs)
    assert sizes == [len(blobs), *[3] * 6, 2]
    torch.testing.assert_close(found.similarity, expected.similarity)


def test_one_row_held_has_no_neighbour(tmp_path: Path, blobs: Samples, blob_model) -> None:
    one = blobs[(~blobs.clean).nonzero()[:1, 0]]
    view = ModelView(blob_model)
    suspects = find_suspects(view, named(one), CLASSES, one)
    write_review_files(
        tmp_path, suspects, named(one), CLASSES, preview=previewer((2,)), view=view, held=one
    )
    assert NeighbourIndex(tmp_path).of(suspects[0].id) == []


def test_the_index_follows_a_file_that_is_replaced(folder: Path) -> None:
    index = SuspectIndex(folder)
    assert not index.refresh()
    write_suspects(folder, [Suspect("a", "cat", "=dog", 0.9), Suspect("a", "cat", "cat", 0.8)])
    old = list(index)[:2]
    assert index.refresh()
    assert [suspect.id for suspect in index] == ["a"]
    assert index.read(old) == []  # what stood there is gone


def test_an_older_run_has_a_table_only(tmp_path: Path, blobs: Samples, blob_model) -> None:
    suspects = find_suspects(ModelView(blob_model), named(blobs), CLASSES)
    write_suspects_csv(tmp_path / "suspects.csv", suspects)
    index = SuspectIndex(tmp_path)
    assert [suspect.id for suspect in index] == [suspect.id for suspect in suspects]
    assert index.read(list(index)[:1])[0].given == suspects[0].given
    assert not index.refresh()
    write_suspects(tmp_path, [Suspect("a", "cat", "=dog", 0.9)])
    assert index.refresh()
    assert len(index) == 1


def test_no_suspects_at_all(tmp_path: Path) -> None:
    assert len(SuspectIndex(tmp_path)) == 0
    (tmp_path / "suspects.jsonl").write_text('{"id": 1}\n{"score": 1}\nx\n')
    assert len(SuspectIndex(tmp_path)) == 0


def test_images_are_png_in_base64(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    rows = Samples.of(torch.rand(40, 6, 6), torch.randint(2, (40,)))
    suspects = find_suspects(ModelView(model), named(rows), ["a", "b"])
    write_review_files(tmp_path, suspects, named(rows), ["a", "b"], preview=previewer((6, 6)))
    line = json.loads((tmp_path / "suspects.jsonl").read_text().splitlines()[0])
    assert decode(base64.b64decode(line["preview"]["image"])).shape == (6, 6)
    assert not (tmp_path / "neighbours.jsonl").exists()
