"""Records that hold an image, or the path of one."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.sources.class_numbers import ClassNumbers
from tamis.sources.pictures import MODES, MOST_PIXELS, check_pillow, decode, without_warnings
from tamis.sources.protocol import BadRecordError
from tamis.sources.rows import Row, cell, id_of, label_of


@dataclass(frozen=True)
class Images:
    """Turns records into images of one size, in floats from 0 to 1.

    A path that leads out of the folder is rejected, and so is an image of too many pixels, before
    it is decoded.

    Parameters
    ----------
    column: holds the bytes of a file, a mapping with `bytes` in it, or text: a path under
        `folder`, or base64 without one.
    label: column of the label.
    classes: class names in the order of their numbers, or how many there are.
    size: height and width.
    colours: "colour" or "grey".
    folder: where paths begin.
    id: column of the id.
    most_pixels: largest number of pixels.
    max_classes: most classes where other labels are new ones; None where there are no others.
    """

    column: str
    label: str
    classes: Sequence[Any] | int
    size: tuple[int, int]
    colours: str = "colour"
    folder: Path | None = None
    id: str | None = None
    most_pixels: int = MOST_PIXELS
    max_classes: int | None = None

    def __post_init__(self) -> None:
        if self.colours not in MODES:
            raise ValueError(f"colours is one of {', '.join(MODES)}, got {self.colours!r}.")
        check_pillow()

    def __call__(self, record: Any) -> Row:
        """Return the image of one record."""
        file = self._file(cell(record, self.column))
        with without_warnings():
            pixels = decode(file, self.size, self.colours, self.most_pixels)
        return Row(
            pixels.astype(np.float32) / 255,
            label_of(record, self.label, self.numbers),
            *id_of(record, self.id),
        )

    def _file(self, value: Any) -> io.BytesIO | Path:
        if isinstance(value, Mapping):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes | bytearray | memoryview):
            return io.BytesIO(value)
        if not isinstance(value, str):
            raise BadRecordError("no picture", type(value).__name__)
        if self.folder is None:
            try:
                return io.BytesIO(base64.b64decode(value.rpartition(",")[2], validate=True))
            except (binascii.Error, ValueError) as error:
                raise BadRecordError("picture is not base64", str(error)) from None
        try:
            path = (self.folder / value).resolve()
            inside = path.is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError):  # too long a name, or a null in it
            inside = False
        if not inside:
            raise BadRecordError("no such picture in the folder", value[:200])
        return path

    @cached_property
    def numbers(self) -> ClassNumbers:
        """The numbers of the classes by name."""
        return ClassNumbers(self.classes, self.max_classes)
