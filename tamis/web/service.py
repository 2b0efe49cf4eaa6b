"""A service that predicts rows at once and trains on them and on their labels, in one process."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Condition, Thread
from typing import Any, Self
from uuid import uuid4

import numpy as np
import torch

from tamis.data import Slot
from tamis.errors import TamisError
from tamis.noise.opinions import Estimates
from tamis.sources import BacklogError, BadRecordError, Journal, Schema, SchemaRows
from tamis.sources.journal_lines import encode_record
from tamis.sources.rows import has_inputs
from tamis.sources.validation import NOT_FINITE, NOT_FINITE_SCALED, label_text
from tamis.training.run import TrainingRun
from tamis.web.published import PublishedModel
from tamis.web.service_records import (
    LONGEST_ID,
    FaultError,
    RequestError,
    Roles,
    StoppingError,
    check_name,
    check_time,
    hashed,
)

LOG = logging.getLogger("tamis")
MOST_ROWS = 1000
"""Rows of one request, at the most."""
AT_ONCE = 1024
"""Rows that are predicted at once, at the most."""
ESTIMATED = 50
"""Slots from one estimate of the clean ratio to the next."""
MOST_WAITING = 10_000
"""Rows and labels of requests that wait for the worker, at the most."""

Record = dict[str, Any]


@dataclass
class Work:
    """A request that waits: records, also as text for the journal, and the answer to come."""

    records: list[Record]
    texts: list[bytes]
    has_rows: bool
    answer: Future[list[Record]] = field(default_factory=Future)
    found: list[Record] = field(default_factory=list)


class Service:
    """Predicts rows, and writes rows and labels to a journal that a run is trained on.

    Requests of any number of threads are answered by one worker, which takes all that wait: they
    are encoded and predicted at once, written to the journal by one write, and answered when the
    disk has them. It runs while the service is entered. `update` publishes the model after a slot.
    `predict`, `add`, `label` and `withdraw` wait for the answer; the `submit_` methods return it as
    a future.

    Parameters
    ----------
    run: the run that trains on the journal.
    journal: where rows and labels are kept until they are trained on.
    schema: what the columns of rows are.
    """

    def __init__(self, run: TrainingRun, journal: Journal, schema: Schema) -> None:
        self.run, self.journal, self.schema = run, journal, schema
        self.roles = Roles.of(schema)
        self.model = PublishedModel(run.trainer)
        self.clean_ratio: float | None = None
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._rows = SchemaRows(replace(schema, id=self.roles.id), time=self.roles.time)
        self._columns = [column.name for column in schema.inputs]
        self._waiting: deque[Work] = deque()
        self._held = 0
        self._changed = Condition()
        self._stopping = False
        self._worker = Thread(target=self._work, name="tamis predicts", daemon=True)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of their numbers."""
        return self.run.recorder.metadata.classes

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self._worker.is_alive() and not self._stopping

    @property
    def waiting(self) -> int:
        """Rows and labels of requests that wait for the worker."""
        return self._held

    def predict(self, rows: Sequence[Mapping[str, Any]], **given: Any) -> list[Record]:
        """Return id, class and probabilities of each row, once it is in the journal."""
        return self.submit_rows(rows, **given).result()

    def add(self, rows: Sequence[Mapping[str, Any]], **given: Any) -> list[str]:
        """Accept rows with their labels, and return their ids once they are in the journal."""
        found = self.submit_rows(rows, labelled=True, **given).result()
        return [each["id"] for each in found]

    def label(self, row_id: Any, label: Any, **given: Any) -> None:
        """Accept a label for a row that came before or is to come; another one changes it."""
        self.submit_labels([{"id": row_id, "label": label, **given}]).result()

    def withdraw(self, row_id: Any, **given: Any) -> None:
        """Withdraw the label of a row."""
        self.submit_labels([{"id": row_id, "label": None, **given}]).result()

    def submit_rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        ids: Sequence[Any] | None = None,
        time: float | None = None,
        annotator: str | int | None = None,
        labelled: bool = False,
    ) -> Future[list[Record]]:
        """Return predictions to come of rows that are written; raise where they cannot be accepted.

        Without `labelled` a label among their columns is not looked at.
        """
        if not 0 < len(rows) <= MOST_ROWS:
            raise RequestError(f"A request has 1 to {MOST_ROWS} rows, and this one {len(rows)}.")
        if ids is not None and len(ids) != len(rows):
            raise RequestError(f"There are {len(ids)} ids for {len(rows)} rows.")
        roles, records = self.roles, []
        when = check_time(time)
        for at, row in enumerate(rows):
            record = {name: row[name] for name in self._columns if name in row}
            if not has_inputs(record, self._columns):
                raise RequestError(f"Row {at} has none of the columns that the model takes.")
            given = ids[at] if ids is not None else row.get(roles.id)
            record[roles.id] = uuid4().hex if given is None else self._check_id(given, row=True)
            record[roles.time] = when
            if labelled:
                record[roles.label] = self._check_label(row.get(roles.label))
                if annotator is not None:
                    record[roles.annotator] = check_name(annotator, "annotator")
            records.append(record)
        return self._submit(records, has_rows=True)

    def submit_labels(self, labels: Sequence[Mapping[str, Any]]) -> Future[list[Record]]:
        """Return when labels are written: each has an id and a label, None to withdraw it."""
        if not 0 < len(labels) <= MOST_ROWS:
            raise RequestError(
                f"A request has 1 to {MOST_ROWS} labels, and this one {len(labels)}."
            )
        records = []
        for given in labels:
            label = given["label"]
            record = {
                self.roles.id: self._check_id(given["id"]),
                self.roles.label: None if label is None else self._check_label(label),
                self.roles.time: check_time(given.get("time")),
            }
            if given.get("annotator") is not None:
                record[self.roles.annotator] = check_name(given["annotator"], "annotator")
            records.append(record)
        return self._submit(records, has_rows=False)

    def update(self, slot: Slot) -> None:
        """Publish the model that a slot has trained; call it in the trainer's thread."""
        self.model.publish()
        if slot.agreement is not None and slot.class_arrived is not None:
            compared = int(slot.class_arrived.sum())
            self.counts["compared"] += compared
            self.counts["predicted"] += round(slot.agreement * compared)
        if self.clean_ratio is None or slot.number % ESTIMATED == 0:
            self._estimate()

    def _estimate(self) -> None:
        """Note the clean ratio: the selector's estimate, else the tracker's."""
        trainer = self.run.trainer
        found = trainer.selector.estimate() if isinstance(trainer.selector, Estimates) else None
        found = found or (trainer.tracker.estimate() if trainer.tracker else None)
        self.clean_ratio = None if found is None else found.value

    def __enter__(self) -> Self:
        """Start the worker."""
        self._worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Accept nothing more, and return when all that waits is answered."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._worker.join()

    def _submit(self, records: list[Record], *, has_rows: bool) -> Future[list[Record]]:
        try:
            work = Work(records, [encode_record(record) for record in records], has_rows)
        except ValueError:
            raise RequestError("NaN and Infinity are not numbers of JSON.") from None
        with self._changed:
            if self._stopping:
                raise StoppingError("The service is about to end; try again later.")
            if self._held + len(work.records) > MOST_WAITING:
                raise BacklogError("Nothing was accepted: too many requests wait; try again later.")
            self._waiting.append(work)
            self._held += len(work.records)
            self._changed.notify()
        return work.answer

    def _work(self) -> None:
        torch.set_num_threads(1)  # of this thread: the trainer has its own
        while works := self._take():
            try:
                self._answer(works)
            except Exception:  # whoever waits must not wait for ever
                LOG.exception("A request could not be answered.")
                for work in works:
                    if not work.answer.done():
                        work.answer.set_exception(FaultError("The service has made a mistake."))

    def _take(self) -> list[Work]:
        """Wait for requests, and return those that are answered together; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            works: list[Work] = []
            rows = 0
            while self._waiting and (not works or rows + len(self._waiting[0].records) <= AT_ONCE):
                works.append(self._waiting.popleft())
                rows += len(works[-1].records)
            self._held -= rows
            return works

    def _answer(self, works: list[Work]) -> None:
        """Predict all rows at once, write all records at once, then answer."""
        self._predict([work for work in works if work.has_rows])
        good = [work for work in works if not work.answer.done()]
        if not good:
            return
        try:
            self.journal.append_encoded([text for work in good for text in work.texts])
        except TamisError as error:
            for work in good:
                work.answer.set_exception(error)
            return
        for work in good:
            self.counts["rows" if work.has_rows else "labels"] += len(work.records)
            work.answer.set_result(work.found)

    def _predict(self, works: list[Work]) -> None:
        """Find what is to be answered for rows; refuse requests with a row that cannot be read."""
        if not works:
            return
        made = self._encode([record for work in works for record in work.records])
        inputs = [row for row in made if not isinstance(row, BadRecordError)]
        shares = np.empty((0, 0))
        if inputs:
            shares = self.model.predict(torch.from_numpy(np.stack(inputs))).probabilities.numpy()
        places = iter(range(len(inputs)))
        names, rows = self.classes[: shares.shape[1]], iter(made)
        for work in works:
            faults: dict[int, str] = {}
            for at, (record, row) in enumerate(zip(work.records, rows, strict=False)):
                if isinstance(row, BadRecordError):
                    faults[at] = str(row)
                    continue
                place = next(places)
                if np.isfinite(shares[place]).all():
                    work.found.append(self._found(record, shares[place], names))
                else:
                    faults[at] = NOT_FINITE_SCALED
            if faults:
                at, why = next(iter(faults.items()))
                self.refused["row"] += 1
                message = f"Row {at} cannot be read: {why.rstrip('.')}."
                work.answer.set_exception(RequestError(message, rows=faults))

    def _found(self, record: Record, shares: np.ndarray, names: Sequence[str]) -> Record:
        best = int(shares.argmax())
        listed = shares.astype(float).round(6).tolist()
        return {
            "id": str(record[self.roles.id]),
            "class": names[best],
            "probability": listed[best],
            "probabilities": dict(zip(names, listed, strict=True)),
        }

    def _encode(self, records: list[Record]) -> list[np.ndarray | BadRecordError]:
        """Return the inputs of each row, read as the feed of the journal reads them."""
        found: list[np.ndarray | BadRecordError] = []
        unlabelled = [
            {name: cell for name, cell in record.items() if name != self.roles.label}
            for record in records
        ]
        for row in self._rows.many(unlabelled):
            if isinstance(row, BadRecordError):
                found.append(row)
            elif np.isfinite(array := np.asarray(row.input)).all():
                found.append(array)
            else:
                found.append(BadRecordError(NOT_FINITE))
        return found

    def _check_id(self, given: Any, *, row: bool = False) -> str | int:
        """Return an id as the feed is to read it, so that it is that of a row the run knows.

        Rows of a table are known by their numbers, whatever their names. A `row` with the name of
        one of them is another row.
        """
        name = check_name(given, "id")
        known = self.run.recorder.own.id_of(name)
        if known is None or known == hashed(name) or (row and str(known) != name):
            return name
        return known

    def _check_label(self, label: Any) -> str:
        """Return the name of a class; raise where there is none of this name."""
        if isinstance(label, float) and label.is_integer():
            label = int(label)
        text = label_text(label) if isinstance(label, str | int | float) else ""
        if not text or len(text) > LONGEST_ID:
            raise RequestError("A label is the name of a class.", classes=list(self.classes))
        limit = self.run.trainer.validator.numbers.max_classes or 0
        if text not in self.classes and len(self.classes) >= limit:
            self.refused["class"] += 1
            raise RequestError(f"There is no class {text[:100]!r}.", classes=list(self.classes))
        return text
