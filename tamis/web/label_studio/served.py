"""The run of a service, as the backend of Label Studio needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from threading import Lock
from time import time
from typing import Any

import numpy as np
import torch

from tamis.runs import Suspect, SuspectIndex
from tamis.sources import BadRecordError, Schema, SchemaRows
from tamis.sources.protocol import in_parts
from tamis.web.label_studio.webhooks import LabelRecord
from tamis.web.service import MOST_ROWS, Service
from tamis.web.service_records import hashed


class ServedByService:
    """Predicts by the service's published model, and has rows and labels written to its journal.

    Tasks that are predicted are not kept: Label Studio sends the row again with its label.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.schema: Schema = replace(service.schema, id=service.roles.id)
        self._rows = SchemaRows(replace(service.schema, id=None))
        self._suspects = SuspectIndex(service.run.folder)
        self._lock = Lock()

    @property
    def slots(self) -> int:
        """Slots that the published model was trained."""
        return self.service.model.slots

    def probabilities(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float] | None]:
        """Return the probability of each class by name; None for a row that cannot be read."""
        found: list[dict[str, float] | None] = []
        for part in in_parts(rows, MOST_ROWS):
            inputs = self._read(part)
            good = [row for row in inputs if row is not None]
            shares = iter(self._predict(good) if good else ())
            found += [None if row is None else next(shares) for row in inputs]
        return found

    def suspect(self, name: str) -> Suspect | None:
        """Return the suspect of an id, as it is scored now."""
        with self._lock:
            self._suspects.refresh()
            return self._suspects.get(name)

    def accept(self, rows: Mapping[str, Mapping[str, Any]], labels: Sequence[LabelRecord]) -> None:
        """Return once rows and labels are in the journal, each row before its label.

        A row that the run has already is no other one. Of one that cannot be read the label is
        kept, since the run may have the row from somewhere else.
        """
        new = {name: row for name, row in rows.items() if not self._is_of_table(name)}
        read = zip(new, self._read([*new.values()]), strict=True)
        good = [name for name, row in read if row is not None]
        pending = [
            self.service.submit_rows([rows[name] for name in part], ids=part)
            for part in in_parts(good, MOST_ROWS)
        ]
        pending += [
            self.service.submit_labels([label_fields(label) for label in part])
            for part in in_parts(labels, MOST_ROWS)
        ]
        for answer in pending:
            answer.result()

    def _is_of_table(self, name: str) -> bool:
        """Return whether a row is one of the table that the run began with, named by a column.

        The service knows labels for such rows by the name; a row of this name would be another.
        """
        known = self.service.run.recorder.own.id_of(name)
        return known is not None and known != hashed(name) and str(known) != name

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> list[np.ndarray | None]:
        """Return encoded rows, None for those that cannot be read."""
        found = [
            None if isinstance(row, BadRecordError) else np.asarray(row.input)
            for row in self._rows.many(rows)
        ]
        return [row if row is not None and finite(row) else None for row in found]

    def _predict(self, inputs: list[np.ndarray]) -> list[dict[str, float] | None]:
        made = self.service.model.predict(torch.from_numpy(np.stack(inputs))).probabilities
        names = list(islice(self.service.classes, made.shape[1]))
        return [
            dict(zip(names, shares, strict=True)) if finite(shares) else None
            for shares in made.tolist()
        ]


def finite(numbers: Any) -> bool:
    """Return whether all numbers are finite."""
    return bool(np.isfinite(numbers).all())


def label_fields(label: LabelRecord) -> dict[str, Any]:
    """Return a label as the service takes it."""
    return label._asdict() | {"time": seconds_of(label.time)}


def seconds_of(text: str | None) -> float | None:
    """Return a time in seconds since 1970; now, where the clock that wrote it is ahead of ours.

    >>> seconds_of("2026-01-02T03:04:05.5Z"), seconds_of("soon"), seconds_of(None)
    (1767323045.5, None, None)
    """
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(known.timestamp(), time())
