"""Data sets of Hugging Face, from the hub or from a folder, as tables."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tamis.sources.schema.cells import Cells, listed
from tamis.sources.schema.frames import as_cells
from tamis.sources.table_blocks import Block
from tamis.sources.validation import BadInputError

PREFIX = "hf:"
FIRST_SPLIT = "train"
LIBRARIES = ("huggingface_hub", "datasets", "transformers")
MARKS = ("dataset_info.json", "state.json", "dataset_dict.json")
"""Files of a folder that `save_to_disk` wrote."""


@dataclass(frozen=True, eq=False)
class LazyPicture:
    """A picture in a data set, which is loaded when it is needed."""

    data: Any
    column: str
    row: int

    def load(self) -> Any:
        """Return a mapping with the bytes or the path of the picture."""
        return self.data[self.row][self.column]

    def __str__(self) -> str:
        return f"{self.column} {self.row}"


@dataclass(frozen=True)
class HuggingFaceTable:
    """A data set of the library `datasets`: rows are read where they lie, on the disk.

    The names of a `ClassLabel` are its cells. Pictures are columns of kind image.
    """

    data: Any
    name: str

    @property
    def folder(self) -> Path | None:
        """Where relative paths begin: here."""
        return None

    @property
    def id(self) -> str | None:
        """No column is known to identify rows."""
        return None

    @cached_property
    def label(self) -> str | None:
        """The column of classes, where there is one only."""
        found = [name for name, feature in self.data.features.items() if has_names(feature)]
        return found[0] if len(found) == 1 else None

    @property
    def kinds(self) -> Mapping[str, str]:
        """Kinds that the data set declares."""
        declared = {}
        for name, feature in self.data.features.items():
            if has_names(feature):
                declared[name] = "category"
            elif is_image(feature):
                declared[name] = "image"
        return declared

    @property
    def notes(self) -> list[str]:
        """Nothing is found out that the data set does not declare."""
        return []

    @cached_property
    def digest(self) -> str:
        """Checksum of the content, as `datasets` keeps it."""
        about = [self.data._fingerprint, len(self.data), self.data.column_names]
        return sha256(json.dumps(about).encode()).hexdigest()

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield all rows in order, so many at a time."""
        for start in range(0, max(len(self.data), 1), size):
            yield self.take(range(start, min(start + size, len(self.data))))

    def take(self, rows: Sequence[int]) -> Block:
        """Return these rows."""
        read = self._readable.with_format("arrow")[list(rows)]
        columns = {name: self._cells(name, read, rows) for name in self.data.column_names}
        return Block(columns, list(rows), [])

    @cached_property
    def _readable(self) -> Any:
        """The data set without its pictures, which are loaded one at a time."""
        return self.data.remove_columns(list(self._pictures))

    @cached_property
    def _pictures(self) -> dict[str, Any]:
        from datasets import Image

        pictures = [name for name, kind in self.kinds.items() if kind == "image"]
        found = self.data.select_columns(pictures)
        for name in pictures:
            found = found.cast_column(name, Image(decode=False))
        return {name: found.with_format(None).select_columns([name]) for name in pictures}

    def _cells(self, name: str, read: Any, rows: Sequence[int]) -> Cells:
        if name in self._pictures:
            return [LazyPicture(self._pictures[name], name, row) for row in rows]
        cells = as_cells(read[name])
        feature = self.data.features[name]
        if not has_names(feature):
            return cells
        return [None if cell is None or cell < 0 else feature.names[int(cell)] for cell in cells]


def is_saved(path: Path) -> bool:
    """Return whether a folder is a data set that was saved to disk."""
    return any((path / mark).is_file() for mark in MARKS)


def open_saved(path: Path) -> HuggingFaceTable:
    """Return the data set in a folder; of several splits the one for training."""
    datasets = library()
    try:
        found = datasets.load_from_disk(str(path))
    except Exception as error:  # damaged files raise what they like
        raise BadInputError(f"{path} is not a readable data set: {short(error)}") from None
    name = path.resolve().name
    return HuggingFaceTable(*one_split(found, name, f"name its folder, as {path}/test"))


def open_from_hub(address: str) -> HuggingFaceTable:
    """Return a data set by its name, as hf:user/name?config=c&split=s."""
    datasets = library()
    name, _, query = address.removeprefix(PREFIX).partition("?")
    given = {key: values[-1] for key, values in parse_qs(query).items()}
    unknown = set(given) - {"config", "split"}
    if not name or unknown:
        raise BadInputError(f"{address}: a data set is hf:NAME?config=CONFIG&split=SPLIT.")
    try:
        with quiet():
            found = datasets.load_dataset(name, given.get("config"), split=given.get("split"))
    except Exception as error:  # of the network, of the hub, of files
        raise BadInputError(f"{address} cannot be loaded: {short(error)}") from None
    return HuggingFaceTable(*one_split(found, name, f"name it, as {PREFIX}{name}?split=test"))


def one_split(found: Any, name: str, how: str) -> tuple[Any, str]:
    """Return one data set and its name; raise where there are several and none is `train`."""
    if not isinstance(found, Mapping):
        return found, name
    split = FIRST_SPLIT if FIRST_SPLIT in found else next(iter(found)) if len(found) == 1 else None
    if split is None:
        raise BadInputError(f"{name} has the splits {listed(found)}: {how}.")
    return found[split], f"{name} ({split})"


def library() -> Any:
    """Return the library, without progress bars; raise where it is not installed."""
    try:
        import datasets
    except ImportError:
        raise BadInputError("Data sets of Hugging Face need: pip install 'tamis[hf]'.") from None
    datasets.disable_progress_bars()
    return datasets


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings of the libraries of Hugging Face from the screen: an error has them, too."""
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def has_names(feature: Any) -> bool:
    """Return whether a feature is a `ClassLabel` with names."""
    return type(feature).__name__ == "ClassLabel" and bool(feature.names)


def is_image(feature: Any) -> bool:
    """Return whether a feature is an `Image`."""
    return type(feature).__name__ == "Image"


def short(error: Exception) -> str:
    """Return the first sentence of an error, on one line."""
    return " ".join(str(error).split()).partition(". ")[0][:200] or type(error).__name__
