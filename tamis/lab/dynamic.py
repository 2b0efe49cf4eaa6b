"""The paper's dynamic stream: CIFAR-10 in four parts, each in the place of the one before.

The paper gives .1 .3 .2 .15 as the clean ratios of the parts, having "randomised labels of a
certain clean ratio of data": it leaves open whether that share is right or wrong. Both are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from tamis.buffers import Sliding
from tamis.data import Samples
from tamis.lab.scene import Scene
from tamis.lab.table import Line, Run, Settings, follow, load
from tamis.selectors import Selector
from tamis.streams import Replay, Steps
from tamis.training import Trainer

PRINTED = (0.1, 0.3, 0.2, 0.15)
READINGS = {"noise": tuple(1 - share for share in PRINTED), "clean": PRINTED}
"""The paper's numbers as shares of wrong labels, and of right ones: the clean ratios of each."""
ROWS = (
    "OGRS", "naive", "oracle", "ITLM 0.9", "ITLM 0.7", "ITLM 0.5", "ITLM 0.3", "BARE", "Plausible",
)  # fmt: skip


@dataclass
class Parted(Scene):
    """A scene whose rows come in parts: one slot brings a part, and takes the one before."""

    ratios: tuple[float, ...] = PRINTED

    @property
    def part(self) -> int:
        """Rows of a part."""
        return len(self.held) // len(self.ratios)

    def stream(self, chunks: int = 1) -> Iterator[Any]:
        """Yield a part in the first slot of its stretch, and nothing in the others."""
        for part in self.parts():
            yield part
            yield from [None] * (self.slots // len(self.ratios) - 1)

    def parts(self) -> Iterator[Samples]:
        """Yield the parts, each with its share of labels corrupted."""
        return iter(
            Replay(
                self.data.inputs[self.held],
                self.data.labels[self.held],
                self.label_noise,
                Steps(self.ratios),
                slots=len(self.ratios),
                rows_per_slot=self.part,
                seed=self.seed,
            )
        )

    def trainer(self, selector: Selector | None = None, **settings: Any) -> Trainer:  # type: ignore[override]
        """Make a trainer that holds the newest part alone."""
        return super().trainer(selector, buffer=Sliding(self.part), **settings)


def runs(
    settings: Settings,
    data: Sequence[str],
    readings: Sequence[str],
    names: Sequence[str],
    seeds: Sequence[int],
) -> list[Run]:
    """List the runs: seeds outermost."""
    return [
        Run(settings.named("dynamic"), place, reading, mean_ratio(reading), name, seed)
        for seed in seeds
        for place in data
        for reading in readings
        for name in names
    ]


def mean_ratio(reading: str) -> float:
    """Mean clean ratio of the parts, as it stands in a file."""
    return round(mean(READINGS[reading]), 4)


def slots_of(settings: Settings) -> int:
    """Count the slots of a run."""
    return len(PRINTED) * settings.part_slots


def run_dynamic(run: Run, settings: Settings, folder: Path | None = None) -> list[Line]:
    """Train on the four parts, and return the curve."""
    data, slots = load(run.data, folder), slots_of(settings)
    rows = len(PRINTED) * settings.part_rows
    place = replace(settings.place(run.data), held=rows, slots=slots)
    ratios = READINGS[run.reading]
    scene = Parted(place, data, "symmetric", run.clean_ratio, slots, run.seed, ratios=ratios)
    return follow(run, settings, settings.part_every, scene, scene.stream())
