"""Records that hold an image, or the path of one."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tamis.sources.protocol import BadRecordError, SourceError
from tamis.sources.rows import Row, cell, id_of, label_of, number_classes

MODES = {"grey": "L", "colour": "RGB"}


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
    """

    column: str
    label: str
    classes: Sequence[Any] | int
    size: tuple[int, int]
    colours: str = "colour"
    folder: Path | None = None
    id: str | None = None
    most_pixels: int = 50_000_000

    def __post_init__(self) -> None:
        if self.colours not in MODES:
            raise ValueError(f"colours is one of {', '.join(MODES)}, got {self.colours!r}.")
        try:
            import PIL.Image  # noqa: F401
        except ImportError:
            raise SourceError("Images need pillow: pip install 'tamis[images]'.") from None

    def __call__(self, record: Any) -> Row:
        """Return the image of one record."""
        return Row(
            self._decode(self._bytes(cell(record, self.column))),
            label_of(record, self.label, self._numbers),
            *id_of(record, self.id),
        )

    def _bytes(self, value: Any) -> io.BytesIO | Path:
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
                raise BadRecordError("picture is no base64", str(error)) from None
        try:
            path = (self.folder / value).resolve()
            inside = path.is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError):  # too long a name, or a null in it
            inside = False
        if not inside:
            raise BadRecordError("no such picture in the folder", value[:200])
        return path

    def _decode(self, file: io.BytesIO | Path) -> np.ndarray:
        from PIL import Image

        height, width = self.size
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd metadata, and of what is refused here
                with Image.open(file) as stored:
                    if stored.width * stored.height > self.most_pixels:
                        raise BadRecordError("picture too large", f"{stored.width}x{stored.height}")
                    picture = stored.convert(MODES[self.colours])
                    if picture.size != (width, height):
                        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
                    pixels = np.asarray(picture, np.float32) / 255
        except BadRecordError:
            raise
        except Exception as error:  # decoders raise what they like on damaged files
            raise BadRecordError(
                "picture not decoded", f"{type(error).__name__}: {error}"
            ) from None
        return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return number_classes(self.classes)
