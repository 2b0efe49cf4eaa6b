"""Pictures as tables: a folder for each class, or a column of paths; bad files are named."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tamis.data import Samples, concat
from tamis.sources import BadInputError, Rejects, Table, Validator, open_table, read_schema
from tamis.sources.schema import write_schema


def draw(path: Path, shade: int, size: tuple[int, int] = (10, 10), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, shade, 0)).convert(mode).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(6):
        draw(folder / "dark" / f"{number}.png", number, (10 + number, 12))
        draw(folder / "light" / "deep" / f"{number}.jpg", 240 + number)
    return folder


def skipping() -> Validator:
    return Validator(on_bad="skip", rejects=Rejects())


def played(table: Table) -> tuple[Samples, list[str]]:
    parts = [(samples, names or []) for samples, names in table.play().named()]
    return concat([samples for samples, _ in parts]), [name for _, part in parts for name in part]


def test_a_folder_for_each_class_needs_no_flag(photos: Path) -> None:
    table = open_table(photos, None, Validator(), rows_per_slot=5)
    assert table.classes == ("dark", "light")
    assert table.input_shape == (3, 8, 8)
    assert table.schema.id == "file"
    samples, names = played(table)
    assert samples.inputs.dtype == torch.uint8
    assert sorted(names) == sorted(
        [f"dark/{n}.png" for n in range(6)] + [f"light/deep/{n}.jpg" for n in range(6)]
    )
    for name, label, pixels in zip(names, samples.labels, samples.inputs, strict=True):
        assert table.classes[int(label)] == name.split("/")[0]
        assert (float(pixels[0].float().mean()) > 128) == name.startswith("light")


def test_classes_arrive_mixed_and_always_in_one_order(photos: Path) -> None:
    table = open_table(photos, None, Validator(), rows_per_slot=4)
    assert table.grouped
    names = played(table)[1]
    assert len({name.split("/")[0] for name in names[:6]}) == 2
    assert names == played(table)[1]
    second = table.play()
    second.seek(1)
    assert [name for _, part in second.named() for name in part or []] == names[4:]


def test_bad_files_are_counted_and_named(photos: Path, tmp_path: Path) -> None:
    (photos / "dark" / "empty.png").write_bytes(b"")
    (photos / "dark" / "notes.txt").write_text("hello")
    (photos / "light" / "cut.png").write_bytes((photos / "dark" / "0.png").read_bytes()[:40])
    draw(photos / "alone.png", 3)
    (photos / "README.md").write_text("photos")
    for left in (".DS_Store", "Thumbs.db"):
        (photos / "dark" / left).write_text("x")
    (photos / ".ipynb_checkpoints").mkdir()
    draw(photos / ".ipynb_checkpoints" / "0.png", 0)
    validator = skipping()
    validator.rejects = Rejects(tmp_path / "rejects.jsonl")
    table = open_table(photos, None, validator)
    assert table.classes == ("dark", "light")
    assert "README.md" in " ".join(table.notes)
    assert len(played(table)[1]) == 12
    assert validator.rejects.counts == {"picture not decoded": 3, "label missing": 1}
    written = (tmp_path / "rejects.jsonl").read_text()
    for name in ("dark/empty.png", "dark/notes.txt", "light/cut.png"):
        assert name in written
    with pytest.raises(BadInputError, match=r"picture not decoded: (dark|light)/"):
        played(open_table(photos, None, Validator()))


def test_splits_are_no_classes(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for label in "ab":
            draw(tmp_path / "data" / split / label / "0.png", 0)
    with pytest.raises(BadInputError, match=r"train, val, which are not classes: train on .*train"):
        open_table(tmp_path / "data", None, Validator())
    assert open_table(tmp_path / "data" / "train", None, Validator()).classes == ("a", "b")


def test_a_folder_without_classes_or_with_one(tmp_path: Path) -> None:
    draw(tmp_path / "flat" / "0.png", 0)
    with pytest.raises(BadInputError, match="no folder for each class"):
        open_table(tmp_path / "flat", None, Validator())
    draw(tmp_path / "one" / "cat" / "0.png", 0)
    with pytest.raises(BadInputError, match="one class only, 'cat'"):
        open_table(tmp_path / "one", None, Validator())
    (tmp_path / "none" / "cat").mkdir(parents=True)
    with pytest.raises(BadInputError, match="holds no picture"):
        open_table(tmp_path / "none", None, Validator())


def test_links_are_followed_and_a_loop_ends(photos: Path, tmp_path: Path) -> None:
    draw(tmp_path / "elsewhere" / "0.png", 0)
    (photos / "linked").symlink_to(tmp_path / "elsewhere")
    (photos / "dark" / "loop").symlink_to(photos)
    table = open_table(photos, None, Validator())
    assert table.classes == ("dark", "light", "linked")
    assert table.rows == 13


def test_a_column_of_paths_is_found_beside_its_table(photos: Path) -> None:
    paths = [f"dark/{n}.png" for n in range(6)] + [f"light/deep/{n}.jpg" for n in range(6)]
    lines = [f"{path},{n},{path.split('/')[0]}" for n, path in enumerate(paths)]
    table_file = photos / "labels.csv"
    table_file.write_text("\n".join(["path,width,kind", *lines, "gone.png,3,dark"]))
    validator = skipping()
    table = open_table(table_file, "kind", validator, id_column="path", side=16)
    assert [column.kind for column in table.schema.columns] == ["image"]
    assert table.left_out == ("width",)
    assert table.input_shape == (3, 16, 16)
    samples, names = played(table)
    assert sorted(names) == sorted(paths)
    assert validator.rejects.counts == {"no file of a picture": 1}
    assert float(samples.inputs[names.index("light/deep/3.jpg")][0].float().mean()) > 200


def test_paths_of_pictures_that_are_not_there_are_no_pictures(tmp_path: Path) -> None:
    lines = [f"img/{n}.png,{n % 7},{'ab'[n % 2]}" for n in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["path,x,y", *lines]))
    table = open_table(tmp_path / "t.csv", "y", Validator())
    assert table.schema["path"].kind == "id"
    assert "looks like paths of pictures, but no such files" in table.notes[-1]


def test_grey_pictures_stay_grey_and_the_schema_comes_back(tmp_path: Path) -> None:
    for number in range(4):
        draw(tmp_path / "data" / "ab"[number % 2] / f"{number}.png", 9 * number, (28, 20), "L")
    table = open_table(tmp_path / "data", None, Validator())
    assert table.input_shape == (1, 20, 28)
    write_schema(tmp_path / "schema.json", table.schema)
    schema = read_schema(tmp_path / "schema.json")
    assert schema == table.schema
    cells = {"file": [str(tmp_path / "data" / "b" / "1.png")]}
    assert np.array_equal(schema.encode(cells), table.schema.encode({"file": ["b/1.png"]}))


def test_the_checksum_follows_names_and_sizes(photos: Path) -> None:
    before = open_table(photos, None, Validator()).digest
    os.utime(photos / "dark" / "0.png")
    assert open_table(photos, None, Validator()).digest == before
    (photos / "dark" / "0.png").rename(photos / "light" / "0.png")
    assert open_table(photos, None, Validator()).digest != before


def test_a_table_without_a_label_column_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n")
    with pytest.raises(BadInputError, match=r"name the column of labels \(--label\); .* x, y"):
        open_table(tmp_path / "t.csv", None, Validator())
