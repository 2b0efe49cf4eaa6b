"""A folder of pictures, a column of text and a data set of Hugging Face, each by one command.

Each is trained on, reviewed as it is, and predicted.
"""

from __future__ import annotations

import base64
import csv
import io
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from tamis.cli.main import main
from tamis.runs import Run
from tamis.web.review_api import ReviewAPI
from tests.support.tiny_encoder import save_encoder

pytestmark = pytest.mark.slow
datasets.disable_progress_bars()
ROWS = 160
PIXELS, DIGITS = load_digits(n_class=3, return_X_y=True)
PHRASES = {
    "praise": ["the room was clean and bright", "friendly staff and a good breakfast"],
    "complaint": ["the room was dirty and loud", "rude staff and a cold breakfast"],
}


def wrong(row: int) -> bool:
    return row % 10 == 3


def digit(row: int) -> Image.Image:
    return Image.fromarray((PIXELS[row].reshape(8, 8) * 15).astype(np.uint8))


def given_digit(row: int) -> int:
    return int(DIGITS[row] + wrong(row)) % 3


def sentence(row: int) -> tuple[str, str]:
    """Return a text and its given label."""
    kinds = list(PHRASES)
    kind = row % 2
    text = PHRASES[kinds[kind]][row // 2 % 2]
    return f"{text}, stay {row}", kinds[1 - kind if wrong(row) else kind]


def train(*words: object) -> None:
    assert main(["train", *map(str, words)]) == 0


def first_suspects(run: Path) -> list[dict[str, Any]]:
    """Return what the review page gets of the run."""
    found: list[dict[str, Any]] = ReviewAPI(Run(run)).suspects({"which": "all"})["items"]
    assert found
    return found


def predictions(folder: Path, run: Path, data: object, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    assert main(["predict", str(run), str(data), "--out", "predicted.csv"]) == 0
    with Path("predicted.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_of_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, run = tmp_path / "photos", tmp_path / "run"
    for row in range(ROWS):
        (photos / f"digit {given_digit(row)}").mkdir(parents=True, exist_ok=True)
        digit(row).save(photos / f"digit {given_digit(row)}" / f"{row}.png")
    (photos / "digit 0" / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    train(photos, "--out", run)
    assert "digit 0/broken.jpg" in (run / "rejects.jsonl").read_text()

    suspects = first_suspects(run)
    assert sum(wrong(int(Path(item["id"]).stem)) for item in suspects[:8]) >= 7
    preview = Image.open(io.BytesIO(base64.b64decode(suspects[0]["preview"]["image"])))
    stored = Image.open(photos / suspects[0]["id"])
    assert np.array_equal(np.asarray(preview), np.asarray(stored))

    lines = predictions(tmp_path, run, photos, monkeypatch)
    assert len(lines) == ROWS + 1
    read = [line for line in lines if not line["reason"]]
    assert [line["file"] for line in lines if line["reason"]] == ["digit 0/broken.jpg"]
    truth = [f"digit {DIGITS[int(Path(line['file']).stem)]}" for line in read]
    assert np.mean([line["prediction"] for line in read] == np.array(truth)) > 0.95
    digit(170).save(tmp_path / "one.png")
    (line,) = predictions(tmp_path, run, tmp_path / "one.png", monkeypatch)
    assert line["prediction"] == f"digit {DIGITS[170]}"


@pytest.mark.parametrize("encoded", [False, True], ids=["n-grams", "encoder"])
def test_a_column_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: bool) -> None:
    table, run = tmp_path / "stays.csv", tmp_path / "run"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "kind", "page"])
        writer.writerows([*sentence(row), row % 7] for row in range(ROWS))
    words = {word for row in range(ROWS) for word in sentence(row)[0].replace(",", "").split()}
    tiny = ["--encoder", save_encoder(tmp_path / "tiny", sorted(words))] if encoded else []
    train(table, "--label", "kind", "--text", "text", *tiny, "--out", run)

    suspects = first_suspects(run)
    assert sum(wrong(int(item["id"])) for item in suspects[:8]) >= 7
    assert suspects[0]["preview"]["columns"]["text"] == sentence(int(suspects[0]["id"]))[0]

    lines = predictions(tmp_path, run, table, monkeypatch)
    kinds = list(PHRASES)
    right = [line["prediction"] == kinds[row % 2] for row, line in enumerate(lines)]
    assert np.mean(right) > 0.95


def test_a_data_set_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, run = tmp_path / "saved", tmp_path / "run"
    names = ["zero", "one", "two"]
    features = datasets.Features(
        {"image": datasets.Image(), "digit": datasets.ClassLabel(names=names)}
    )
    parts = {
        "train": [row for row in range(ROWS + 40) if row % 5 != 4],
        "test": list(range(4, ROWS + 40, 5)),
    }
    datasets.DatasetDict(
        {
            name: datasets.Dataset.from_dict(
                {"image": list(map(digit, rows)), "digit": list(map(given_digit, rows))},
                features=features,
            )
            for name, rows in parts.items()
        }
    ).save_to_disk(saved)
    train(saved, "--out", run)

    suspects = first_suspects(run)
    rows = [parts["train"][int(item["id"])] for item in suspects[:8]]
    assert sum(map(wrong, rows)) >= 7
    preview = Image.open(io.BytesIO(base64.b64decode(suspects[0]["preview"]["image"])))
    assert np.array_equal(np.asarray(preview), np.asarray(digit(rows[0])))

    lines = predictions(tmp_path, run, saved / "test", monkeypatch)
    truth = [names[DIGITS[row]] for row in parts["test"]]
    assert np.mean([line["prediction"] for line in lines] == np.array(truth)) > 0.95
