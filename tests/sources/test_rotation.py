"""Files that are held open, so that what is written to a removed one is still read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from tamis.sources import rotation
from tamis.sources.rotation import Held


def test_no_more_files_are_held_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rotation.MOST_HELD == 128  # as docs/sources.md has it
    monkeypatch.setattr(rotation, "MOST_HELD", 2)
    held, inodes = Held(), {}

    def matches(_: BinaryIO) -> bool:
        return True

    for name in "abc":
        path = tmp_path / name
        path.write_text(name)
        with path.open("rb") as file:
            held.add(name, file)
        inodes[name] = path.stat().st_ino
        path.unlink()
    assert held.open("a", inodes["a"], matches) is None  # the first made way
    for name in "bc":
        file = held.open(name, inodes[name], matches)
        assert file is not None
        with file:
            assert file.read() == name.encode()
    assert held.open("b", inodes["c"], matches) is None  # another file has the name now
    assert held.open("c", inodes["c"], lambda _: False) is None  # it was cut since
    held.close()
    assert held.open("b", inodes["b"], matches) is None
