"""Tables of labels by several annotators: a line for each label, with its row and its annotator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.sources.schema.cells import listed, texts_of
from tamis.sources.table_blocks import Block, TableReader
from tamis.sources.validation import BadInputError

BLOCK_ROWS = 65_536
USUAL = {
    "row": ("task", "row", "item", "id", "example", "question", "object", "unit"),
    "annotator": ("worker", "annotator", "user", "labeler", "labeller", "rater", "coder"),
    "label": ("label", "answer", "annotation", "response", "rating", "class"),
}
"""Usual names of the three columns, also with `_id` or `id` behind them."""
FEW_CLASSES = 20
"""Distinct labels up to which most lines may have one of their own."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LabelColumns:
    """Names of the columns; `truth` holds the true classes, where they are known."""

    row: str
    annotator: str
    label: str
    truth: str | None = None


@dataclass(frozen=True)
class Annotations:
    """Labels in the order of the table, all numbered from 0, and the names of the numbers.

    `truth` is the true class of each row, -1 where it is unknown or was never given as a label.
    `known` is whether it is known. `rejects` are lines that could not be read, by reason.
    `repeated` labels were replaced by a later one of the same annotator for the same row.
    """

    columns: LabelColumns
    row_names: list[str]
    annotator_names: list[str]
    classes: list[str]
    rows: Array
    annotators: Array
    labels: Array
    truth: Array
    known: Array
    rejects: Counter[str]
    repeated: int


def find_columns(
    names: list[str],
    table: str,
    *,
    row: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    truth: str | None = None,
) -> LabelColumns:
    """Return the columns by the names that were chosen, else by usual ones."""
    chosen = {"row": row, "annotator": annotator, "label": label}
    for name in (*chosen.values(), truth):
        if name is not None and name not in names:
            raise BadInputError(f"{table} has no column {name!r}; it has {listed(names)}.")
    plain = {name.lower().replace("_", "").removesuffix("id") or "id": name for name in names[::-1]}
    taken = {name for name in (*chosen.values(), truth) if name}
    for kind, usual in USUAL.items():
        if chosen[kind] is None:
            found = [plain[each] for each in usual if plain.get(each, "") not in {"", *taken}]
            if not found:
                raise BadInputError(
                    f"{table} has no column that is called as {kind}s usually are; it has"
                    f" {listed(names)}: name it by --{kind} COLUMN."
                )
            chosen[kind] = found[0]
            taken.add(found[0])
    found_columns = LabelColumns(
        str(chosen["row"]), str(chosen["annotator"]), str(chosen["label"]), truth
    )
    if len({found_columns.row, found_columns.annotator, found_columns.label}) < 3:
        raise BadInputError("Row, annotator and label must be three columns.")
    return found_columns


class Names:
    """Numbers names in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, texts: list[str]) -> Array:
        """Return the numbers of names."""
        numbers = self.numbers
        found = (numbers.setdefault(text, len(numbers)) for text in texts)
        return np.fromiter(found, np.int64, len(texts))

    def sorted(self) -> tuple[list[str], Array]:
        """Return the names in order, and the place of each number among them."""
        names = sorted(self.numbers)
        places = np.empty(len(names), np.int64)
        places[[self.numbers[name] for name in names]] = np.arange(len(names))
        return names, places


def read_annotations(
    reader: TableReader,
    *,
    row: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    truth: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Annotations:
    """Return the labels of a table; a line without row, annotator or label is counted, no more."""
    names = [Names(), Names(), Names()]
    parts: list[Array] = []
    truths: dict[int, str] = {}
    rejects: Counter[str] = Counter()
    columns = None
    seen = 0
    expected = [name for name in (row, annotator, label, truth) if name]
    for block in reader.blocks(BLOCK_ROWS, expected):
        if columns is None and (block.rows or not block.malformed):
            columns = find_columns(
                list(block.columns), reader.name, row=row, annotator=annotator, label=label,
                truth=truth,
            )  # fmt: skip
        seen += len(block)
        progress(seen)
        rejects["its fields do not fit the header"] += len(block.malformed)
        if columns is not None and block.rows:
            parts.append(read_block(block, columns, names, truths, rejects))
    if columns is None or not parts or not sum(len(part) for part in parts):
        raise BadInputError(f"{reader.name} holds no label with its row and its annotator.")
    numbers = np.concatenate(parts)
    classes, places = names[2].sorted()
    check_labels(reader.name, columns.label, classes, len(numbers))
    known = np.zeros(len(names[0].numbers), bool)
    known[list(truths)] = True
    at = {name: place for place, name in enumerate(classes)}
    found = np.full(len(known), -1)
    found[list(truths)] = [at.get(text, -1) for text in truths.values()]
    everything = Annotations(
        columns=columns,
        row_names=list(names[0].numbers),
        annotator_names=list(names[1].numbers),
        classes=classes,
        rows=numbers[:, 0],
        annotators=numbers[:, 1],
        labels=places[numbers[:, 2]],
        truth=found,
        known=known,
        rejects=+rejects,
        repeated=0,
    )
    return newest_only(everything)


def read_block(
    block: Block,
    columns: LabelColumns,
    names: list[Names],
    truths: dict[int, str],
    rejects: Counter[str],
) -> Array:
    """Return the numbers of row, annotator and label in a block, a line for each label."""
    kinds = {"row": columns.row, "annotator": columns.annotator, "label": columns.label}
    absent = [""] * len(block.rows)
    texts = [texts_of(block.columns.get(name, absent)) for name in kinds.values()]
    if not all(map(all, texts)):
        lines = list(zip(*texts, strict=True))
        missing = Counter(line.index("") for line in lines if "" in line)
        for at, kind in enumerate(kinds):
            rejects[f"it has no {kind}"] += missing[at]
        texts = [list(cells) for cells in zip(*(line for line in lines if all(line)), strict=True)]
        texts = texts or [[], [], []]
    numbers = np.stack([number(cells) for number, cells in zip(names, texts, strict=True)], axis=1)
    if columns.truth is not None:
        by_row = zip(
            texts_of(block.columns[columns.row]),
            texts_of(block.columns.get(columns.truth, absent)),
            strict=True,
        )
        rows = names[0].numbers
        truths |= {rows[row]: truth for row, truth in by_row if truth and row in rows}
    return numbers


def check_labels(table: str, column: str, classes: list[str], labels: int) -> None:
    """Raise in one sentence where labels are not classes."""
    if len(classes) == 1:
        raise BadInputError(
            f"{table}: all labels in {column!r} are {classes[0][:40]!r}; there is nothing to"
            " compare."
        )
    if len(classes) > FEW_CLASSES and 2 * len(classes) > labels:
        raise BadInputError(
            f"{table}: {column!r} has {len(classes)} distinct values in {labels} lines. These are"
            " no classes: name the column of labels by --label COLUMN."
        )


def newest_only(found: Annotations) -> Annotations:
    """Return the labels without those that the same annotator replaced later."""
    keys = found.rows * len(found.annotator_names) + found.annotators
    _, last = np.unique(keys[::-1], return_index=True)
    if len(last) == len(keys):
        return found
    kept = np.sort(len(keys) - 1 - last)
    return replace(
        found,
        rows=found.rows[kept],
        annotators=found.annotators[kept],
        labels=found.labels[kept],
        repeated=len(keys) - len(kept),
    )
