"""Named points of a slot, of a save and of a load at which a process can be made to die.

Nothing in tamis knows of them: in a process that is to die, its functions are wrapped.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tamis import Average, Plausible, Trainer, Validator
from tamis.buffers import BalancedReservoir
from tamis.checkpoint import Checkpoints, generations
from tamis.training.report import SlotReport
from tamis.training.step import Step


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Point(NamedTuple):
    """A function, and the moment of it: before, after, or half way through what it writes."""

    owner: Any
    function: str
    moment: str
    ending: str = ""
    """Of the first path that it is called with, if that matters."""


def both(name: str, owner: Any, function: str, ending: str = "") -> dict[str, Point]:
    return {
        f"{moment} {name}": Point(owner, function, moment, ending) for moment in ("before", "after")
    }


FILES = ("tensors.safetensors", "state.json", "manifest.json", "manifest.sha256")
SLOT = {
    **both("validator", Validator, "validate"),
    **both("append", BalancedReservoir, "append"),
    **both("select", Plausible, "select"),
    **both("step", Step, "__call__"),
    **both("average", Average, "update"),
    **both("picking and learning", Trainer, "_pick_and_learn"),
    **both("the report", SlotReport, "slot"),
}
SAVE = {
    **both("state", Trainer, "state_dict"),
    **both("tidying", Checkpoints, "_tidy"),
    **{
        name: point
        for file in FILES
        for name, point in both(f"writing {file}", generations, "write_synced", file).items()
    },
    **{f"half of {file}": Point(generations, "write_synced", "half", file) for file in FILES},
    **both("syncing the part", generations, "sync_folder", ".part"),
    **both("naming it", Path, "rename", ".part"),
    **both("syncing the folder", generations, "sync_folder", "checkpoints"),
    **both("removing the oldest", Checkpoints, "_remove"),
    "half of removing": Point(shutil, "rmtree", "half", ".part"),
}
LOAD = {
    **both("reading the manifest", generations, "read_manifest"),
    **both("checking seals", generations, "check_seal"),
    **both("reading tensors", generations, "read_tensors"),
    **both("loading", Trainer, "load_state_dict"),
}
POINTS = {**SLOT, **SAVE, **LOAD}


def arm(name: str, nth: int) -> None:
    """Let this process die at a point, the nth time that it comes by."""
    point = POINTS[name]
    original: Callable[..., Any] = getattr(point.owner, point.function)
    left = nth

    def wrapped(*given: Any, **named: Any) -> Any:
        nonlocal left
        path = next((part for part in given if isinstance(part, Path)), Path())
        if not path.name.endswith(point.ending):
            return original(*given, **named)
        left -= 1
        if left == 0 and point.moment == "before":
            die()
        if left == 0 and point.moment == "half":
            half(path, given)
        answer = original(*given, **named)
        if left == 0:
            die()
        return answer

    setattr(point.owner, point.function, wrapped)


def half(path: Path, given: tuple[Any, ...]) -> None:
    """Write, or remove, half of what there is, and die."""
    if path.is_dir():
        for file in sorted(path.iterdir())[:2]:
            file.unlink()
    else:
        content = b"".join(bytes(piece) for piece in given[1])
        path.write_bytes(content[: len(content) // 2])
    die()
