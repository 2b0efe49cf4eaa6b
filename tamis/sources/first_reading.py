"""The first reading of a table: names, labels, a sample of rows, and the scale found from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tamis.sources.label_order import LabelOrder
from tamis.sources.scaling import Moments
from tamis.sources.schema import Schema
from tamis.sources.schema.cells import Cells, listed, texts_of
from tamis.sources.schema.image import names_pictures
from tamis.sources.schema.sample import RowSample
from tamis.sources.table_blocks import TableReader
from tamis.sources.table_scale import Measured, measure_table
from tamis.sources.validation import BadInputError

BLOCK_ROWS = 4096
RowProgress = Callable[[int], None]
"""Takes the number of rows read so far."""
MEASURED_PICTURES = 500
"""Pictures that the scale is taken from."""


class FirstReading:
    """Names, labels, number of rows and a sample of a table."""

    def __init__(
        self, reader: TableReader, label: str, expected: Sequence[str], progress: RowProgress
    ) -> None:
        self.reader, self.label = reader, label
        self.rows = 0
        self.labels: Counter[str] = Counter()
        self.order = LabelOrder()
        self.sample = RowSample()
        self.names: list[str] = []
        for block in reader.blocks(BLOCK_ROWS):
            self.names = list(dict.fromkeys([*self.names, *block.columns]))
            self.rows += len(block)
            progress(self.rows)
            if block.rows:
                cells = block.columns.get(label, ())
                if isinstance(cells, np.ndarray) and cells.ndim > 1:
                    raise BadInputError(
                        f"{reader.name}: {label!r} must be a flat array, one label for each row."
                    )
                texts = texts_of(cells)
                self.labels.update(texts)
                self.order.update(texts)
                self.sample.update(block.columns)
        self.labels.pop("", None)
        for name in expected:
            if name not in self.names:
                has = listed(self.names)
                raise BadInputError(f"{reader.name} has no column {name!r}; it has {has}.")
        columns = self.sample.columns()
        paths = [n for n in expected if n in reader.kinds or names_pictures(columns.get(n, ()))]
        if not set(self.names) - set(expected) and not paths:
            raise BadInputError(f"{reader.name} has no column of inputs beside {label!r}.")
        if not self.labels:
            raise BadInputError(f"{reader.name} holds no labelled row.")

    def check(self, schema: Schema) -> None:
        """Raise in one sentence where columns or classes are not those of a schema."""
        schema.check(self.names, self.reader.name)
        unknown = sorted(set(self.labels) - set(schema.classes))
        if unknown:
            raise BadInputError(
                f"{self.reader.name} has labels never trained on: {listed(unknown)}."
            )


def measure(
    schema: Schema, first: FirstReading, reader: TableReader, progress: RowProgress
) -> Measured:
    """Return the scale of a table; of pictures, which are scaled as one, that of some."""
    if any(column.kind == "image" for column in schema.inputs):
        columns = first.sample.columns()
        step = max(1, first.rows // first.sample.step // MEASURED_PICTURES)
        some = {name: cells[::step] for name, cells in columns.items()}
        found = schema.read(some)
        bad = np.any([*found.unreadable.values(), np.zeros(len(found.rows), bool)], axis=0)
        moments = Moments()
        moments.update(found.rows[~bad])
        return Measured(*moments.mean_and_deviation(), {}, {})
    held = first.sample.blocks if first.sample.complete else None

    def blocks() -> Iterator[Mapping[str, Cells]]:
        for block in reader.blocks(BLOCK_ROWS, first.names):
            progress(block.start)
            yield block.columns

    return measure_table(schema, lambda: held or blocks())


def absent_pictures(schema: Schema, sample: RowSample, reader: TableReader) -> list[str]:
    """Return a sentence on each column that names pictures which are not there."""
    columns, where = sample.columns(), reader.folder or Path.cwd()
    return [
        f"{column.name!r} looks like paths of pictures, but no such files are in {where}: it is"
        f" taken as {column.kind}"
        for column in schema.columns
        if column.kind in ("id", "category", "text") and names_pictures(columns[column.name])
    ]
