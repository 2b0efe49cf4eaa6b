"""The folder of a run: whether it is free, can be resumed, and which process has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tamis.checkpoint import Checkpoints, locked
from tamis.errors import TamisError
from tamis.runs import RunFiles


class FolderInUseError(TamisError):
    """A folder that holds a run already, or that another process trains in."""


def has_checkpoint(folder: Path) -> bool:
    """Return whether a folder holds a run that can be resumed."""
    return bool(Checkpoints(folder / RunFiles.checkpoints).generations())


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Raise where another run has the folder; else have it until the end, or until a crash."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / RunFiles.lock, wait=False))
        except BlockingIOError:
            raise FolderInUseError(
                f"Another process trains in {folder}: wait for its end, or choose another folder."
            ) from None
        yield


def check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise where a run would be replaced by mistake, or is in progress."""
    if resume and overwrite:
        raise FolderInUseError("A run is either resumed or overwritten: choose one of the two.")
    place = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not place.is_dir():
        raise FolderInUseError(f"{place} is a file, not a folder: choose another.")
    if (folder / RunFiles.log).exists() and not (resume or overwrite):
        raise FolderInUseError(
            f"{folder} holds a run already: choose another folder, or resume or overwrite the run."
        )
    if (folder / RunFiles.lock).exists():
        with lock_folder(folder):
            pass
