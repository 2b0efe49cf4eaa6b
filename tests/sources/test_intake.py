"""Every way in which a chunk is bad, and what the intake makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tamis.data import Samples
from tamis.sources import BadInputError, Intake

nan, inf = float("nan"), float("inf")

GOOD = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
LABELS = [0, 1, 2]


def with_row_1(row: list[float]) -> torch.Tensor:
    return torch.tensor([GOOD[0], row, GOOD[2]])


@dataclass(frozen=True)
class Bad:
    """A chunk of three rows, and which of them are bad for which reason."""

    inputs: Any
    labels: Any
    reason: str
    rows: tuple[int, ...] = (0, 1, 2)


CASES = {
    "NaN": Bad(with_row_1([nan, 0]), torch.tensor(LABELS), "inputs not finite", (1,)),
    "infinity": Bad(with_row_1([0, inf]), torch.tensor(LABELS), "inputs not finite", (1,)),
    "-infinity": Bad(with_row_1([0, -inf]), torch.tensor(LABELS), "inputs not finite", (1,)),
    "label too large": Bad(torch.tensor(GOOD), torch.tensor([0, 3, 2]), "label not below 3", (1,)),
    "label -1": Bad(torch.tensor(GOOD), torch.tensor([0, -1, 2]), "label negative", (1,)),
    "label -100": Bad(torch.tensor(GOOD), torch.tensor([0, -100, 2]), "label negative", (1,)),
    "float labels": Bad(
        torch.tensor(GOOD), torch.tensor([0.0, 1.5, 2.0]), "labels are float32, not whole"
    ),
    "bool labels": Bad(
        torch.tensor(GOOD), torch.tensor([True, False, True]), "labels are bool, not whole"
    ),
    "array of text labels": Bad(
        np.array(GOOD, np.float32), np.array(["cat", "dog", "cat"]), "labels are text"
    ),
    "list of text labels": Bad(GOOD, ["cat", "dog", "cat"], "labels are text"),
    "array of text inputs": Bad(
        np.array([["a", "b"], ["c", "d"], ["e", "f"]]), np.array(LABELS), "inputs are text"
    ),
    "list of text inputs": Bad([["a", "b"], ["c", "d"], ["e", "f"]], LABELS, "inputs are text"),
    "one-hot labels": Bad(torch.tensor(GOOD), torch.eye(3).long(), r"labels have shape \(3, 3\)"),
    "another shape": Bad(
        torch.ones(3, 4), torch.tensor(LABELS), r"changed from \(2,\) float32 to \(4,\) float32"
    ),
    "another type": Bad(
        torch.tensor(GOOD).double(), torch.tensor(LABELS), r"from \(2,\) float32 to \(2,\) float64"
    ),
    "1-D inputs": Bad(torch.ones(3), torch.tensor(LABELS), "no feature dimension"),
}
every_case = pytest.mark.parametrize("bad", CASES.values(), ids=CASES.keys())


def after_a_good_chunk(on_bad: Any, file: Path | None = None) -> Intake:
    """An intake that has seen rows 0 to 2, so that the next chunk's are 3 to 5."""
    intake = Intake(classes=3, on_bad=on_bad, file=file)
    assert len(intake.admit((torch.tensor(GOOD), torch.tensor(LABELS)))) == 3
    return intake


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else values.tolist()


@every_case
def test_raise_stops_with_one_sentence_that_names_the_row(bad: Bad) -> None:
    intake = after_a_good_chunk("raise")
    with pytest.raises(BadInputError, match=rf"^Row {3 + bad.rows[0]}: .*{bad.reason}.*\.$"):
        intake.admit((bad.inputs, bad.labels))


@every_case
def test_skip_counts_and_notes_the_rows_and_lets_the_others_pass(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "skipped.jsonl"
    intake = after_a_good_chunk("skip", file)
    samples = intake.admit((bad.inputs, bad.labels))
    assert samples.ids.tolist() == [3 + row for row in range(3) if row not in bad.rows]
    assert samples.inputs.tolist() == [GOOD[row] for row in range(3) if row not in bad.rows]

    (reason,) = intake.skipped
    assert intake.skipped[reason] == len(bad.rows)
    ids = [3 + row for row in bad.rows]
    assert lines_of(file) == [{"id": number, "reason": reason} for number in ids]

    assert intake.seen == 6
    after = intake.admit((torch.tensor(GOOD), torch.tensor(LABELS)))
    assert after.ids.tolist() == [6, 7, 8]
    assert intake.seen == 9


@every_case
def test_quarantine_keeps_rows_that_can_be_mended(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "quarantine.jsonl"
    intake = after_a_good_chunk("quarantine", file)
    intake.admit((bad.inputs, bad.labels))
    lines = lines_of(file)
    assert [line["id"] for line in lines] == [3 + row for row in bad.rows]
    inputs, labels = as_list(bad.inputs), as_list(bad.labels)
    for line, row in zip(lines, bad.rows, strict=True):
        np.testing.assert_array_equal(line["row"]["inputs"], inputs[row])
        assert line["row"]["label"] == labels[row]


def test_a_mended_quarantine_plays_again(tmp_path: Path) -> None:
    file = tmp_path / "quarantine.jsonl"
    image = torch.tensor([0.1, nan, 0.3, 1e-30])
    intake = Intake(3, "quarantine", file)
    intake.admit((image.reshape(1, 1, 2, 2), torch.tensor([2])))
    (line,) = lines_of(file)
    mended = torch.tensor([line["row"]["inputs"]]).nan_to_num(0.2)
    samples = intake.admit((mended, torch.tensor([line["row"]["label"]])))
    assert torch.equal(samples.inputs, image.nan_to_num(0.2).reshape(1, 1, 2, 2))


def test_a_row_with_two_faults_is_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "skipped.jsonl"
    intake = after_a_good_chunk("skip", file)
    samples = intake.admit((with_row_1([nan, inf]), torch.tensor([0, -1, 7])))
    assert samples.ids.tolist() == [3]
    assert intake.skipped == {"inputs not finite": 1, "label not below 3": 1}
    assert [line["id"] for line in lines_of(file)] == [4, 5]


def test_samples_keep_their_own_ids() -> None:
    intake = Intake(3, "skip")
    given = Samples.of(with_row_1([nan, 0]), torch.tensor(LABELS), 100, torch.tensor([1, 1, 0]) > 0)
    samples = intake.admit(given)
    assert samples.ids.tolist() == [100, 102]
    assert samples.clean is not None
    assert samples.clean.tolist() == [True, False]


def test_a_refused_first_chunk_does_not_set_the_shape() -> None:
    intake = Intake(3, "skip")
    intake.admit((torch.full((1, 9), nan), torch.tensor([0])))
    assert len(intake.admit((torch.tensor(GOOD), torch.tensor(LABELS)))) == 3


def test_without_classes_any_whole_number_will_do() -> None:
    assert len(Intake().admit((torch.tensor(GOOD), torch.tensor([0, 1, 999])))) == 3


@pytest.mark.parametrize(
    "kind",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
)
def test_whole_numbers_of_every_type_are_labels(kind: str) -> None:
    samples = Intake(3).admit((np.array(GOOD, np.float32), np.array(LABELS, kind)))
    assert samples.labels.tolist() == LABELS


def test_lists_and_arrays_are_read_like_tensors() -> None:
    for item in [(GOOD, LABELS), (np.array(GOOD), np.array(LABELS)), [GOOD, tuple(LABELS)]]:
        samples = Intake(3).admit(item)
        assert samples.inputs.tolist() == GOOD
        assert samples.labels.tolist() == LABELS


def test_an_array_turned_around_is_read() -> None:
    """Torch takes no array with steps backwards as it is."""
    samples = Intake(3).admit((np.array(GOOD, np.float32)[::-1], np.array(LABELS)))
    assert samples.inputs.tolist() == GOOD[::-1]


def test_an_array_that_may_not_be_written_to_is_read_without_a_warning() -> None:
    """Pandas gives such arrays, and torch warns of them."""
    inputs = np.array(GOOD, np.float32)
    inputs.flags.writeable = False
    assert Intake(3).admit((inputs, np.array(LABELS))).inputs.tolist() == GOOD


@pytest.mark.parametrize(
    "item",
    [
        7,
        None,
        torch.zeros(3, 2),
        (torch.zeros(3, 2),),
        (torch.zeros(3, 2), torch.zeros(3), torch.zeros(3)),
        {"inputs": GOOD, "labels": LABELS},
        (torch.zeros(2), 1),
        ([[1.0, 2.0], [3.0]], [0, 1]),
    ],
    ids=["number", "None", "tensor", "single", "triple", "dict", "one row", "ragged"],
)
@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_what_is_no_pair_is_a_mistake_in_the_program(item: Any, on_bad: Any) -> None:
    """It is raised whatever `on_bad` says: there are no rows to skip."""
    with pytest.raises(
        BadInputError, match=rf"pairs of inputs and labels, got {type(item).__name__}"
    ):
        Intake(3, on_bad).admit(item)


def test_inputs_and_labels_of_different_lengths_are_refused() -> None:
    with pytest.raises(BadInputError, match="3 inputs, 2 labels"):
        Intake(3).admit((torch.tensor(GOOD), torch.tensor([0, 1])))


def test_rows_that_a_source_could_not_read_are_counted(tmp_path: Path) -> None:
    intake = Intake(3, "skip", tmp_path / "skipped.jsonl")
    intake.refuse([], "no rows, no fault")
    intake.refuse([4, 9], "label missing")
    assert intake.skipped == {"label missing": 2}
    assert [line["id"] for line in lines_of(tmp_path / "skipped.jsonl")] == [4, 9]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="raise, skip, quarantine, got 'ignore'"):
        Intake(on_bad="ignore")  # type: ignore[arg-type]
