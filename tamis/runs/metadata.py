"""The metadata of a run: settings, versions, classes, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from tamis.checkpoint import write_atomically
from tamis.checkpoint.manifest import versions as versions_here
from tamis.runs.json_lines import int_or_none
from tamis.runs.layout import RunFiles

End = Literal["done", "stopped", "diverged"]
WIDE = 0.2
"""Width of a band above which a reader needs to know why."""
OPEN = "wrong labels may agree with each other, an audit of random rows would settle it"


@dataclass(frozen=True)
class RunMetadata:
    """What a run was made of. A field that an older run did not write is empty.

    Parameters
    ----------
    name: what the run was trained on
    classes: names of the classes
    input_shape: shape of one row of inputs
    columns: names of the inputs of a table
    slots: slots planned; None for a stream without an end
    settings: settings of the trainer and of the command
    versions: versions of Python, of the packages, and of the device
    started: time of the start, in UTC
    ended: how the run ended; None while it runs, and after a crash
    source: path of the file or folder that was trained on, where there is one
    digest: checksum of its content
    scored: labels that were scored at the end; None before
    wrong: how many of them are wrong: the sum of their scores
    clean_band: from where to where the clean ratio may be, as far as the selector knows
    max_classes: most classes, where new ones may come up; None where there are no others
    options: options of the command, given or chosen, that its trainer was built with
    """

    name: str = ""
    classes: tuple[str, ...] = ()
    input_shape: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    slots: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    started: str = ""
    ended: End | None = None
    source: str = ""
    digest: str = ""
    scored: int | None = None
    wrong: int | None = None
    clean_band: tuple[float, float] | None = None
    max_classes: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, label: str) -> bool:
        """Return whether a label is a class, or can become one."""
        return label in self.classes or len(self.classes) < (self.max_classes or 0)

    @property
    def clean_ratio(self) -> float | None:
        """The share of right labels among those scored; None before the end."""
        return None if not self.scored or self.wrong is None else 1 - self.wrong / self.scored

    @property
    def clean_ratio_text(self) -> str:
        """The clean ratio with its band, and why that is wide if it is; empty before the end."""
        if self.clean_ratio is None:
            return ""
        if self.clean_band is None:
            return f"{self.clean_ratio:.2f}"
        low, high = self.clean_band
        text = f"{self.clean_ratio:.2f} ({low:.2f} to {high:.2f})"
        return f"{text}: {OPEN}" if high - low > WIDE else text

    def begun(self, device: torch.device | str = "cpu") -> RunMetadata:
        """Return a copy with the present time and the installed versions, and without results."""
        return replace(
            self,
            versions=versions_here(torch.device(device)),
            started=now(),
            ended=None,
            scored=None,
            wrong=None,
            clean_band=None,
        )


def now() -> str:
    """Return the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def band_or_none(value: Any) -> tuple[float, float] | None:
    """Return the two ends of a band, if that is what it is."""
    ends = [x for x in as_list(value) if isinstance(x, int | float) and 0 <= x <= 1]
    return (ends[0], ends[1]) if len(ends) == 2 else None


def write_metadata(folder: Path, metadata: RunMetadata) -> None:
    """Write metadata into a run's folder, in place of an older file."""
    content = json.dumps(asdict(metadata), indent=1, default=str) + "\n"
    write_atomically(folder / RunFiles.metadata, content.encode())


def read_metadata(folder: Path) -> RunMetadata:
    """Read the metadata of a run; what is absent or malformed is empty."""
    try:
        found = json.loads((folder / RunFiles.metadata).read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return RunMetadata()
    if not isinstance(found, dict):
        return RunMetadata()
    ended = found.get("ended")
    return RunMetadata(
        name=str(found.get("name") or ""),
        classes=tuple(str(name) for name in as_list(found.get("classes"))),
        input_shape=tuple(n for n in as_list(found.get("input_shape")) if isinstance(n, int)),
        columns=tuple(str(name) for name in as_list(found.get("columns"))),
        slots=int_or_none(found.get("slots")),
        settings=as_dict(found.get("settings")),
        versions=as_dict(found.get("versions")),
        started=str(found.get("started") or ""),
        ended=ended if ended in get_args(End) else None,
        source=str(found.get("source") or ""),
        digest=str(found.get("digest") or ""),
        scored=int_or_none(found.get("scored")),
        wrong=int_or_none(found.get("wrong")),
        clean_band=band_or_none(found.get("clean_band")),
        max_classes=int_or_none(found.get("max_classes")),
        options=as_dict(found.get("options")),
    )


def as_list(value: object) -> list[Any]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_dict(value: object) -> dict[str, Any]:
    """Return an object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}
