"""A run, opened from its folder: finished, or still in progress."""

from __future__ import annotations

from pathlib import Path

from tamis.errors import TamisError
from tamis.runs.annotators import AnnotatorHistory
from tamis.runs.audit import AuditSample
from tamis.runs.confusion import ConfusionCounts, TestCounts
from tamis.runs.decisions import Decisions
from tamis.runs.estimates import EstimateHistory
from tamis.runs.history import History
from tamis.runs.layout import RunFiles
from tamis.runs.metadata import RunMetadata, read_metadata
from tamis.runs.suspect_index import SuspectIndex

ENDS = {"done": "finished", "stopped": "stopped early", "diverged": "stopped: training diverged"}


class NoRunError(TamisError, ValueError):
    """A folder that holds no run."""


class Run:
    """The files of a run, read as far as they are written. `refresh` reads what was added since.

    `versions` counts the changes: of the `curves`, and of the `suspects`, sample,
    decisions or test.
    """

    def __init__(self, folder: Path) -> None:
        if not any(
            (folder / name).exists()
            for name in (RunFiles.log, RunFiles.metadata, RunFiles.suspects)
        ):
            raise NoRunError(
                f"{folder} holds no run: there is neither {RunFiles.log} nor {RunFiles.metadata}."
            )
        self.folder = folder
        self.metadata = read_metadata(folder)
        self.history = History(folder / RunFiles.log)
        self.estimates = EstimateHistory(folder)
        self.annotators = AnnotatorHistory(folder)
        self.suspects = SuspectIndex(folder)
        self.audit = AuditSample(folder)
        self.decisions = Decisions(folder / RunFiles.decisions)
        self.test = TestCounts(folder)
        self.versions = {"curves": 0, "suspects": 0}

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return self.folder.resolve().name

    @property
    def classes(self) -> list[str]:
        """Return the classes of the run, or else the labels of its suspects."""
        if self.metadata.classes:
            return list(self.metadata.classes)
        return sorted(self.suspects.labels)

    def takes(self, label: str) -> bool:
        """Return whether a label is a class of the run, or can become one."""
        return label in self.classes or self.metadata.takes(label)

    @property
    def state(self) -> str:
        """Return how far the run is, in words."""
        metadata, done = self.metadata, len(self.history)
        if metadata.ended:
            return ENDS[metadata.ended]
        if metadata.slots:
            return f"at slot {done:,} of {metadata.slots:,}"
        return f"{done:,} slots"

    @property
    def confusion(self) -> ConfusionCounts:
        """Return predictions beside the labels of a test table, or else beside decisions."""
        decided = self.decisions.in_force().values()
        return self.test.found or ConfusionCounts.of_decisions(decided)

    def refresh(self) -> None:
        """Read what the files have gained."""
        metadata = read_metadata(self.folder)
        changed = metadata not in (self.metadata, RunMetadata())
        if changed:
            self.metadata = metadata
        read = (self.history, self.estimates, self.annotators)
        curves = [*(part.refresh() for part in read), changed]
        suspects = [
            self.suspects.refresh(),
            self.audit.refresh(),
            bool(self.decisions.refresh()),
            self.test.refresh(),
        ]
        self.versions["curves"] += any(curves)
        self.versions["suspects"] += any(suspects)
