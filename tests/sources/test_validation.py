"""Every way in which a chunk is bad, and what the validator makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tamis.data import Samples
from tamis.sources import BadInputError, Rejects, Validator

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
    "label too large": Bad(
        torch.tensor(GOOD), torch.tensor([0, 3, 2]), "label is not a class", (1,)
    ),
    "label -1": Bad(torch.tensor(GOOD), torch.tensor([0, -1, 2]), "label is not a class", (1,)),
    "label -100": Bad(torch.tensor(GOOD), torch.tensor([0, -100, 2]), "label is not a class", (1,)),
    "float labels": Bad(
        torch.tensor(GOOD), torch.tensor([0.0, 1.5, 2.0]), "labels are not integers: float32"
    ),
    "bool labels": Bad(
        torch.tensor(GOOD), torch.tensor([True, False, True]), "labels are not integers: bool"
    ),
    "array of text labels": Bad(
        np.array(GOOD, np.float32),
        np.array(["cat", "dog", "cat"]),
        "labels are not integers: text",
    ),
    "list of text labels": Bad(GOOD, ["cat", "dog", "cat"], "labels are not integers: text"),
    "array of text inputs": Bad(
        np.array([["a", "b"], ["c", "d"], ["e", "f"]]),
        np.array(LABELS),
        "inputs are not numbers: text",
    ),
    "list of text inputs": Bad(
        [["a", "b"], ["c", "d"], ["e", "f"]], LABELS, "inputs are not numbers: text"
    ),
    "one-hot labels": Bad(torch.tensor(GOOD), torch.eye(3).long(), r"integers: shape \(3, 3\)"),
    "another shape": Bad(
        torch.ones(3, 4), torch.tensor(LABELS), r"changed from \(2,\) float32 to \(4,\) float32"
    ),
    "another type": Bad(
        torch.tensor(GOOD).double(), torch.tensor(LABELS), r"from \(2,\) float32 to \(2,\) float64"
    ),
    "1-D inputs": Bad(torch.ones(3), torch.tensor(LABELS), "not numbers: no feature dimension"),
}
every_case = pytest.mark.parametrize("bad", CASES.values(), ids=CASES.keys())


def after_a_good_chunk(on_bad: Any, file: Path | None = None) -> Validator:
    """A validator that has seen rows 0 to 2, so that the next chunk's are 3 to 5."""
    validator = Validator(classes=3, on_bad=on_bad, rejects=Rejects(file))
    assert len(validator.validate((torch.tensor(GOOD), torch.tensor(LABELS)))) == 3
    return validator


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else values.tolist()


@every_case
def test_raise_stops_with_one_sentence_that_names_the_row(bad: Bad) -> None:
    validator = after_a_good_chunk("raise")
    with pytest.raises(BadInputError, match=rf"^Row {3 + bad.rows[0]}: .*{bad.reason}.*\.$"):
        validator.validate((bad.inputs, bad.labels))


@every_case
def test_skip_counts_and_notes_the_rows_and_lets_the_others_pass(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "rejects.jsonl"
    validator = after_a_good_chunk("skip", file)
    samples = validator.validate((bad.inputs, bad.labels))
    assert samples.ids.tolist() == [3 + row for row in range(3) if row not in bad.rows]
    assert samples.inputs.tolist() == [GOOD[row] for row in range(3) if row not in bad.rows]

    (reason,) = validator.rejects.counts
    assert validator.rejects.counts[reason] == len(bad.rows)
    assert [line["position"] for line in lines_of(file)] == [3 + row for row in bad.rows]
    for line in lines_of(file):
        assert line["reason"] == reason
        assert "record" not in line

    assert validator.seen == 6
    after = validator.validate((torch.tensor(GOOD), torch.tensor(LABELS)))
    assert after.ids.tolist() == [6, 7, 8]
    assert validator.seen == 9


@every_case
def test_quarantine_keeps_rows_that_can_be_repaired(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "quarantine.jsonl"
    validator = after_a_good_chunk("quarantine", file)
    validator.validate((bad.inputs, bad.labels))
    lines = lines_of(file)
    assert [line["position"] for line in lines] == [3 + row for row in bad.rows]
    inputs, labels = as_list(bad.inputs), as_list(bad.labels)
    for line, row in zip(lines, bad.rows, strict=True):
        np.testing.assert_array_equal(line["record"]["inputs"], inputs[row])
        assert line["record"]["label"] == labels[row]


def test_a_repaired_quarantine_plays_again(tmp_path: Path) -> None:
    file = tmp_path / "quarantine.jsonl"
    image = torch.tensor([0.1, nan, 0.3, 1e-30])
    validator = Validator(3, "quarantine", rejects=Rejects(file))
    validator.validate((image.reshape(1, 1, 2, 2), torch.tensor([2])))
    (line,) = lines_of(file)
    repaired = torch.tensor([line["record"]["inputs"]]).nan_to_num(0.2)
    samples = validator.validate((repaired, torch.tensor([line["record"]["label"]])))
    assert torch.equal(samples.inputs, image.nan_to_num(0.2).reshape(1, 1, 2, 2))


def test_a_row_with_two_faults_is_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "rejects.jsonl"
    validator = after_a_good_chunk("skip", file)
    samples = validator.validate((with_row_1([nan, inf]), torch.tensor([0, -1, 7])))
    assert samples.ids.tolist() == [3]
    assert validator.rejects.counts == {"inputs not finite": 1, "label is not a class": 1}
    assert [line["position"] for line in lines_of(file)] == [4, 5]


def test_a_row_that_is_not_finite_after_scaling_is_bad(tmp_path: Path) -> None:
    """Finite as it came, in doubles or in single precision; infinite as the model sees it."""
    file = tmp_path / "rejects.jsonl"
    validator = Validator(3, "skip", rejects=Rejects(file))
    validator.scale = lambda inputs: inputs.float() * 1e10
    inputs = torch.tensor([*GOOD, [1e30, 0], [nan, 0], [1e300, 1e-300]], dtype=torch.double)
    samples = validator.validate((inputs, torch.tensor([*LABELS, 0, 1, 2])))
    assert samples.ids.tolist() == [0, 1, 2]
    assert torch.equal(samples.inputs, inputs[:3])
    reasons = [line["reason"] for line in lines_of(file)]
    assert sorted(reasons) == ["inputs not finite", *["inputs not finite after scaling"] * 2]
    strict = Validator(3)
    strict.scale = validator.scale
    with pytest.raises(BadInputError, match="Row 0: inputs not finite after scaling"):
        strict.validate((inputs[3:4], torch.tensor([0])))


def test_samples_keep_their_own_ids() -> None:
    validator = Validator(3, "skip")
    given = Samples.of(
        with_row_1([nan, 0]), torch.tensor(LABELS), 100, clean=torch.tensor([1, 1, 0]) > 0
    )
    samples = validator.validate(given)
    assert samples.ids.tolist() == [100, 102]
    assert samples.clean is not None
    assert samples.clean.tolist() == [True, False]


def test_a_refused_first_chunk_does_not_set_the_shape() -> None:
    validator = Validator(3, "skip")
    validator.validate((torch.full((1, 9), nan), torch.tensor([0])))
    assert len(validator.validate((torch.tensor(GOOD), torch.tensor(LABELS)))) == 3


def test_without_classes_any_integer_will_do() -> None:
    assert len(Validator().validate((torch.tensor(GOOD), torch.tensor([0, 1, 999])))) == 3


@pytest.mark.parametrize(
    "kind",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
)
def test_integers_of_every_type_are_labels(kind: str) -> None:
    samples = Validator(3).validate((np.array(GOOD, np.float32), np.array(LABELS, kind)))
    assert samples.labels.tolist() == LABELS


def test_lists_and_arrays_are_read_like_tensors() -> None:
    for item in [(GOOD, LABELS), (np.array(GOOD), np.array(LABELS)), [GOOD, tuple(LABELS)]]:
        samples = Validator(3).validate(item)
        assert samples.inputs.tolist() == GOOD
        assert samples.labels.tolist() == LABELS


def test_an_array_turned_around_is_read() -> None:
    """Torch takes no array with steps backwards as it is."""
    samples = Validator(3).validate((np.array(GOOD, np.float32)[::-1], np.array(LABELS)))
    assert samples.inputs.tolist() == GOOD[::-1]


def test_an_array_that_may_not_be_written_to_is_read_without_a_warning() -> None:
    """Pandas gives such arrays, and torch warns of them."""
    inputs = np.array(GOOD, np.float32)
    inputs.flags.writeable = False
    assert Validator(3).validate((inputs, np.array(LABELS))).inputs.tolist() == GOOD


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
    """It is raised whatever `on_bad` is: there are no rows to skip."""
    with pytest.raises(
        BadInputError, match=rf"pairs of inputs and labels, got {type(item).__name__}"
    ):
        Validator(3, on_bad).validate(item)


def test_inputs_and_labels_of_different_lengths_are_refused() -> None:
    with pytest.raises(BadInputError, match="3 inputs, 2 labels"):
        Validator(3).validate((torch.tensor(GOOD), torch.tensor([0, 1])))


def test_rows_that_a_source_could_not_read_are_counted(tmp_path: Path) -> None:
    validator = Validator(3, "skip", rejects=Rejects(tmp_path / "rejects.jsonl"))
    validator.reject([], "no rows, no fault")
    validator.reject([4, 9], "label missing")
    assert validator.rejects.counts == {"label missing": 2}
    assert [line["position"] for line in lines_of(tmp_path / "rejects.jsonl")] == [4, 9]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="raise, skip, quarantine, got 'ignore'"):
        Validator(on_bad="ignore")  # type: ignore[arg-type]
