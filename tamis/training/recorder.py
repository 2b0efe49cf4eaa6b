"""The folder of a run kept up to date while it trains, and decisions passed to the trainer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tamis.data import Events, Samples, Slot
from tamis.model_view.passes import last_linear
from tamis.review import (
    Corrections,
    HeldRecords,
    LabelCheck,
    LiveAudit,
    LiveSuspects,
    Rows,
    TableRows,
    previewer,
    write_review_files,
)
from tamis.review.audit import ENOUGH
from tamis.review.previews import Preview, preview_values
from tamis.review.scorer import spread_over
from tamis.runs import EstimateLog, RunFiles, RunMetadata, Suspect, write_metadata
from tamis.runs.annotators import AnnotatorLog
from tamis.runs.metadata import End
from tamis.selectors.protocol import band_around
from tamis.sources import Feed, Schema, write_schema
from tamis.sources.rows import open_numbers
from tamis.sources.validation import BadInputError
from tamis.training.annotated import AnnotatedRows
from tamis.training.positions import Recorded, Rereadable, with_inputs
from tamis.training.protocol import RecordedTrainer

OF_ONE_RUN = (
    RunFiles.estimates,
    RunFiles.alarms,
    RunFiles.annotators,
    RunFiles.suspects,
    RunFiles.neighbours,
    RunFiles.audit,
    RunFiles.table,
    RunFiles.schema,
    RunFiles.test,
)
"""Files that a new run replaces. Decisions are the work of people, and stay."""
MOST_REREAD = 100_000
"""Rows of a table that is read again for suspects while it is trained on; that takes a second."""


class RunRecorder:
    """Writes what the pages of a run read, and has the trainer learn from decisions.

    `TrainingRun` calls it. It follows the decisions made in its own folder and, if given, those in
    another file, `corrections`. `state_dict` holds what it must remember; `load_state_dict` also
    removes what was written after that state. The trainer should have a tracker, best an `Alarm`;
    without one no clean ratio is recorded. A disk that fails stops nothing: `failures` counts the
    writes and reads that came to nothing.
    """

    def __init__(
        self,
        folder: Path,
        trainer: RecordedTrainer,
        metadata: RunMetadata,
        corrections: Path | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.trainer = trainer
        numbers = trainer.validator.numbers
        self.metadata = replace(
            metadata,
            classes=metadata.classes or numbered_classes(trainer),
            max_classes=numbers.max_classes,
        )
        if len(numbers) == len(self.metadata.classes):
            numbers.set_names(self.metadata.classes)
        self.numbers = numbers
        self.failures = 0
        classes, decisions = self.metadata.classes, folder / RunFiles.decisions
        self.own = Corrections(decisions, classes)
        another = corrections and corrections.resolve() != decisions.resolve()
        self.given = Corrections(corrections, classes) if corrections and another else None
        self.audit = LiveAudit(folder, trainer, self._followed())
        self.estimates: EstimateLog | None = None
        if trainer.tracker:
            self.estimates = EstimateLog(folder, trainer.tracker, trainer.selector, classes=classes)
        self.stream: object = None
        self.annotated = AnnotatedRows(trainer.annotators)
        self.annotators: AnnotatorLog | None = None
        if trainer.annotators is not None:
            self.annotators = AnnotatorLog(
                folder, trainer.annotators, self.annotated.names, classes
            )
        self.held = HeldRecords()
        self.table = TableRows(schema, self.records, thumbnails=True) if schema else None
        self.live = LiveSuspects(
            folder, trainer, classes, self.preview, decided=self.decided,
            givers=self.annotated.givers,
            table=TableRows(schema, self.records_now) if schema else None,
        )  # fmt: skip

    def begin(self, resumed: bool) -> None:
        """Write the metadata; a new run removes what another has left."""
        if not resumed:
            for name in OF_ONE_RUN:
                (self.folder / name).unlink(missing_ok=True)
            self.audit.sample.refresh()
        self.metadata = self.metadata.begun(self.trainer.device)
        write_metadata(self.folder, self.metadata)
        if self.schema:
            write_schema(self.folder / RunFiles.schema, self.schema)

    def follow(self, stream: object) -> None:
        """Record what comes from a stream; it may be the one that names new classes."""
        self.stream = self.annotated.stream = stream
        named = open_numbers(stream.to_row) if isinstance(stream, Feed) else self.numbers
        self.numbers = named if named.open else self.numbers
        if self.numbers.open:
            for corrections in self._followed():
                corrections.classes = self.numbers
            self._name_classes()

    def preview(self, row: Any) -> Preview:
        """Return what a page shows of a row: readable values where there is a schema."""
        if self.schema and len(self.schema.input_shape) == 1:
            return preview_values(self.schema.decode(row.detach().cpu()))
        return previewer(self.metadata.input_shape, self.metadata.columns)(row)

    def records(self, rows: Collection[int]) -> Mapping[int, Mapping[str, str]]:
        """Return rows as they were written: of a stream those held, of a table any."""
        if not isinstance(self.stream, Rereadable):
            return self.held(rows)
        try:
            return self.stream.records(rows)
        except (OSError, BadInputError):
            self.failures += 1
            return {}

    def records_now(self, rows: Collection[int]) -> Mapping[int, Mapping[str, str]]:
        """Return rows as they were written, unless training had to wait long for them."""
        if isinstance(self.stream, Rereadable) and self.stream.rows > MOST_REREAD:
            return {}
        return self.records(rows)

    def correct(
        self, came: Samples | Events, names: Sequence[str] | None = None
    ) -> tuple[Samples | Events, list[str] | None]:
        """Return what arrives with the labels that people gave, without rows that they dropped."""
        self._describe(came.samples if isinstance(came, Events) else came)
        if isinstance(came, Samples) and self.trainer.annotators is not None:
            came = Events.of(came, names)
        if isinstance(came, Events):
            for corrections in self._followed():
                with self._counting_failures():
                    came = corrections.correct_events(came, names)
            return came, None if names is None else list(names)
        called = None if names is None else dict(zip(came.ids.tolist(), names, strict=True))
        for corrections in self._followed():
            left = None if called is None else [called[number] for number in came.ids.tolist()]
            with self._counting_failures():
                came = corrections.correct(came, left)
        return came, None if called is None else [called[at] for at in came.ids.tolist()]

    def update(
        self,
        slot: Slot,
        came: Samples | Events | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Record a slot, and pass new decisions to the trainer.

        Of events, the rows that got their labels are recorded.
        """
        if isinstance(came, Events):
            self.live.forget(self.trainer.changed)
            samples: Samples | None = self.trainer.joined
            names = self.own.names_of(self.trainer.joined.ids.tolist())
        else:
            samples = came
        self._name_classes()
        if self.table and isinstance(self.stream, Recorded) and samples is not None:
            self.held.update(self.stream.arrived, self.table.pictures)
            self.held.forget(self.trainer.kept_count, self._wanted)
        if self.estimates:
            with self._counting_failures():
                self.estimates.update(slot, samples)
        if self.annotators:
            with self._counting_failures():
                self.annotators.update(slot.number)
        with self._counting_failures():
            self.live.update(slot.number, *with_inputs(self.stream, samples, names))
        if self.trainer.held_count >= ENOUGH:
            with self._counting_failures():
                self.draw_audit()
        self.apply_decisions()

    def draw_audit(self) -> None:
        """Draw the rows to be audited, unless that was done."""
        self.audit.draw(self.metadata.classes, self.preview, self.live.table)

    def apply_decisions(self) -> None:
        """Relabel and remove rows held, where somebody has decided since the last call."""
        for corrections in self._followed():
            with self._counting_failures():
                if corrections is self.own and corrections.refresh():
                    self.audit.report()  # before labels change
                corrections.apply(self.trainer)

    def decided(self) -> set[str]:
        """Return the ids of the rows that somebody has decided about."""
        return set().union(*(corrections.decided for corrections in self._followed()))

    def undecided(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Return the suspects that nobody has decided about."""
        decided = self.decided()
        return [suspect for suspect in suspects if suspect.id not in decided]

    def held_rows(self) -> Rows:
        """Return the rows held, and their ids as text."""
        parts = self.trainer.held_parts()
        return ((part, self.own.names_of(part.ids.tolist())) for part in parts)

    def model_info(self) -> dict[str, object]:
        """Return what a reader of the model's file must know, for `tamis.load`."""
        return {
            "input_shape": self.metadata.input_shape,
            "classes": self.metadata.classes,
            "slots": self.trainer.slots,
            "weights": "averaged" if self.trainer.average else "last",
            "schema": self.schema.to_json() if self.schema else None,
        }

    def write_suspects(self, suspects: Sequence[Suspect], rows: Rows) -> None:
        """Write the suspects that the page shows; `rows` are those that they were found among.

        Those decided in this folder are among them, so that the page can show what was decided.
        """
        given = set() if self.given is None else self.given.decided
        left = [suspect for suspect in suspects if suspect.id not in given]
        held, view = spread_over(self.trainer.held()), self.trainer.averaged
        classes = self.metadata.classes
        write_review_files(
            self.folder, left, rows, classes, preview=self.preview, view=view, held=held,
            table=self.table,
        )  # fmt: skip

    def count_labels(self, checked: LabelCheck) -> LabelCheck:
        """Note how many labels were scored, and how many of them are wrong; `end` writes both.

        Return the same with the names of those who gave the labels of suspects.
        """
        band = band_around(checked.clean_ratio, self.trainer.selector)
        self.metadata = replace(
            self.metadata, scored=checked.rows, wrong=checked.wrong, clean_band=band
        )
        return replace(checked, suspects=self.annotated.name_givers(checked.suspects))

    def end(self, ended: End) -> None:
        """Write down how the run ended, and the annotators as they are."""
        if self.annotators:
            self.annotators.write(self.trainer.slots - 1)
        self.metadata = replace(self.metadata, ended=ended)
        write_metadata(self.folder, self.metadata)

    def warnings(self) -> list[str]:
        """Return what went wrong and did not stop the run."""
        found = []
        if self.failures:
            found.append(f"{self.failures} times the files for the pages were not written or read")
        if any(corrections.unknown_labels for corrections in self._followed()):
            found.append("some decisions name a label that is not a class here, and change nothing")
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return the ids of rows as text, live suspects, records held, and where files end."""
        return {
            "names": self.own.state_dict(),
            "live": self.live.state_dict(),
            "audit": self.audit.state_dict(),
            "records": self.held.state_dict(),
            "estimates": self.estimates.state_dict() if self.estimates else None,
            "annotators": self.annotators.state_dict() if self.annotators else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, and go through all decisions again."""
        for corrections in self._followed():
            corrections.load_state_dict(state["names"])
        self.live.load_state_dict(state["live"])
        self.audit.load_state_dict(state["audit"])
        self.held.load_state_dict(state["records"])
        if self.estimates:
            self.estimates.load_state_dict(state["estimates"])
        if self.annotators:
            self.annotators.load_state_dict(state["annotators"])

    def _name_classes(self) -> None:
        """Name the classes that have come up, wherever classes are named."""
        if not (self.numbers.open or self.trainer.grown):
            return
        known = max(self.trainer.grown, len(self.metadata.classes))
        self.numbers.grow(known)
        classes = tuple(self.numbers)[:known]
        if classes == self.metadata.classes:
            return
        self.metadata, self.live.classes = replace(self.metadata, classes=classes), classes
        for log in (self.estimates, self.annotators):
            if log:
                log.classes = classes
        with self._counting_failures():
            write_metadata(self.folder, self.metadata)
            if self.schema:
                self.schema = replace(self.schema, classes=classes)
                write_schema(self.folder / RunFiles.schema, self.schema)

    def _describe(self, samples: Samples) -> None:
        """Take the shape of the inputs from the first samples, where the metadata has none."""
        if not self.metadata.input_shape and len(samples):
            self.metadata = replace(self.metadata, input_shape=tuple(samples.inputs.shape[1:]))
            with self._counting_failures():
                write_metadata(self.folder, self.metadata)

    @contextmanager
    def _counting_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.failures += 1

    def _wanted(self) -> list[int]:
        """Return the numbers of the rows that may be displayed."""
        return [*self.trainer.kept_ids(), *self.live.numbers()]

    def _followed(self) -> list[Corrections]:
        return [self.own] if self.given is None else [self.given, self.own]


def numbered_classes(trainer: RecordedTrainer) -> tuple[str, ...]:
    """Return the names of the classes; their numbers where none are known."""
    if trainer.validator.names:
        return trainer.validator.names
    classes = trainer.validator.classes or last_linear(trainer.model)[1].out_features
    return tuple(map(str, range(classes)))
