"""Files of pictures: found, measured and decoded, to one size and one number of colours."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tamis.sources.protocol import BadRecordError, SourceError

MODES = {"grey": "L", "colour": "RGB"}
MOST_PIXELS = 50_000_000
"""Pixels of a picture that is decoded at all; of a JPEG, after it was reduced."""
ENDINGS = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif",
     ".ppm", ".pgm", ".pbm", ".pnm", ".ico", ".tga", ".jp2")
)  # fmt: skip
ORIENTATION, TRANSPOSED = 0x0112, (5, 6, 7, 8)
"""The EXIF field of a photo's orientation, and those values of it that swap height and width."""
NO_PICTURE, NOT_FOUND, NOT_DECODED, TOO_LARGE = (
    "no picture",
    "no file of a picture",
    "picture not decoded",
    "picture too large",
)

File = io.BytesIO | Path


@runtime_checkable
class StoredPicture(Protocol):
    """A picture in a data set, loaded when it is needed."""

    def load(self) -> Any:
        """Return bytes, a path, or a mapping with one of these."""


class Header(NamedTuple):
    """Height and width as a viewer shows them, and whether a picture has no colours."""

    height: int
    width: int
    grey: bool


class PictureFiles:
    """Where relative paths begin, and pixels that were decoded before, in so many bytes.

    What was decoded first is kept: tables are read from their start again and again.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = 0) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._decoded: dict[tuple[object, ...], np.ndarray] = {}

    def open(self, cell: Any) -> File:
        """Return bytes or the path of a file; raise where a cell names none."""
        if isinstance(cell, StoredPicture):
            cell = cell.load()
        if isinstance(cell, Mapping):
            cell = cell.get("bytes") or cell.get("path")
        if isinstance(cell, bytes | bytearray | memoryview):
            return io.BytesIO(cell)
        if not isinstance(cell, str | Path) or not str(cell).strip():
            raise BadRecordError(NO_PICTURE, "" if cell is None else type(cell).__name__)
        path = Path(cell if isinstance(cell, Path) else cell.strip())
        path = self.folder / path if self.folder else path
        try:
            found = path.is_file()
        except (OSError, ValueError):  # too long a name, or a null in it
            found = False
        if not found:
            raise BadRecordError(NOT_FOUND, str(cell)[:200])
        return path

    def pixels(self, cell: Any, size: tuple[int, int], colours: str) -> np.ndarray:
        """Return a picture as bytes, (channels, height, width)."""
        file = self.open(cell)
        if not self.most_bytes or not isinstance(file, Path):
            return decode(file, size, colours)
        about = file.stat()
        key = (file, about.st_mtime_ns, about.st_size, size, colours)
        if (known := self._decoded.get(key)) is not None:
            return known
        found = decode(file, size, colours)
        if (len(self._decoded) + 1) * found.nbytes <= self.most_bytes:
            self._decoded[key] = found
        return found


def check_pillow() -> None:
    """Raise in one sentence where Pillow is not installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise SourceError("Images need pillow: pip install 'tamis[images]'.") from None


@contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore what decoders warn of: odd metadata, and sizes that are refused here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def header_of(file: File) -> Header:
    """Return size and colours of a picture that is not decoded; raise where it is none."""
    from PIL import Image

    try:
        with Image.open(file) as stored:
            width, height = stored.size
            if stored.getexif().get(ORIENTATION) in TRANSPOSED:
                width, height = height, width
            return Header(height, width, is_grey(stored.mode))
    except Exception as error:  # decoders raise what they like on damaged files
        raise damage(error) from None


def decode(
    file: File, size: tuple[int, int], colours: str, most_pixels: int = MOST_PIXELS
) -> np.ndarray:
    """Return a picture as bytes, (channels, height, width), turned as its EXIF data asks.

    A JPEG that is far too large is reduced while it is decoded. Transparent parts become white.
    Raises where a picture is damaged, or too large to be decoded.
    """
    from PIL import Image, ImageOps

    height, width = size
    try:
        with Image.open(file) as stored:
            stored.draft(None, (2 * max(size),) * 2)
            if stored.width * stored.height > most_pixels:
                raise BadRecordError(TOO_LARGE, f"{stored.width}x{stored.height}")
            picture = with_mode(ImageOps.exif_transpose(stored), MODES[colours])
            if picture.size != (width, height):
                picture = picture.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.array(picture)  # a copy, which torch may write to
    except BadRecordError:
        raise
    except Exception as error:  # as above
        raise damage(error) from None
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def with_mode(picture: Any, mode: str) -> Any:
    """Return a picture in a mode of 8 bits, also one of 16 bits, of floats, or with an alpha."""
    from PIL import Image

    if picture.mode[0] in "IF":
        numbers = np.asarray(picture, np.float64)
        largest = numbers.max(initial=0)
        full = 1.0 if picture.mode == "F" and largest <= 1 else 255.0 if largest <= 255 else 65535.0
        scaled = 255 * numbers / (full if picture.mode != "I;16" else 65535.0)
        picture = Image.fromarray(np.nan_to_num(scaled).clip(0, 255).astype(np.uint8))
    elif picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        ground = Image.new("RGBA", picture.size, "white")
        ground.alpha_composite(picture.convert("RGBA"))
        picture = ground
    return picture.convert(mode)


def is_grey(mode: str) -> bool:
    """Return whether a mode of Pillow has no colours."""
    return mode in ("1", "L", "LA", "La", "F") or mode[0] == "I"


def damage(error: Exception) -> BadRecordError:
    """Return the error of a picture that could not be decoded."""
    if type(error).__name__ == "UnidentifiedImageError":  # whose text has a path, or an address
        return BadRecordError(NOT_DECODED, "the format is unknown")
    return BadRecordError(NOT_DECODED, f"{type(error).__name__}: {error}"[:200])
