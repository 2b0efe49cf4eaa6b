"""The preview of a row: a thumbnail, its columns, or its text."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

Preview = dict[str, Any]
"""One of `image` (a PNG in base64), `columns` (names to values) and `text`."""
Previewer = Callable[[Tensor], Preview]
LONGEST_SIDE = 96
"""Pixels of a thumbnail; larger pictures are subsampled."""
MOST_COLUMNS = 60
MOST_TEXT = 2000
LONGEST_CELL = 5000
"""Characters of a cell that are kept."""
COLOURS = (1, 3)


def previewer(input_shape: Sequence[int], columns: Sequence[str] = ()) -> Previewer:
    """Return what makes previews of inputs of a shape: pictures if possible, else columns."""
    if is_picture(input_shape):
        return preview_image
    return lambda row: preview_columns(row, columns)


def is_picture(shape: Sequence[int]) -> bool:
    """Return whether rows of this shape are pictures: height and width, with 1 or 3 colours.

    >>> is_picture((28, 28)), is_picture((3, 32, 32)), is_picture((64,))
    (True, True, False)
    """
    sides = tuple(shape[1:]) if len(shape) == 3 and shape[0] in COLOURS else tuple(shape)
    return len(sides) == 2 and min(sides) >= 4


def preview_image(row: Tensor) -> Preview:
    """Return a picture as a thumbnail."""
    return {"image": base64.b64encode(encode_png(row)).decode()}


def preview_columns(row: Tensor, columns: Sequence[str] = ()) -> Preview:
    """Return numbers by the names of their columns, or by their place."""
    values = row.detach().cpu().flatten()[:MOST_COLUMNS].tolist()
    names = list(columns) if len(columns) >= len(values) else [f"{at}" for at in range(len(values))]
    named = zip(names, values, strict=False)
    return {"columns": {name: float(f"{value:.5g}") for name, value in named}}


def preview_values(values: Mapping[str, str | None]) -> Preview:
    """Return readable values by the names of their columns; a missing one is None."""
    return {"columns": {name: shortened(value) for name, value in values.items()}}


def shortened(value: str | None) -> str | None:
    """Return a cell, its end cut off where it is longer than a page can show; None if empty."""
    if value is None or not value or value.isspace():
        return None
    return value if len(value) <= LONGEST_CELL else value[:LONGEST_CELL] + "…"


def preview_text(text: str) -> Preview:
    """Return the beginning of a text."""
    return {"text": text[:MOST_TEXT]}


def encode_png(picture: Tensor) -> bytes:
    """Encode a picture as PNG: (height, width) or (1 or 3, height, width), in [0, 1] or [0, 255].

    Numbers beyond both are scaled into the range. PNG is a few chunks around zlib, so that no
    library is needed.
    """
    pixels = to_bytes(picture.detach().cpu().float().numpy())
    height, width, colours = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    kind = 2 if colours == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in parts)


def chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG, with its length and checksum."""
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def to_bytes(numbers: np.ndarray) -> np.ndarray:
    """Return a picture as bytes, (height, width, colours)."""
    if numbers.ndim == 2:
        numbers = numbers[None]
    numbers = np.nan_to_num(numbers.transpose(1, 2, 0), posinf=0, neginf=0)
    step = -(-max(numbers.shape[:2]) // LONGEST_SIDE)
    numbers = numbers[::step, ::step]
    low, high = min(0.0, float(numbers.min())), float(numbers.max())
    if low < 0:
        numbers = (numbers - low) / max(high - low, 1e-9)
    elif high > 1:
        numbers = numbers / max(high, 255.0)
    return (255 * numbers).round().astype(np.uint8)
