"""Records of a stream to rows, by a schema that was learned from the first of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.sources.protocol import BadRecordError
from tamis.sources.rows import Row, cell, id_of, label_of, number_classes
from tamis.sources.schema import Schema
from tamis.sources.schema.column import Column
from tamis.sources.validation import NOT_NUMBERS


class SchemaRows:
    """Turns records into rows by a schema; what cannot be read rejects a record.

    A value that is missing, or a column that had missing values when the schema was learned, is no
    fault. `many` turns a batch at once, which is faster than one record after the other.
    """

    def __init__(self, schema: Schema) -> None:
        self._use(schema)

    def __call__(self, record: Any) -> Row:
        """Return the row of one record."""
        (found,) = self.many([record])
        if isinstance(found, BadRecordError):
            raise found
        return found

    def many(self, records: Sequence[Any]) -> list[Row | BadRecordError]:
        """Return the row of each record, or the error that rejects it."""
        found: list[Row | BadRecordError | None] = [None] * len(records)
        given: list[tuple[int, int | None, str | None]] = []
        good: list[int] = []
        for at, record in enumerate(records):
            try:
                label = self._check(record)
                given.append((label, *id_of(record, self.schema.id)))
                good.append(at)
            except BadRecordError as error:
                found[at] = error
        rows = self._encode([records[at] for at in good])
        for at, row, (label, number, name) in zip(good, rows, given, strict=True):
            found[at] = row if isinstance(row, BadRecordError) else Row(row, label, number, name)
        return [row for row in found if row is not None]

    def state_dict(self) -> dict[str, Any]:
        """Return the schema as JSON."""
        return self._json

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with a schema that was saved."""
        self._use(Schema.from_json(state))

    def _use(self, schema: Schema) -> None:
        self.schema = schema
        self._numbers = number_classes(schema.classes)
        self._json = schema.to_json()  # once: every offset has it

    def _check(self, record: Any) -> int:
        """Return the number of the class; raise where the record lacks what it cannot lack."""
        label = label_of(record, self.schema.label, self._numbers)
        for column in self.schema.inputs:
            if column.name not in record and not may_lack(column):
                cell(record, column.name)
        return label

    def _encode(self, records: list[Any]) -> list[np.ndarray | BadRecordError]:
        names = [column.name for column in self.schema.inputs]
        columns = {name: [record.get(name) for record in records] for name in names}
        if not records:
            return []
        found = self.schema.read(columns)
        rows: list[np.ndarray | BadRecordError] = list(found.rows)
        for name, places in found.unreadable.items():
            for at in np.flatnonzero(places).tolist():
                detail = f"{name} is no {self.schema[name].kind}: {str(columns[name][at])[:100]}"
                rows[at] = BadRecordError(NOT_NUMBERS, detail)
        return rows


def may_lack(column: Column) -> bool:
    """Return whether a record may come without a column: where missing values have a place."""
    return column.part in ("categories", "texts") or column.missing > 0
