"""Checkpoints made by somebody who means harm: refused in a sentence, and nothing else happens.

Their checksums are right, so that damage is not what gives them away.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tamis.checkpoint import Checkpoints, RefusedError
from tests.support.faults.damage import two_generations
from tests.support.faults.row import Row
from tests.support.faults.runs import Chain, make_run

MOST_MEMORY = 40e6
"""Bytes that reading may take: that of the largest JSON there may be, twice, and some."""


OUTSIDE = "outside-"
"""Begins the names of files that nobody may open."""


class Payload:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.canary,))


class Forge:
    """A good generation, to be changed for the worse."""

    def __init__(self, folder: Path, canary: Path) -> None:
        self.folder = folder
        self.canary = canary

    def path(self, name: str) -> Path:
        return self.folder / name

    def manifest(self, **changes: Any) -> None:
        """Change the content of the manifest."""
        about = json.loads(self.path("manifest.json").read_text())
        self.raw_manifest(json.dumps(about | changes).encode())

    def raw_manifest(self, content: bytes) -> None:
        self.path("manifest.json").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        self.path("manifest.sha256").write_text(f"{digest}  manifest.json\n")

    def file(self, name: str, content: bytes) -> None:
        """Change a file, and make the manifest fit."""
        self.path(name).write_bytes(content)
        self.seal(name, content)

    def seal(self, name: str, content: bytes) -> None:
        about = json.loads(self.path("manifest.json").read_text())
        about["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.manifest(files=about["files"])

    def state(self, *path: Any, value: Any) -> None:
        """Change one place of the state."""
        tree = json.loads(self.path("state.json").read_text())
        place = tree
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        self.file("state.json", json.dumps(tree).encode())

    def tensor(self, name: str, shape: list[int], size: int | None = None) -> None:
        """Change the shape of a tensor; with a size, to one that has room but no data."""
        content = self.path("tensors.safetensors").read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        header[name]["shape"] = shape
        data = content[8 + length :]
        if size is not None:
            header[name]["data_offsets"] = [len(data), len(data) + size]
        text = json.dumps(header).encode()
        start = len(text).to_bytes(8, "little") + text + data
        self.path("tensors.safetensors").write_bytes(start)
        if size is None:
            self.seal("tensors.safetensors", start)
            return
        with self.path("tensors.safetensors").open("r+b") as file:
            file.truncate(len(start) + size)
        digest = hashlib.sha256(start)
        for _ in range(size // 2**20):
            digest.update(bytes(2**20))
        digest.update(bytes(size % 2**20))
        about = json.loads(self.path("manifest.json").read_text())
        seal = {"size": len(start) + size, "sha256": digest.hexdigest()}
        self.manifest(files=about["files"] | {"tensors.safetensors": seal})

    def outside(self, name: str) -> Path:
        """Return a copy of a file outside of the folder: whoever reads that finds no fault."""
        return Path(shutil.copy(self.path(name), self.canary.with_name(f"{OUTSIDE}{name}")))

    def link(self, name: str) -> None:
        target = self.outside(name)
        self.path(name).unlink()
        self.path(name).symlink_to(target)


def torch_file(canary: Path) -> bytes:
    out = BytesIO()
    torch.save({"weight": Payload(canary)}, out)
    return out.getvalue()


def pipe(forge: Forge, name: str) -> None:
    forge.path(name).unlink()
    os.mkfifo(forge.path(name))


def linked_folder(forge: Forge) -> None:
    elsewhere = forge.folder.rename(forge.folder.with_name("elsewhere"))
    forge.folder.symlink_to(elsewhere)


def folder_for_a_file(forge: Forge) -> None:
    forge.path("manifest.json").unlink()
    forge.path("manifest.json").mkdir()


def overlapping(forge: Forge) -> None:
    """Put two tensors in one place."""
    content = forge.path("tensors.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    one = header["/run/average/average/0.bias"]
    header["/run/model/0.bias"]["data_offsets"] = one["data_offsets"]
    text = json.dumps(header).encode()
    forge.file(
        "tensors.safetensors", len(text).to_bytes(8, "little") + text + content[8 + length :]
    )


def names(forge: Forge, name: str) -> None:
    about = json.loads(forge.path("manifest.json").read_text())
    files = about["files"]
    files[name] = files.pop("state.json")
    forge.manifest(files=files)


WEIGHT = "/run/model/0.weight"
ATTACKS: dict[str, Callable[[Forge], None]] = {
    "pickle for tensors": lambda f: f.file("tensors.safetensors", pickle.dumps(Payload(f.canary))),
    "pickle for the state": lambda f: f.file("state.json", pickle.dumps(Payload(f.canary))),
    "pickle for the manifest": lambda f: f.raw_manifest(pickle.dumps(Payload(f.canary))),
    "a file of torch.save": lambda f: f.file("tensors.safetensors", torch_file(f.canary)),
    "path traversal": lambda f: names(f, f"../../{f.outside('state.json').name}"),
    "an absolute path": lambda f: names(f, str(f.outside("state.json"))),
    "link for tensors": lambda f: f.link("tensors.safetensors"),
    "link for the state": lambda f: f.link("state.json"),
    "link for the manifest": lambda f: f.link("manifest.json"),
    "link for its checksum": lambda f: f.link("manifest.sha256"),
    "link for the folder": linked_folder,
    "pipe for the state": lambda f: pipe(f, "state.json"),
    "folder for the manifest": folder_for_a_file,
    "huge shape": lambda f: f.tensor(WEIGHT, [2**40, 2**20]),
    "shape that overflows": lambda f: f.tensor(WEIGHT, [2**63, 2**63, 2]),
    "negative shape": lambda f: f.tensor(WEIGHT, [-12, -4]),
    "header without end": lambda f: f.file("tensors.safetensors", b"\xff" * 64),
    "tensors in one place": overlapping,
    "more rows than fit": lambda f: f.tensor(
        "/run/buffer/rows/inputs", [2**24, 4], size=2**24 * 16
    ),
    "a weight of another shape": lambda f: f.tensor(WEIGHT, [2**13, 2**13], size=2**28),
    "deep JSON": lambda f: f.file("state.json", b"[" * 2_000_000),
    "huge JSON": lambda f: f.file("state.json", b'{"run": "' + b"x" * 2**25 + b'"}'),
    "text for a count": lambda f: f.state("run", "counters", "slots", value="evil"),
    "a tensor that is not there": lambda f: f.state("run", "model", value={"$tensor": "/nowhere"}),
    "generator that is none": lambda f: f.state(
        "run", "generators", "trainer", value={"$tensor": "/run/model/0.bias"}
    ),
    "a group of no weights": lambda f: f.state(
        "run", "optimizer", "param_groups", 0, "params", value=[99]
    ),
    "state that is a list": lambda f: f.file("state.json", b"[]"),
    "escape codes in settings": lambda f: f.manifest(settings={"\x1b[2J\n\n": "\x1b]0;evil\a"}),
}


class Allocated(TorchDispatchMode):
    """Notes the bytes of the largest tensor that takes memory; tracemalloc does not see them."""

    most = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                self.most = max(self.most, tensor.nbytes)
        return made


@cache
def opened() -> list[str]:
    """Return a list that gets the path of every file outside that is opened from now on."""
    paths: list[str] = []

    def note(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and OUTSIDE in str(given[0]):
            paths.append(str(given[0]))

    sys.addaudithook(note)
    return paths


def is_refused(folder: Path, attack: Callable[[Forge], None]) -> str:
    """Return what is wrong with how an attack ended, nothing where it did nothing at all."""
    canary = folder / "canary"
    two_generations(folder / "checkpoints")
    checkpoints = Checkpoints(folder / "checkpoints")
    for older in checkpoints.generations()[:-1]:
        checkpoints._remove(older)
    attack(Forge(folder / "checkpoints" / "00000002", canary))
    trainer, allocated = make_run(), Allocated()
    opened().clear()
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), allocated:
            warnings.simplefilter("ignore")
            checkpoints.load(trainer, {"chain": Chain()})
        wrong = "it was loaded"
    except RefusedError as error:
        message = str(error)
        wrong = "" if message.isprintable() and len(message) < 600 else f"it printed {message!r}"
    except BaseException as error:
        wrong = f"it raised {error!r}"
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if canary.exists():
        wrong = "its code was run"
    if opened():
        wrong = f"it opened {opened()}"
    most = max(most, allocated.most)
    return wrong or (f"it took {most:,} bytes" if most > MOST_MEMORY else "")


def hostile_checkpoints(folder: Path) -> Row:
    found = {}
    for name, attack in ATTACKS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()
        if wrong := is_refused(place, attack):
            found[name] = wrong
    detail = f"; {found}" if found else ""
    return Row(
        "hostile checkpoint (pickle, path traversal, links, huge shapes, huge JSON)",
        len(ATTACKS),
        len(ATTACKS) - len(found),
        f"{len(found)} of {len(ATTACKS)} do anything{detail}",
        "none, and refused before allocation",
        not found,
    )
