"""A folder of pictures with a folder for each class, as a table; also single files."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tamis.sources.pictures import ENDINGS
from tamis.sources.schema import Schema
from tamis.sources.schema.cells import Cells, listed
from tamis.sources.table_blocks import Block
from tamis.sources.validation import BadInputError


class Names(NamedTuple):
    """Columns of the table: the path under the folder as id and as picture, and its class."""

    id: str = "file"
    picture: str = "file"
    label: str = "label"


SPLITS = frozenset(("train", "training", "test", "testing", "val", "valid", "validation", "dev"))
LEFT_OUT = frozenset(("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"))
"""What systems leave in folders, beside everything whose name begins with a dot."""


class PictureFolder:
    """The files of a folder, or one file; the class of each is the first folder on its path.

    Every file in the folder of a class is a row, whatever its ending: what is not a picture is
    rejected and named. Files that lie in no such folder have no label.
    """

    def __init__(self, path: Path, names: Names = Names()) -> None:  # noqa: B008
        self.folder: Path | None = path if path.is_dir() else path.parent
        self.name = path.resolve().name or str(path)
        self.label: str | None = names.label
        self.id: str | None = names.id
        self.kinds: Mapping[str, str] = {names.picture: "image"}
        self.notes: list[str] = []
        self._names, self._path = names, path
        self._files, others = listing(path) if path.is_dir() else ([path.name], [])
        if others:
            some = listed(others, 3)
            self.notes = [f"{len(others)} files are not pictures, and in no class: {some}"]
        if not self._files:
            raise BadInputError(f"{path} holds no picture.")

    def renamed(self, schema: Schema) -> PictureFolder:
        """Return the same files under the names that a schema has."""
        pictures = [column.name for column in schema.inputs if column.kind == "image"]
        plain = Names()
        return PictureFolder(
            self._path,
            Names(
                schema.id or plain.id,
                pictures[0] if pictures else plain.picture,
                schema.label or plain.label,
            ),
        )

    @cached_property
    def digest(self) -> str:
        """Checksum of the names and sizes of all files."""
        content = sha256()
        for name in self._files:
            size = ((self.folder or self._path) / name).stat().st_size
            content.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        return content.hexdigest()

    def check_classes(self) -> None:
        """Raise in one sentence where the folders in it are not classes."""
        classes = {label for label in map(class_of, self._files) if label}
        if not classes:
            raise BadInputError(
                f"{self._path} has pictures, but no folder for each class: make one for each, or"
                " name a table with a column of paths."
            )
        if {name.lower() for name in classes} <= SPLITS:
            names = sorted(classes)
            train = next((name for name in names if name.lower().startswith("train")), names[0])
            raise BadInputError(
                f"{self._path} holds {listed(names)}, which are not classes: train on"
                f" {self._path / train}, and name another by --test."
            )

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield all files in order, so many at a time."""
        for start in range(0, len(self._files), size):
            yield self.take(range(start, min(start + size, len(self._files))))

    def take(self, rows: Sequence[int]) -> Block:
        """Return these files."""
        files = [self._files[row] for row in rows]
        labels = [class_of(file) for file in files]
        cells: list[Cells] = [files, files, labels]
        return Block(dict(zip(self._names, cells, strict=True)), list(rows), [])


def class_of(file: str) -> str | None:
    """Return the first folder of a path; None for a file that lies in none."""
    folder, slash, _ = file.partition("/")
    return folder if slash else None


def listing(path: Path) -> tuple[list[str], list[str]]:
    """Return the files of all classes and the pictures of none, then other files of none.

    Links are followed, each folder is read once.
    """
    found: list[str] = []
    others: list[str] = []
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(path, followlinks=True):
        about = Path(folder).stat()
        if (about.st_dev, about.st_ino) in seen:
            folders.clear()
            continue
        seen.add((about.st_dev, about.st_ino))
        folders[:] = sorted(name for name in folders if is_content(name))
        within = Path(folder).relative_to(path)
        for name in filter(is_content, files):
            file = (within / name).as_posix()
            kept = within.parts or Path(name).suffix.lower() in ENDINGS
            (found if kept else others).append(file)
    return sorted(found), sorted(others)


def is_content(name: str) -> bool:
    """Return whether a user put a file there, not a system."""
    return not name.startswith(".") and name not in LEFT_OUT
