"""What a run was made of: settings, versions, classes, and whether it has ended."""

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
from tamis.runs.layout import RunFiles

End = Literal["done", "stopped", "diverged"]


@dataclass(frozen=True)
class RunMetadata:
    """A run as its page tells of it. What an older run did not write down is empty.

    `name` is what it was trained on, `columns` are the names of inputs of a table, `slots` how many
    were planned, `ended` how it came to its end; None while it goes on, or after a crash.
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

    def begun(self, device: torch.device | str = "cpu") -> RunMetadata:
        """Return it with the time, and with the versions that are here."""
        return replace(self, versions=versions_here(torch.device(device)), started=now())


def now() -> str:
    """Write the time down, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_metadata(folder: Path, about: RunMetadata) -> None:
    """Put it into the run's folder, in place of what was there."""
    content = json.dumps(asdict(about), indent=1, default=str) + "\n"
    write_atomically(folder / RunFiles.metadata, content.encode())


def read_metadata(folder: Path) -> RunMetadata:
    """Read what is there; a run without it, or with less of it, is no trouble."""
    try:
        found = json.loads((folder / RunFiles.metadata).read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return RunMetadata()
    if not isinstance(found, dict):
        return RunMetadata()
    slots, ended = found.get("slots"), found.get("ended")
    return RunMetadata(
        name=str(found.get("name") or ""),
        classes=tuple(str(name) for name in as_list(found.get("classes"))),
        input_shape=tuple(n for n in as_list(found.get("input_shape")) if isinstance(n, int)),
        columns=tuple(str(name) for name in as_list(found.get("columns"))),
        slots=slots if isinstance(slots, int) else None,
        settings=as_dict(found.get("settings")),
        versions=as_dict(found.get("versions")),
        started=str(found.get("started") or ""),
        ended=ended if ended in get_args(End) else None,
    )


def as_list(value: object) -> list[Any]:
    """Take a list for one, and anything else for an empty one."""
    return value if isinstance(value, list) else []


def as_dict(value: object) -> dict[str, Any]:
    """Take an object for one, and anything else for an empty one."""
    return value if isinstance(value, dict) else {}
