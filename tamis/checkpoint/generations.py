"""Checkpoints of a run: a folder of generations, the newest two kept, each complete or absent."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from tamis.checkpoint.block_files import BlockFiles, blank_blocks
from tamis.checkpoint.blocks import HeldBlocks
from tamis.checkpoint.files import (
    DamagedFileError,
    Seal,
    check_seal,
    make_folder,
    open_plain,
    parse,
    read_bounded,
    sync_folder,
    write_synced,
)
from tamis.checkpoint.manifest import (
    MANIFEST,
    SEAL,
    STATE,
    TENSORS,
    Manifest,
    depends_on,
    differences,
    read_manifest,
    seal_text,
    versions,
    write_manifest,
)
from tamis.checkpoint.packing import (
    PLACES,
    SUMS,
    State,
    blanks,
    encode_tensors,
    named_tensors,
    pack,
    read_header,
    read_tensors,
    unpack,
)
from tamis.checkpoint.parts import get_state, set_state
from tamis.errors import TamisError

KEPT = 2
"""Generations kept: should the newest turn out damaged, there is one before it."""
UNFINISHED = ".part"
HELD = "/run/buffer/rows/inputs"
"""Name of the tensor that holds the inputs of a trainer's buffer."""
META = torch.device("meta")
MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that loading a state of another run may raise."""


class NotSavedError(TamisError):
    """A checkpoint that could not be written. Those from before are as they were."""


class RefusedError(TamisError, ValueError):
    """A checkpoint that a run must not resume from, in one sentence."""


class MismatchError(RefusedError):
    """A checkpoint of other settings or another machine: resuming would give other numbers."""


class DamagedCheckpointWarning(UserWarning):
    """A generation was skipped: it is not what was written."""


class Restored(NamedTuple):
    """What a run was resumed from: the generation, the next slot, the source's offset."""

    generation: int
    slot: int
    offset: Any


class Resumable(Protocol):
    """A run that can be saved, as a `Trainer` is."""

    slots: int
    device: torch.device

    @property
    def sound(self) -> bool:
        """Whether the last step was taken; a run that may be diverging is not to be saved."""
        ...

    def settings(self) -> dict[str, Any]:
        """Return all fixed settings that the numbers depend on."""
        ...

    def state_dict(self) -> State:
        """Return all that changes."""
        ...

    def check(self, state: State) -> None:
        """Raise where a state does not fit. Its tensors may be blank: only shapes are known."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Continue from a state."""
        ...


class Checkpoints:
    """Saves a run into a folder and restores it, bit for bit as if it had never stopped.

    A generation is a folder that appears complete, by one rename, once the disk has all of it:
    tensors, the rest as JSON, and a manifest with the size and SHA-256 of both. When `save`
    returns, the generation is safe, and the source may be acknowledged. `settings` are the
    caller's own; like the trainer's, they must be the same when the run is resumed. One process
    at a time writes to a folder.

        checkpoints = Checkpoints(Path("run/checkpoints"))
        for slot in trainer.run(stream):
            if slot.number % 1000 == 999:
                checkpoints.save(trainer, offset=slot.number + 1)

    `failed` counts saves that failed; `damaged` has the generations that could not be read, and
    why.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = Path(folder)
        self.settings = dict(settings or {})
        self.failed = 0
        self.damaged: dict[int, str] = {}
        self._blocks = BlockFiles(self.folder)

    def save(
        self, run: Resumable, offset: Any = None, others: Mapping[str, object] | None = None
    ) -> int:
        """Write a generation, and return its number once it is safe; raise `NotSavedError` if not.

        `offset` is JSON from which the source continues. `others` are further parts that
        remember something, by name: a scheduler of torch, a monitor.
        """
        if not run.sound:
            self.failed += 1
            raise NotSavedError("The last step was skipped: the checkpoint from before it is kept.")
        named: dict[str, Tensor | HeldBlocks] = {}
        try:
            parts = {name: get_state(part) for name, part in (others or {}).items()}
            packed = pack({"run": run.state_dict(), "others": parts}, named)
            tensors = self._blocks.save(named, [*map(self._path, self.generations())])
            manifest = Manifest(run.slots, offset, self._settings(run), versions(run.device), {})
            return self._write(manifest, json.dumps(packed, allow_nan=False).encode(), tensors)
        except OSError as error:
            self.failed += 1
            raise NotSavedError(
                f"No checkpoint in {self.folder}: {error.strerror or error}."
            ) from error

    def load(
        self,
        run: Resumable,
        others: Mapping[str, object] | None = None,
        allow_mismatch: bool = False,
    ) -> Restored:
        """Restore the newest generation that is as it was written, and return its slot and offset.

        Where it raises, the run may be half filled, and is not to be trained on.
        """
        for number in reversed(self.generations()):
            try:
                return self._restore(number, run, others or {}, allow_mismatch)
            except DamagedFileError as error:
                self.damaged[number] = str(error)
                text = f"Checkpoint {number} in {self.folder} is damaged: {error}."
                warnings.warn(text, DamagedCheckpointWarning, stacklevel=2)
        if not self.damaged:
            raise RefusedError(f"{self.folder} holds no checkpoint.")
        reasons = "; ".join(f"{number}: {why}" for number, why in self.damaged.items())
        raise RefusedError(f"No checkpoint in {self.folder} can be read ({reasons}).")

    def read_offset(self) -> Any:
        """Return the offset of the newest generation that can be read, None where there is none."""
        newest = self._newest()
        return newest and newest.offset

    def read_settings(self) -> dict[str, Any]:
        """Return the settings of the newest generation that can be read."""
        newest = self._newest()
        return dict(newest.settings) if newest else {}

    def read_held(self, most: int) -> Tensor | None:
        """Return inputs of the first rows held in the newest generation, None where there are none.

        They are not checked against their seal: for a look at what the rows are like.
        """
        from safetensors import SafetensorError, safe_open

        for number in reversed(self.generations()):
            folder = self._path(number)
            with (
                suppress(SafetensorError, DamagedFileError, LookupError, OSError),
                safe_open(folder / TENSORS, framework="pt") as file,
            ):
                if HELD + PLACES not in file.keys():  # noqa: SIM118
                    found: Tensor = file.get_slice(HELD)[:most]
                    return found
                tables = {HELD + part: file.get_tensor(HELD + part) for part in (PLACES, SUMS)}
                rows = read_state(folder)["run"]["buffer"]["rows"]
                return self._blocks.open(rows, tables)[HELD].read(most)
        return None

    def generations(self) -> list[int]:
        """List the generations there, oldest first, damaged or not."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(int(path.name) for path in paths if is_generation(path.name))

    def clear(self) -> None:
        """Remove all generations."""
        for number in self.generations():
            self._remove(number)
        self._tidy()
        self._blocks.clear()
        self._blocks = BlockFiles(self.folder)  # whatever was saved there is gone

    def _newest(self) -> Manifest | None:
        for number in reversed(self.generations()):
            with suppress(DamagedFileError, OSError):
                return read_manifest(self._path(number))
        return None

    def _write(self, manifest: Manifest, text: bytes, tensors: dict[str, Tensor]) -> int:
        make_folder(self.folder)
        self._tidy()
        before = self.generations()
        number = max(before, default=0) + 1
        part = self._path(number, UNFINISHED)
        try:
            part.mkdir(0o700)  # it holds rows, as private as the data
            files = {
                TENSORS: write_synced(part / TENSORS, encode_tensors(tensors)),
                STATE: write_synced(part / STATE, [text]),
            }
            content = write_manifest(manifest._replace(files=files))
            write_synced(part / MANIFEST, [content])
            write_synced(part / SEAL, [seal_text(content)])
            sync_folder(part)
            part.rename(self._path(number))
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(self.folder)
        good = [older for older in before if older not in self.damaged]
        for older in set(before) - set(good[1 - KEPT :]):
            with suppress(OSError):  # the new one is safe, and the next save tries again
                self._remove(older)
        return number

    def _restore(
        self, number: int, run: Resumable, others: Mapping[str, object], allow_mismatch: bool
    ) -> Restored:
        folder = self._path(number)
        if folder.is_symlink() or not folder.is_dir():
            raise DamagedFileError("it is not a folder")
        manifest = read_manifest(folder)
        packed = read_state(folder, manifest.files[STATE])
        with open_plain(folder / TENSORS) as file, refusing(number):
            check_seal(TENSORS, file, manifest.files[TENSORS])
            entries = read_header(TENSORS, file)
            if sorted(named_tensors([packed])) != sorted(entries):
                raise DamagedFileError(f"{STATE} and {TENSORS} name different tensors")
            if not allow_mismatch:
                self._compare(manifest, run)
            run.check(unpack(packed, blanks(entries) | blank_blocks(packed), META)["run"])
            tensors = read_tensors(file)
            rows = self._blocks.open(packed, tensors)
            state = unpack(packed, tensors | rows, run.device)
            run.load_state_dict(state["run"])
            for name, part in others.items():
                set_state(name, part, state["others"][name])
        return Restored(number, manifest.slot, manifest.offset)

    def _compare(self, manifest: Manifest, run: Resumable) -> None:
        """Raise where a run of this checkpoint would have continued with other numbers."""
        here = json.loads(json.dumps(self._settings(run)))  # a tuple, for one, comes back as a list
        places = (depends_on(place) for place in (manifest.versions, versions(run.device)))
        found = differences(manifest.settings, here) + differences(*places)
        if found:
            raise MismatchError(f"Going on would give other numbers: {'; '.join(found)}.")

    def _settings(self, run: Resumable) -> dict[str, Any]:
        return run.settings() | self.settings

    def _path(self, number: int, ending: str = "") -> Path:
        return self.folder / f"{number:08d}{ending}"

    def _remove(self, number: int) -> None:
        """Remove a generation so that a crash leaves no part of it under its name."""
        part = self._path(number, UNFINISHED)
        self._path(number).rename(part)
        shutil.rmtree(part, ignore_errors=True)

    def _tidy(self) -> None:
        """Remove what a crash has left unfinished."""
        for path in self.folder.glob(f"*{UNFINISHED}"):
            if is_generation(path.name.removesuffix(UNFINISHED)):
                shutil.rmtree(path, ignore_errors=True)


def is_generation(name: str) -> bool:
    """Return whether a folder of this name is a generation."""
    return name.isascii() and name.isdecimal() and name == f"{int(name):08d}"


def read_state(folder: Path, seal: Seal | None = None) -> Any:
    """Return the packed state of a generation; with a seal, it is checked."""
    with open_plain(folder / STATE) as file:
        if seal:
            check_seal(STATE, file, seal)
        return parse(STATE, read_bounded(STATE, file))


@contextmanager
def refusing(number: int) -> Iterator[None]:
    """Raise one sentence for any error of a state that does not fit the run."""
    try:
        yield
    except (DamagedFileError, RefusedError):
        raise
    except MISFITS as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise RefusedError(f"Checkpoint {number} does not fit this run ({why}).") from error
