"""Tables in CSV, Parquet and NPZ: the same rows from all three, and clear words for bad files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from tamis.data import Samples
from tamis.models.tabular import TableLayout
from tamis.sources import BadInputError, Table, Validator, open_table

ENDINGS = (".csv", ".parquet", ".npz")
every_ending = pytest.mark.parametrize("ending", ENDINGS)

ROWS = 53
COLUMNS = ("width", "height", "weight")


def make_numbers(rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(0).normal(5, 3, (rows, len(COLUMNS))).astype(np.float32)


def write(
    path: Path, numbers: np.ndarray, labels: Sequence[Any], names: Sequence[str] | None = None
) -> Path:
    """Write the same rows in the format of the file's ending."""
    if path.suffix == ".npz":
        arrays = {"inputs": numbers, "label": np.array(labels)}
        np.savez(path, **arrays | ({"name": np.array(names)} if names else {}))
        return path
    columns = dict(zip(COLUMNS, numbers.T.tolist(), strict=True))
    columns |= {"label": list(labels)} | ({"name": list(names)} if names else {})
    if path.suffix == ".parquet":
        parquet.write_table(pa.table(columns), path, row_group_size=20)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def skipping() -> Validator:
    return Validator(on_bad="skip")


def together(table: Table) -> Samples:
    chunks = [samples.columns().values() for samples in table]
    return Samples(*(torch.cat(column) for column in zip(*chunks, strict=True)))


# The same rows from every format


@every_ending
def test_rows_are_played_as_written(tmp_path: Path, ending: str) -> None:
    numbers, labels = make_numbers(), [("cat", "ant", "bee")[row % 3] for row in range(ROWS)]
    names = [f"row {row}" for row in range(ROWS)]
    path = write(tmp_path / f"table{ending}", numbers, labels, names)
    table = open_table(path, "label", Validator(), id_column="name", rows_per_slot=8)

    assert table.classes == ("ant", "bee", "cat")
    assert table.rows == ROWS
    assert table.input_shape == (3,)
    samples = together(table)
    assert torch.equal(samples.inputs, torch.from_numpy(numbers))
    assert [table.classes[label] for label in samples.labels.tolist()] == labels
    assert samples.ids.tolist() == list(range(ROWS))
    assert not samples.uses.any()
    assert [name for _, part in table.named() for name in part] == names


@every_ending
def test_a_table_plays_the_same_twice(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(), [0, 1] * 26 + [0])
    table = open_table(path, "label", Validator())
    assert torch.equal(together(table).inputs, together(table).inputs)


@every_ending
def test_chunks_have_the_rows_of_a_slot(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(), [0, 1] * 26 + [0])
    table = open_table(path, "label", Validator(), rows_per_slot=10)
    assert [len(samples) for samples in table] == [10, 10, 10, 10, 10, 3]
    assert len(table) == 6


@every_ending
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([10, 9, 2, 10, -1], ("-1", "2", "9", "10")),
        (["b", "a", "B", "10", "9"], ("10", "9", "B", "a", "b")),
    ],
    ids=["numbers", "words"],
)
def test_classes_are_in_order(
    tmp_path: Path, ending: str, labels: list[Any], classes: tuple[str, ...]
) -> None:
    table = open_table(
        write(tmp_path / f"table{ending}", make_numbers(5), labels), "label", Validator()
    )
    assert table.classes == classes
    assert together(table).labels.tolist() == [classes.index(str(label)) for label in labels]


@every_ending
def test_without_an_id_column_rows_go_by_number(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(3), [0, 1, 0])
    ((_, names),) = open_table(path, "label", Validator()).named()
    assert names == ["0", "1", "2"]


@every_ending
def test_mean_and_deviation_are_numpys(tmp_path: Path, ending: str) -> None:
    numbers = make_numbers(5_000)  # more than one look
    numbers[:, 2] += 10_000
    numbers[::17, 0] = np.nan
    numbers[::18, 1] = np.inf
    path = write(tmp_path / f"table{ending}", numbers, [0, 1] * 2_500)
    table = open_table(path, "label", Validator())
    flags = ~np.isfinite(numbers)
    medians = np.nanmedian(np.where(flags, np.nan, numbers), axis=0)
    filled = np.where(flags, medians, numbers).astype(np.float64)
    columns = {name: filled[:, at] for at, name in enumerate(COLUMNS)}
    columns |= {f"{name} missing": flags[:, at] for at, name in enumerate(COLUMNS[:2])}
    names = [name.replace("inputs[0]", COLUMNS[0]) for name in table.columns]
    names = [name.replace("inputs[1]", COLUMNS[1]) for name in names]
    names = [name.replace("inputs[2]", COLUMNS[2]) for name in names]
    wanted = np.stack([columns[name] for name in names], axis=1)
    np.testing.assert_allclose(table.mean, wanted.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(table.deviation, wanted.std(axis=0), rtol=1e-4)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_dropped_columns_are_left_out(tmp_path: Path, ending: str) -> None:
    numbers = make_numbers(4)
    names = ["some", "text", "of", "rows"]
    path = write(tmp_path / f"table{ending}", numbers, [0, 1, 0, 1], names)
    table = open_table(path, "label", Validator(), drop=["name", "height"])
    assert torch.equal(together(table).inputs, torch.from_numpy(numbers[:, [0, 2]]))


def test_dropped_arrays_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, inputs=make_numbers(4), label=np.array([0, 1, 0, 1]), more=np.zeros(9))
    with pytest.raises(BadInputError, match=r"different numbers of rows: inputs 4, .*more 9"):
        open_table(path, "label", Validator())
    assert open_table(path, "label", Validator(), drop=["more"]).input_shape == (3,)


# Rows that cannot be used


def test_rows_that_cannot_be_read_are_counted_and_ids_are_the_files_rows(tmp_path: Path) -> None:
    path = write_text(
        tmp_path / "table.csv",
        "a,label\n1,x\n2,\n3,y\n4\n5,x,more\n6, \n7,y\n",
    )
    validator = skipping()
    table = open_table(path, "label", validator, rows_per_slot=2)
    samples = together(table)
    assert samples.ids.tolist() == [0, 2, 6]
    assert samples.inputs[:, 0].tolist() == [1, 3, 7]
    assert validator.rejects.counts == {"label missing": 2, "fields do not fit the header": 2}
    assert (table.rows, len(table), len(list(table))) == (7, 4, 4)


@pytest.mark.parametrize(
    ("ending", "labels"),
    [
        (".csv", ["x", "", "y"]),
        (".parquet", ["x", None, "y"]),
        (".parquet", ["x", "", "y"]),
        (".parquet", [0, None, 1]),
        (".parquet", [0.0, float("nan"), 1.0]),
        (".npz", ["x", "", "y"]),
        (".npz", [0.0, float("nan"), 1.0]),
    ],
)
def test_missing_labels_are_counted(tmp_path: Path, ending: str, labels: list[Any]) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(3), labels)
    validator = skipping()
    table = open_table(path, "label", validator)
    assert len(table.classes) == 2
    assert together(table).ids.tolist() == [0, 2]
    assert validator.rejects.counts == {"label missing": 1}


def test_a_missing_label_is_raised_with_its_row(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.csv", "a,label\n1,x\n2,y\n3,\n")
    with pytest.raises(BadInputError, match="Row 2: label missing"):
        list(open_table(path, "label", Validator()))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("rows_per_slot", [1, 2, 10])
def test_empty_cells_are_estimated_and_flagged(
    tmp_path: Path, ending: str, rows_per_slot: int
) -> None:
    """Even where a complete slot has none but empty cells in a column: other slots have numbers."""
    path = tmp_path / f"table{ending}"
    cells = [1.0, 2.0, None, None, 5.0, 6.0]
    if ending == ".csv":
        lines = [f"{'' if cell is None else cell},{row % 2}" for row, cell in enumerate(cells)]
        write_text(path, "\n".join(["a,label", *lines]))
    else:
        parquet.write_table(pa.table({"a": cells, "label": [0, 1, 0, 1, 0, 1]}), path)
    validator = skipping()
    table = open_table(path, "label", validator, rows_per_slot=rows_per_slot)
    inputs = torch.cat([validator.validate(samples).inputs for samples in table])
    assert inputs.tolist() == [[1, 0], [2, 0], [3.5, 1], [3.5, 1], [5, 0], [6, 0]]
    assert table.columns == ("a", "a missing")
    assert not validator.rejects.total
    assert not table.unreadable


@pytest.mark.parametrize("cell", ["1e300", "inf", "-inf", "1_000", "about 3"])
def test_cells_that_are_no_numbers_are_counted_and_taken_as_missing(
    tmp_path: Path, cell: str
) -> None:
    numbers = ["1", "2", "3"] * 100
    numbers[7] = cell
    lines = [f"{number},{row % 2}" for row, number in enumerate(numbers)]
    path = write_text(tmp_path / "table.csv", "\n".join(["a,label", *lines]))
    table = open_table(path, "label", Validator(), rows_per_slot=300)
    (samples,) = table
    assert samples.inputs[6:9].tolist() == [[1], [2], [3]]
    assert table.unreadable == table.missing == {"a": 1}


# Files that cannot be used


@every_ending
def test_a_column_of_text_is_a_category(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(3), [0, 1, 0], ["x", "y", "x"])
    table = open_table(path, "label", Validator())
    assert table.schema.layout == TableLayout(3, (4,))
    assert together(table).inputs[:, 3].tolist() == [2, 3, 2]


@every_ending
def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(3), [0, 1, 0])
    for choice in [{"label": "class"}, {"id_column": "class"}, {"drop": ["class"]}]:
        with pytest.raises(BadInputError, match=r"has no column 'class'; it has .*label"):
            open_table(**{"table": path, "label": "label", "validator": Validator()} | choice)


def test_a_table_without_inputs_is_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.csv", "label\nx\ny\n")
    with pytest.raises(BadInputError, match="no column of inputs beside 'label'"):
        open_table(path, "label", Validator())


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.xlsx", "")
    with pytest.raises(BadInputError, match=r"table\.xlsx ends in none of \.csv, .*\.parquet"):
        open_table(path, "label", Validator())


@every_ending
def test_an_empty_file_is_refused(tmp_path: Path, ending: str) -> None:
    with pytest.raises(BadInputError, match=rf"table{ending} "):
        open_table(write_text(tmp_path / f"table{ending}", ""), "label", Validator())


@pytest.mark.parametrize("text", ["a,label\n", "a,label\n1,\n2,\n", "a,label\n1\n2\n"])
def test_a_file_without_a_labelled_row_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputError, match=r"table\.csv holds no labelled row"):
        open_table(write_text(tmp_path / "table.csv", text), "label", Validator())


@every_ending
def test_no_rows_at_all_are_refused(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(0), [])
    with pytest.raises(BadInputError, match="holds no labelled row"):
        open_table(path, "label", Validator())


def garbage(content: bytes) -> bytes:
    return b"no such thing" * 20


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damaged(content: bytes) -> bytes:
    return content[:60] + b"\xff" * 400 + content[460:]


@pytest.mark.parametrize("corrupt", [garbage, half, damaged])
@pytest.mark.parametrize("ending", [".parquet", ".npz"])
def test_a_corrupt_file_is_refused(tmp_path: Path, ending: str, corrupt: Any) -> None:
    path = write(tmp_path / f"table{ending}", make_numbers(), [0, 1] * 26 + [0])
    path.write_bytes(corrupt(path.read_bytes()))
    with pytest.raises(BadInputError, match=rf"table{ending} is not a readable \w+ file"):
        open_table(path, "label", Validator())


def test_text_that_is_no_utf_8_is_read_as_that_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("a,label\n1,été\n2,hiver\n".encode("cp1252"))
    table = open_table(path, "label", Validator())
    assert table.classes == ("hiver", "été")
    assert table.reader.notes == ["read as cp1252"]


class Bomb:
    """Runs code when it is unpickled, as any pickled object may."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("name", ["inputs", "label"])
def test_pickled_objects_are_refused_and_never_loaded(tmp_path: Path, name: str) -> None:
    path, mark = tmp_path / "table.npz", tmp_path / "exploded"
    arrays = {"inputs": np.zeros((1, 2)), "label": np.zeros(1)}
    np.savez(path, **arrays | {name: np.array([Bomb(mark)], dtype=object)})
    with pytest.raises(BadInputError, match=r"table\.npz is not a readable NPZ file"):
        open_table(path, "label", Validator())
    assert not mark.exists()


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros((3, 2)))
    with pytest.raises(BadInputError, match=r"table\.npz is not a readable NPZ file"):
        open_table(path, "label", Validator())


@pytest.mark.parametrize(
    "arrays",
    [
        {"inputs": np.zeros((3, 2)), "label": np.zeros(4)},
        {"inputs": np.array(["a", "b"]), "label": np.zeros(2)},
        {"inputs": np.zeros((3, 2)), "label": np.eye(3)},
        {"inputs": np.zeros((3, 2)), "label": np.zeros(3), "name": np.arange(2)},
    ],
    ids=["lengths differ", "text", "one-hot labels", "too few names"],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, **arrays)
    with pytest.raises(BadInputError, match=r"table\.npz"):
        list(open_table(path, "label", Validator(), id_column="name" if "name" in arrays else None))


# Particulars of a format


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("label,a\nx,1\ny,2\n", encoding="utf-8-sig")
    assert together(open_table(path, "label", Validator())).inputs.tolist() == [[1], [2]]


def test_quoted_cells_may_hold_commas_and_line_breaks(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.csv", 'a,label\n"1","x,\ny"\n2,z\n')
    assert open_table(path, "label", Validator()).classes == ("x,\ny", "z")


def test_images_keep_their_shape_and_have_one_scale(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    images = np.random.default_rng(0).integers(0, 256, (7, 3, 4, 5), np.uint8)
    np.savez(path, images=images, label=np.arange(7) % 2)
    table = open_table(path, "label", Validator(), rows_per_slot=3)
    assert table.input_shape == (3, 4, 5)
    assert torch.equal(together(table).inputs, torch.from_numpy(images).float())
    assert table.mean.item() == pytest.approx(images.mean(), rel=1e-5)
    assert table.deviation.item() == pytest.approx(images.std(), rel=1e-5)


def test_one_number_a_row_is_one_column(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, inputs=np.arange(4.0), label=np.arange(4) % 2)
    assert together(open_table(path, "label", Validator())).inputs.tolist() == [[0], [1], [2], [3]]


def test_labels_that_hardly_repeat_are_no_classes(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("a,price\n" + "".join(f"{row},{row / 7}\n" for row in range(1500)))
    with pytest.raises(BadInputError, match="'price' has 1500 distinct numbers in 1500 rows"):
        open_table(path, "price", Validator())
    path.write_text("a,price\n" + "".join(f"{row},{row % 1200}\n" for row in range(2400)))
    assert len(open_table(path, "price", Validator()).classes) == 1200
    path.write_text("a,price\n" + "".join(f"{row},{row}\n" for row in range(21)))
    with pytest.raises(BadInputError, match="21 distinct values"):
        open_table(path, "price", Validator())
    path.write_text("a,price\n" + "".join(f"{row},{row}\n" for row in range(9)))
    assert len(open_table(path, "price", Validator()).classes) == 9
