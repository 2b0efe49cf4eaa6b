"""Records of a stream to rows, by a schema that was learned from the first of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.sources.annotator_column import AnnotatorColumn
from tamis.sources.class_numbers import ClassNumbers
from tamis.sources.protocol import BadRecordError
from tamis.sources.rows import Row, cell, has_inputs, id_of, label_alone, label_of, time_of
from tamis.sources.schema import Schema
from tamis.sources.schema.column import Column
from tamis.sources.validation import NOT_NUMBERS


class SchemaRows:
    """Turns records into rows by a schema; what cannot be read rejects a record.

    A value that is missing, or a column that had missing values when the schema was learned, is no
    fault. `many` turns a batch at once, which is faster than one record after the other. With
    `max_classes`, labels that the schema does not have are new classes, up to so many in all. A
    record may lack its label; one with an id and none of the inputs is the label of another row.
    `time` is the column of times, `annotator` that of the names of annotators.
    """

    def __init__(
        self,
        schema: Schema,
        max_classes: int | None = None,
        *,
        time: str | None = None,
        annotator: str | None = None,
    ) -> None:
        self.max_classes, self.time = max_classes, time
        self.annotators = AnnotatorColumn(annotator)
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
        given: list[tuple[int, Row]] = []
        for at, record in enumerate(records):
            try:
                if self.schema.id is not None and not has_inputs(record, self._columns):
                    found[at] = self._label_alone(record, self.schema.id)
                else:
                    given.append((at, self._without_input(record)))
            except BadRecordError as error:
                found[at] = error
        inputs = self._encode([records[at] for at, _ in given])
        for (at, row), made in zip(given, inputs, strict=True):
            found[at] = made if isinstance(made, BadRecordError) else row._replace(input=made)
        return [row for row in found if row is not None]

    def state_dict(self) -> dict[str, Any]:
        """Return the schema as JSON."""
        return self._json

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with a schema that was saved."""
        self._use(Schema.from_json(state))

    def _use(self, schema: Schema) -> None:
        self.schema = schema
        self.numbers = ClassNumbers(schema.classes, self.max_classes)
        self._columns = [column.name for column in schema.inputs]
        self._json = schema.to_json()  # once: every offset has it

    def _label_alone(self, record: Any, id_name: str) -> Row:
        """Return the label of a record that is about another row."""
        alone = label_alone(record, self.schema.label, self.numbers, id_name, time=self.time)
        return alone._replace(annotator=self.annotators(record))

    def _without_input(self, record: Any) -> Row:
        """Return all but the input of a row; raise where a record lacks what it cannot lack."""
        schema = self.schema
        label = label_of(record, schema.label, self.numbers)
        for column in schema.inputs:
            if column.name not in record and not may_lack(column):
                cell(record, column.name)
        time = time_of(record, self.time)
        return Row(None, label, *id_of(record, schema.id), self.annotators(record), time)

    def _encode(self, records: list[Any]) -> list[np.ndarray | BadRecordError]:
        columns = {name: [record.get(name) for record in records] for name in self._columns}
        if not records:
            return []
        found = self.schema.read(columns)
        rows: list[np.ndarray | BadRecordError] = list(found.rows)
        for name, places in found.unreadable.items():
            for at in np.flatnonzero(places).tolist():
                kind = self.schema[name].kind
                detail = f"{name} is not of kind {kind}: {str(columns[name][at])[:100]}"
                rows[at] = BadRecordError(NOT_NUMBERS, detail)
        return rows


def may_lack(column: Column) -> bool:
    """Return whether a record may come without a column: where missing values have a place."""
    return column.part in ("categories", "texts") or column.missing > 0
