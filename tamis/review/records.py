"""Records of rows as they were written: those of a stream are kept while their rows are held."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from tamis.checkpoint import pack_texts, unpack_texts
from tamis.review.previews import LONGEST_SIDE, Preview, preview_image, preview_values
from tamis.sources import Schema
from tamis.sources.schema.cells import text_of
from tamis.sources.schema.image import Image

Records = Callable[[Collection[int]], Mapping[int, Mapping[str, str]]]
"""Returns the cells of rows as they were written, by number and column, of rows that are known."""
MOST_THUMBNAILS = 2_000
"""Rows whose pictures are read from files again; of more, what the model sees of them is taken."""
MOST_CHARACTERS = 2**26
"""Characters of records kept, at the most: of more, the oldest are forgotten."""
SPARE = 2_000
"""Records kept beyond half as many again as rows are wanted, before others are forgotten."""


@dataclass(frozen=True)
class TableRows:
    """Rows of a table as people read them: the schema, and where cells as written come from."""

    schema: Schema
    records: Records
    thumbnails: bool = False
    """Whether pictures are read from their files again, in their own proportions."""

    def previews(self, rows: Collection[int]) -> dict[int, Preview]:
        """Return all columns but label and id of those rows whose records are known."""
        columns = [c.name for c in self.schema.columns if c.name not in self.pictures]
        left_out = (self.schema.label, self.schema.id)
        found: dict[int, Preview] = {}
        for row, record in self.records(rows).items():
            names = [name for name in dict.fromkeys([*record, *columns]) if name not in left_out]
            preview = preview_values({name: record.get(name) for name in names}) if names else {}
            if self.thumbnails and len(rows) <= MOST_THUMBNAILS:
                preview |= self._thumbnail(record)
            if preview:
                found[row] = preview
        return found

    def _thumbnail(self, record: Mapping[str, str]) -> Preview:
        """Return the picture of a record, if it has one in a file."""
        for column in self.schema.inputs:
            if isinstance(column, Image) and column.name in record:
                pixels = column.thumbnail(record[column.name], LONGEST_SIDE)
                if pixels is not None:
                    return preview_image(torch.from_numpy(pixels))
        return {}

    @cached_property
    def pictures(self) -> set[str]:
        """Columns of pictures and of arrays, which are not text."""
        return {c.name for c in self.schema.columns if c.kind in ("array", "image")}


class HeldRecords:
    """Records of a stream by the number of their row, as JSON, until the row is held no longer."""

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self.most_characters = most_characters
        self._texts: dict[int, str] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._texts)

    def update(
        self, records: Mapping[int, Mapping[str, Any]], left_out: Container[str] = ()
    ) -> None:
        """Keep records; where there are too many characters, the oldest are forgotten."""
        for row, record in records.items():
            self._remove(row)
            kept = {name: cell for name, cell in record.items() if name not in left_out}
            self._texts[row] = text = json.dumps(kept, default=text_of, skipkeys=True)
            self._size += len(text)
        while self._size > self.most_characters:
            self._remove(next(iter(self._texts)))

    def forget(self, held: int, wanted: Callable[[], Iterable[int]]) -> None:
        """Forget records of rows that are not wanted, once there are many more than rows held."""
        if len(self._texts) <= held + held // 2 + SPARE:
            return
        kept = set(wanted())
        for row in [row for row in self._texts if row not in kept]:
            self._remove(row)

    def __call__(self, rows: Collection[int]) -> dict[int, dict[str, str]]:
        """Return the cells of rows that are known, as text."""
        found = {row: json.loads(self._texts[row]) for row in rows if row in self._texts}
        return {
            row: {name: text_of(cell) for name, cell in record.items()}
            for row, record in found.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the records and the numbers of their rows, the oldest first."""
        rows = torch.tensor(list(self._texts), dtype=torch.long)
        return {"rows": rows, "texts": pack_texts(self._texts.values())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        texts = unpack_texts(state["texts"])
        self._texts = dict(zip(state["rows"].tolist(), texts, strict=True))
        self._size = sum(map(len, texts))

    def _remove(self, row: int) -> None:
        self._size -= len(self._texts.pop(row, ""))
