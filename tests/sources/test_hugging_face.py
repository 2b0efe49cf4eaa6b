"""Data sets of Hugging Face in folders: splits, names of classes, pictures and texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

from tamis.data import concat
from tamis.sources import BadInputError, Validator, open_reader, open_table
from tamis.sources.pictures import PictureFiles

datasets.disable_progress_bars()
NAMES = ["cat", "dog"]


def pictures(rows: int) -> datasets.Dataset:
    shades = [250 * (row % 2) for row in range(rows)]
    made = [Image.fromarray(np.full((9, 9), shade, np.uint8)) for shade in shades]
    return datasets.Dataset.from_dict(
        {"picture": made, "kind": [row % 2 for row in range(rows)], "page": list(range(rows))},
        features=datasets.Features(
            {
                "picture": datasets.Image(),
                "kind": datasets.ClassLabel(names=NAMES),
                "page": datasets.Value("int64"),
            }
        ),
    )


def texts(rows: int, **features: Any) -> datasets.Dataset:
    written = [f"the {NAMES[row % 2]} number {row} sleeps" for row in range(rows)]
    labels = [-1 if row == 4 else row % 2 for row in range(rows)]
    return datasets.Dataset.from_dict(
        {"text": written, "label": labels},
        features=datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=NAMES)}
        ),
    )


def test_pictures_and_names_of_classes(tmp_path: Path) -> None:
    pictures(12).save_to_disk(tmp_path / "saved")
    table = open_table(tmp_path / "saved", None, Validator())
    assert table.classes == tuple(NAMES)
    assert table.schema.label == "kind"
    assert table.input_shape == (1, 9, 9)
    assert table.left_out == ("page",)
    samples = concat([part for part, _ in table.play().named()])
    assert samples.labels.tolist() == [row % 2 for row in samples.ids.tolist()]
    assert samples.inputs.float().mean(dim=(1, 2, 3)).tolist() == [
        250.0 * (row % 2) for row in samples.ids.tolist()
    ]


def test_the_split_for_training_is_taken_and_others_by_their_folder(tmp_path: Path) -> None:
    both = datasets.DatasetDict({"train": texts(30), "test": texts(6)})
    both.save_to_disk(tmp_path / "saved")
    validator = Validator(on_bad="skip")
    table = open_table(tmp_path / "saved", None, validator)
    assert table.name == "saved (train)"
    assert table.schema["text"].kind == "text"
    assert sum(len(samples) for samples in table) == 29
    assert validator.rejects.counts == {"label missing": 1}
    assert open_reader(tmp_path / "saved" / "test").blocks(10).__next__().rows == list(range(6))
    datasets.DatasetDict({"a": texts(3), "b": texts(3)}).save_to_disk(tmp_path / "others")
    with pytest.raises(BadInputError, match=r"has the splits a, b: name its folder"):
        open_table(tmp_path / "others", None, Validator())


def test_pictures_are_loaded_one_at_a_time(tmp_path: Path) -> None:
    pictures(4).save_to_disk(tmp_path / "saved")
    block = open_reader(tmp_path / "saved").blocks(10).__next__()
    cell = block.columns["picture"][1]
    assert str(cell) == "picture 1"
    assert PictureFiles().pixels(cell, (2, 2), "grey").tolist() == [[[250, 250], [250, 250]]]


def test_the_checksum_follows_the_content(tmp_path: Path) -> None:
    for name, rows in (("a", 8), ("b", 8), ("c", 9)):
        texts(rows).save_to_disk(tmp_path / name)
    one, two, other = (open_reader(tmp_path / name).digest for name in "abc")
    assert one == two != other


def test_what_cannot_be_had_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(BadInputError, match="is not a readable data set"):
        open_table(tmp_path, None, Validator())
    with pytest.raises(BadInputError, match=r"hf:NAME\?config=CONFIG&split=SPLIT"):
        open_reader("hf:imdb?rows=3")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInputError, match=r"pip install 'tamis\[hf\]'"):
        open_reader("hf:imdb")
