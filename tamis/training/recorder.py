"""A run's folder kept up to date, and decisions taken in: three calls in a training loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tamis.data import Samples, Slot
from tamis.review import Corrections, LiveSuspects, Suspect, previewer, write_review_files
from tamis.runs import EstimateLog, RunFiles, RunMetadata, write_metadata
from tamis.runs.metadata import End
from tamis.runs.shown import Rows
from tamis.sources import Table
from tamis.sources.tables import reader_of
from tamis.training.trainer import Trainer

OF_ONE_RUN = (
    RunFiles.estimates,
    RunFiles.alarms,
    RunFiles.suspects,
    RunFiles.neighbours,
    RunFiles.table,
)
"""Files that a run begun anew replaces. Decisions are the work of people, and stay."""


class Keeper:
    """Leaves all that the page of a run needs, and has the trainer learn from decisions.

        keeper = Keeper(folder, trainer, RunMetadata("clicks.csv", classes, shape))
        keeper.begin()
        for samples, names in rows:
            samples, names = keeper.mend(samples, names)
            slot = trainer.step(samples)
            keeper.update(slot, samples, names)
        keeper.end(suspects, rows)

    It follows the decisions made in its own folder and, if given, those in another file,
    `corrections`. What it must remember is in `state_dict`, so that a checkpoint can hold it, and
    what was written since then is taken back by `load_state_dict`. The trainer should have a
    tracker, best an `Alarm`; without one nothing is told of the clean ratio.
    A disk that fails costs no more than what could not be written or read: `lost` counts how often.
    """

    def __init__(
        self, folder: Path, trainer: Trainer, about: RunMetadata, corrections: Path | None = None
    ) -> None:
        self.folder = folder
        self.trainer = trainer
        self.about = about
        self.show = previewer(about.input_shape, about.columns)
        self.lost = 0
        self.own = Corrections(folder / RunFiles.decisions, about.classes)
        another = corrections and corrections.resolve() != (folder / RunFiles.decisions).resolve()
        self.given = Corrections(corrections, about.classes) if corrections and another else None
        self.tracking = EstimateLog(folder, trainer.tracker) if trainer.tracker else None
        self.lookout = LiveSuspects(folder, trainer, about.classes, self.show, settled=self.settled)

    def begin(self, resumed: bool = False) -> None:
        """Say what the run is; one begun anew removes what another has left."""
        if not resumed:
            for name in OF_ONE_RUN:
                (self.folder / name).unlink(missing_ok=True)
        self.about = replace(self.about, ended=None).begun(self.trainer.device)
        write_metadata(self.folder, self.about)

    def mend(
        self, samples: Samples | None, names: Sequence[str] | None = None
    ) -> tuple[Samples | None, list[str] | None]:
        """Correct rows on their way in; those that were dropped are left out, with their names."""
        if samples is None:
            return None, None
        mended = samples
        called = None if names is None else dict(zip(samples.ids.tolist(), names, strict=True))
        for corrections in self._all():
            left = None if called is None else [called[number] for number in mended.ids.tolist()]
            with self._sparing():
                mended = corrections.correct(mended, left)
        return mended, None if called is None else [called[at] for at in mended.ids.tolist()]

    def update(
        self, slot: Slot, samples: Samples | None = None, names: Sequence[str] | None = None
    ) -> None:
        """Write down what there is to write after a slot, and take new decisions in."""
        if self.tracking:
            with self._sparing():
                self.tracking.update(slot, samples)
        with self._sparing():
            self.lookout.update(slot.number, samples, names)
        for corrections in self._all():
            with self._sparing():
                corrections.apply(self.trainer)

    @property
    def strange(self) -> bool:
        """Say whether a decision named a label that is no class."""
        return any(corrections.unknown_labels for corrections in self._all())

    def settled(self) -> set[str]:
        """Ids of the rows that somebody has decided about."""
        return set().union(*(corrections.decided for corrections in self._all()))

    def open(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Leave out suspects that somebody has decided about."""
        settled = self.settled()
        return [suspect for suspect in suspects if suspect.id not in settled]

    def end(self, suspects: Sequence[Suspect] | None, rows: Rows, ended: End = "done") -> None:
        """Write the suspects of all rows down, if there was time to look for them.

        Those decided in this folder are among them, so that the page can show what was decided.
        """
        if suspects is not None and len(self.trainer.buffer):
            given = set() if self.given is None else self.given.decided
            left = [suspect for suspect in suspects if suspect.id not in given]
            held, classes = self.trainer.buffer.pool(), self.about.classes
            view = self.trainer.averaged
            write_review_files(self.folder, left, rows, classes, self.show, view, held)
        self.about = replace(self.about, ended=ended)
        write_metadata(self.folder, self.about)

    def state_dict(self) -> dict[str, Any]:
        """Return the names that rows are known by, the suspects, and where files end."""
        return {
            "names": self.own.state_dict(),
            "lookout": self.lookout.state_dict(),
            "tracking": self.tracking.state_dict() if self.tracking else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave, and look at all decisions once more."""
        for corrections in self._all():
            corrections.load_state_dict(state["names"])
        self.lookout.load_state_dict(state["lookout"])
        if self.tracking:
            self.tracking.load_state_dict(state["tracking"])

    @contextmanager
    def _sparing(self) -> Iterator[None]:
        """Count what the disk did not do, and have the run go on."""
        try:
            yield
        except OSError:
            self.lost += 1

    def _all(self) -> list[Corrections]:
        return [self.own] if self.given is None else [self.given, self.own]


def table_metadata(table: Table, slots: int, settings: Mapping[str, Any]) -> RunMetadata:
    """Say what a run on a table is made of."""
    read = reader_of(table.path)(table.path, table.label, table.id_column, table.drop, 1)
    columns = tuple(next(read).columns) if len(table.input_shape) == 1 else ()
    return RunMetadata(
        table.path.name, table.classes, table.input_shape, columns, slots, dict(settings)
    )
