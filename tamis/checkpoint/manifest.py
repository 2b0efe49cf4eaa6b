"""The manifest of a generation: its files, and all that its numbers depend on."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tamis.checkpoint.files import DamagedFileError, Seal, open_plain, parse, read_bounded

FORMAT = 1
TENSORS, STATE = "tensors.safetensors", "state.json"
MANIFEST, SEAL = "manifest.json", "manifest.sha256"
NUMBERS_DEPEND_ON = ("tamis", "torch", "numpy", "machine", "instructions", "device", "threads")
"""Of the versions of a run. Another Python, for one, changes no number."""
LISTED, SHORT = 8, 60
"""Differences listed, and characters of each side of one."""


class Manifest(NamedTuple):
    """The slot and offset of a run, its settings and versions, and its files."""

    slot: int
    offset: Any
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]
    files: Mapping[str, Seal]


def write_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as JSON."""
    files = {name: seal._asdict() for name, seal in manifest.files.items()}
    about = {"format": FORMAT, **manifest._asdict(), "files": files}
    return json.dumps(about, indent=1, allow_nan=False).encode()


def seal_text(manifest: bytes) -> bytes:
    """Return the checksum of a manifest as `sha256sum -c` reads it."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a generation. File names in it are compared, never opened."""
    with open_plain(folder / MANIFEST) as file:
        content = read_bounded(MANIFEST, file)
    with open_plain(folder / SEAL) as file:
        if read_bounded(SEAL, file) != seal_text(content):
            raise DamagedFileError(f"{MANIFEST} is not what was written: its SHA-256 differs")
    about = parse(MANIFEST, content)
    try:
        kind = about.pop("format")
        files = {name: Seal(**seal) for name, seal in about.pop("files").items()}
        manifest = Manifest(**about, files=files)
    except (AttributeError, KeyError, TypeError):
        raise DamagedFileError(f"{MANIFEST} has or lacks what none has or lacks") from None
    if kind != FORMAT:
        raise DamagedFileError(f"{MANIFEST} is of format {kind!r}, and this version reads {FORMAT}")
    if files.keys() != {TENSORS, STATE}:
        raise DamagedFileError(f"{MANIFEST} names other files than {TENSORS} and {STATE}")
    if type(manifest.slot) is not int or not all(
        isinstance(part, dict) for part in (manifest.settings, manifest.versions)
    ):
        raise DamagedFileError(f"{MANIFEST} holds nothing that can be compared")
    return manifest


def versions(device: torch.device) -> dict[str, Any]:
    """Return the versions and the machine that a run is computed with."""
    return {
        "tamis": sys.modules["tamis"].__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
    }


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return what differs, one text each."""
    found = []
    for name in {**there, **here}:
        was, now = repr(there.get(name)), repr(here.get(name))
        if was != now:
            pairs = enumerate(zip(was, now, strict=False))
            first = next((at for at, (one, other) in pairs if one != other), 0)
            name = ascii(name[:SHORT])[1:-1]  # it may come from an untrusted file
            found.append(f"{name} was {cut(was, first)} and is {cut(now, first)}")
    return found[:LISTED] + (["and more"] if len(found) > LISTED else [])


def cut(text: str, first: int) -> str:
    """Shorten text around the first character that matters."""
    start = 0 if len(text) <= SHORT else max(0, min(first - SHORT // 4, len(text) - SHORT))
    end = start + SHORT
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


def depends_on(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return the versions that numbers depend on."""
    return {name: place.get(name) for name in NUMBERS_DEPEND_ON}
