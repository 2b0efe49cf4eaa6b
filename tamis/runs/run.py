"""A run's folder as pages need it: read as far as it has come, and read on when asked."""

from __future__ import annotations

from pathlib import Path

from tamis.errors import TamisError
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
    """All that is known of a run. `update` reads what has come since.

    `news` counts how often there was any: about `curves`, and about `suspects` or decisions.
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
        self.history = History(folder)
        self.estimates = EstimateHistory(folder)
        self.suspects = SuspectIndex(folder)
        self.decisions = Decisions(folder / RunFiles.decisions)
        self.news = {"curves": 0, "suspects": 0}

    @property
    def name(self) -> str:
        """Call the run by its folder."""
        return self.folder.resolve().name

    @property
    def classes(self) -> list[str]:
        """Name the classes: as the run did, or else those that its suspects have."""
        if self.metadata.classes:
            return list(self.metadata.classes)
        return sorted(self.suspects.labels)

    @property
    def state(self) -> str:
        """Say how far it is."""
        about, done = self.metadata, len(self.history)
        if about.ended:
            return ENDS[about.ended]
        if about.slots:
            return f"at slot {done:,} of {about.slots:,}"
        return f"{done:,} slots"

    def refresh(self) -> None:
        """Read on."""
        about = read_metadata(self.folder)
        changed = about not in (self.metadata, RunMetadata())
        if changed:
            self.metadata = about
        curves = [self.history.refresh(), self.estimates.refresh(), changed]
        suspects = [self.suspects.refresh(), bool(self.decisions.refresh())]
        self.news["curves"] += any(curves)
        self.news["suspects"] += any(suspects)
