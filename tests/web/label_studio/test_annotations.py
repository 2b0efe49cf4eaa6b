"""Annotations become labels; deletions find the row that they were about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tamis.web.label_studio import Annotations, Change, LabelRecord, read_webhook
from tests.web.label_studio.recorded import payload

TIME = "2026-11-18T02:30:35.318383Z"


def change(annotation: int, row: str | None, label: str | None, who: str = "ann") -> Change:
    task = None if row is None else {"id": 1, "data": {"id": row}}
    return Change(annotation, task, label, who if task else None, TIME if task else None)


def taken(memory: Annotations, *changes: Change) -> list[LabelRecord]:
    return [record for one in changes for record in take(memory, one)]


def take(memory: Annotations, one: Change) -> Iterator[LabelRecord]:
    yield from memory.records(one)
    memory.forget(one)


def test_created_updated_and_deleted_by_a_real_server(tmp_path: Path) -> None:
    memory = Annotations(tmp_path / "annotations.jsonl")
    sent = [read_webhook(payload(name)) for name in ("created", "skipped", "updated", "deleted")]
    found = [taken(memory, *changes) for changes in sent]
    times = [payload(name)["annotation"]["updated_at"] for name in ("created", "updated")]
    assert found == [
        [LabelRecord("r1", "cat", "label-studio:1", times[0])],
        [],
        [LabelRecord("r1", "dog", "label-studio:1", times[1])],
        [LabelRecord("r1", None, "label-studio:1", None)],
    ]
    assert not len(memory)


def test_annotations_are_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    taken(Annotations(path), change(5, "r1", "cat"), change(6, "r2", "dog"), change(6, None, None))
    again = Annotations(path)
    assert len(again) == 1
    assert taken(again, change(6, None, None)) == []
    assert taken(again, change(5, None, None)) == [LabelRecord("r1", None, "ann", None)]
    assert len(Annotations(path)) == 0


def test_a_withdrawal_is_repeated_until_it_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    taken(Annotations(path), change(5, "r1", "cat"))
    gone = change(5, None, None)
    assert Annotations(path).records(gone)  # then a crash, before `forget`
    assert Annotations(path).records(gone) == [LabelRecord("r1", None, "ann", None)]


def test_the_label_of_an_annotation_that_remains_is_the_rows(tmp_path: Path) -> None:
    memory = Annotations(tmp_path / "annotations.jsonl")
    taken(memory, change(1, "r1", "cat", "ann"), change(2, "r1", "dog", "bob"))
    taken(memory, change(3, "r2", "fox", "bob"))
    assert taken(memory, change(2, None, None)) == [
        LabelRecord("r1", None, "bob", None),
        LabelRecord("r1", "cat", "ann", None),
    ]


def test_an_annotation_emptied_or_skipped_later_withdraws(tmp_path: Path) -> None:
    memory = Annotations(tmp_path / "annotations.jsonl")
    taken(memory, change(1, "r1", "cat"))
    assert taken(memory, change(1, "r1", None)) == [LabelRecord("r1", None, "ann", TIME)]
    assert taken(memory, change(1, "r1", None)) == []


def test_a_row_to_drop_loses_every_label(tmp_path: Path) -> None:
    memory = Annotations(tmp_path / "annotations.jsonl")
    taken(memory, change(1, "r1", "cat"))
    dropped = change(1, "r1", None)._replace(drop=True)
    assert taken(memory, dropped) == [LabelRecord("r1", None, None, TIME)]
    assert not len(memory)


def test_half_a_line_and_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    taken(Annotations(path), change(1, "r1", "cat"))
    with path.open("a") as file:
        file.write('{"annotation": "x"}\n{"annotation": 1, "id":')
    memory = Annotations(path)
    assert len(memory) == 1
    taken(memory, change(2, "r2", "dog"))
    assert len(Annotations(path)) == 2


NUMBERS, ROWS, LABELS = st.integers(1, 5), st.sampled_from("ab"), st.sampled_from(["cat", "dog"])
CHANGES = st.lists(st.tuples(NUMBERS, ROWS, LABELS | st.none(), st.booleans()), max_size=20)


@given(CHANGES)
def test_labels_in_force_are_those_of_the_annotations_that_exist(
    tmp_path_factory: Any, changes: list[tuple[int, str, str | None, bool]]
) -> None:
    """Replay label records by annotator, and compare with a dictionary of annotations."""
    memory = Annotations(tmp_path_factory.mktemp("memory") / "annotations.jsonl")
    exist: dict[int, tuple[str, str]] = {}
    labels: dict[tuple[str, str | None], str] = {}
    for number, wanted, label, deleted in changes:
        row = exist[number][0] if number in exist else wanted  # an annotation stays with its task
        who = f"user {number}"
        gone = deleted or label is None
        exist.pop(number, None)
        if not gone:
            exist[number] = (row, label or "")
        for record in taken(memory, change(number, None if deleted else row, label, who)):
            labels.pop((record.id, record.annotator), None)
            if record.label is not None:
                labels[record.id, record.annotator] = record.label
    assert labels == {(row, f"user {number}"): label for number, (row, label) in exist.items()}
