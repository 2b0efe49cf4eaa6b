"""The numbers of a run that a reader wants first."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.runs import Run
from tamis.web.words import as_duration


@dataclass(frozen=True)
class Tile:
    """One number of a run, what it is, and a word beside it."""

    name: str
    value: str
    note: str = ""


def tiles_of(run: Run) -> list[Tile]:
    """Return the numbers that a reader wants first."""
    history = run.history
    tiles = [
        numbered("accuracy", history.last("accuracy_ema"), "averaged weights"),
        numbered("accuracy", history.last("accuracy"), "current weights"),
        numbered("purity", history.mean("purity"), "share of picks with a right label"),
        numbered("coverage", history.last("coverage"), "of held rows, picked at least once"),
    ]
    metadata = run.metadata
    if metadata.clean_ratio is not None:
        band, _, reason = metadata.clean_ratio_text.partition(" (")[2].partition("): ")
        note = f"about {metadata.wrong:,} of {metadata.scored:,} labels are wrong"
        notes = "; ".join(part for part in (band.removesuffix(")"), note, reason) if part)
        tiles.append(Tile("clean ratio, estimated", f"{metadata.clean_ratio:.2f}", notes))
    elif run.estimates.points:
        point = run.estimates.points[-1]
        note = f"newest rows, 90% band {point.low:.2f} to {point.high:.2f}"
        tiles.append(Tile("clean ratio, estimated", f"{point.value:.2f}", note))
    if len(history):
        skipped = int(history.last("skipped") or 0)
        seconds = history.mean("seconds") or 0.0
        spent = as_duration(seconds * len(history))
        tiles += [
            Tile(
                "rows seen",
                f"{int(history.last('seen') or 0):,}",
                f"{skipped:,} skipped" if skipped else "none skipped",
            ),
            Tile("time per slot", as_duration(seconds), f"{len(history):,} slots in {spent}"),
        ]
    decided = len(run.decisions.decided())
    tiles.append(Tile("suspects", f"{len(run.suspects):,}", f"{decided:,} decided"))
    return [tile for tile in tiles if tile.value]


def numbered(name: str, value: float | None, note: str) -> Tile:
    """Make a tile of a share, an empty one where it is not known."""
    return Tile(name, "" if value is None else f"{value:.3f}", note)
