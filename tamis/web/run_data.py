"""A run's folder as pages need it: read as far as it has come, and read on when asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tamis.errors import TamisError
from tamis.runs import FILES, About, Decisions, History, Shelf, Told, read_about

ENDS = {"done": "finished", "stopped": "stopped early", "diverged": "stopped: training diverged"}


class NoRunError(TamisError, ValueError):
    """A folder that holds no run."""


@dataclass(frozen=True)
class Tile:
    """One number of a run, what it is, and a word beside it."""

    name: str
    value: str
    note: str = ""


class Run:
    """All that is known of a run. `update` reads what has come since.

    `news` counts how often there was any: about `curves`, and about `suspects` or decisions.
    """

    def __init__(self, folder: Path) -> None:
        if not any((folder / name).exists() for name in (FILES.log, FILES.about, FILES.suspects)):
            raise NoRunError(
                f"{folder} holds no run: there is neither {FILES.log} nor {FILES.about}."
            )
        self.folder = folder
        self.about = read_about(folder)
        self.history = History(folder)
        self.told = Told(folder)
        self.shelf = Shelf(folder)
        self.decisions = Decisions(folder / FILES.decisions)
        self.news = {"curves": 0, "suspects": 0}

    @property
    def name(self) -> str:
        """Call the run by its folder."""
        return self.folder.resolve().name

    @property
    def classes(self) -> list[str]:
        """Name the classes: as the run did, or else those that its suspects have."""
        if self.about.classes:
            return list(self.about.classes)
        return sorted(self.shelf.labels)

    @property
    def state(self) -> str:
        """Say how far it is."""
        about, done = self.about, len(self.history)
        if about.ended:
            return ENDS[about.ended]
        if about.slots:
            return f"at slot {done:,} of {about.slots:,}"
        return f"{done:,} slots"

    def refresh(self) -> None:
        """Read on."""
        about = read_about(self.folder)
        changed = about not in (self.about, About())
        if changed:
            self.about = about
        curves = [self.history.refresh(), self.told.refresh(), changed]
        suspects = [self.shelf.refresh(), bool(self.decisions.refresh())]
        self.news["curves"] += any(curves)
        self.news["suspects"] += any(suspects)

    def tiles(self) -> list[Tile]:
        """Return the numbers that a reader wants first."""
        history = self.history
        tiles = [
            numbered("accuracy", history.last("accuracy_ema"), "averaged weights"),
            numbered("accuracy", history.last("accuracy"), "weights as they are"),
            numbered("purity", history.mean("purity"), "right labels among picks"),
            numbered("coverage", history.last("coverage"), "of what is held, ever picked"),
        ]
        if self.told.points:
            point = self.told.points[-1]
            note = f"90% band {point.low:.2f} to {point.high:.2f}"
            tiles.append(Tile("clean ratio, estimated", f"{point.value:.2f}", note))
        if len(history):
            skipped = int(history.last("skipped") or 0)
            seconds = history.mean("seconds") or 0.0
            tiles += [
                Tile(
                    "rows seen",
                    f"{int(history.last('seen') or 0):,}",
                    f"{skipped:,} skipped" if skipped else "none skipped",
                ),
                Tile("a slot", f"{1000 * seconds:.1f} ms", f"{len(history):,} slots"),
            ]
        decided = sum(found.settled for found in self.decisions.in_force().values())
        tiles.append(Tile("labels that look wrong", f"{len(self.shelf):,}", f"{decided:,} decided"))
        return [tile for tile in tiles if tile.value]


def numbered(name: str, value: float | None, note: str) -> Tile:
    """Make a tile of a share, an empty one where it is not known."""
    return Tile(name, "" if value is None else f"{value:.3f}", note)
