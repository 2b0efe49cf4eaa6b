"""The feed of a service: the journal, read by the schema of the run that is continued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tamis.sources import Feed, Journal, Schema, SchemaRows
from tamis.training.protocol import RecordedTrainer
from tamis.web.service_records import Roles
from tamis.web.uploaded import UploadedPictures


def served_schema(schema: Schema) -> Schema:
    """Return a schema for a service: rows have ids, and pictures come with their rows."""
    roles = Roles.of(schema)
    return replace(schema.located(UploadedPictures()), id=roles.id, label=roles.label)


KEPT = ("seen", "kind", "rejects", "classes", "annotators")
"""Parts of an offset that do not depend on the source."""


class JournalFeed(Feed):
    """Reads a journal. A run that was trained on something else begins at its first record.

    `annotators` are the names of those whom the run knows, where its last offset has none.
    """

    def __init__(
        self,
        journal: Journal,
        schema: Schema,
        trainer: RecordedTrainer,
        annotators: Sequence[str] = (),
    ) -> None:
        roles, validator = Roles.of(schema), trainer.validator
        named = None if trainer.annotators is None else roles.annotator
        limit = validator.numbers.max_classes
        rows = SchemaRows(schema, limit, time=roles.time, annotator=named)
        rows.annotators.numbers.set_names(annotators)
        super().__init__(journal, rows, rejects=validator.rejects, most_bad=1.0, events=True)
        self.scale = validator.scale

    def seek(self, offset: Any) -> None:
        """Continue from an offset of this journal, or after what another source had."""
        position = offset.get("source") if isinstance(offset, dict) else None
        if not isinstance(position, dict) or "journal" not in position:
            kept = offset if isinstance(offset, dict) else {}
            offset = {name: kept[name] for name in KEPT if name in kept}
            offset["source"] = {"journal": 0}
        super().seek({name: part for name, part in offset.items() if name != "schema"})
