"""Pictures by bytes, by base64 and by path; hostile ones are refused."""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tamis.sources import BadRecordError, Images

PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5


def encode(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def images(**settings: Any) -> Images:
    return Images("image", "label", 10, **{"size": (4, 4)} | settings)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP", "JPEG"])
def test_bytes_become_channels_first(kind: str) -> None:
    row = images()({"image": encode(PIXELS, kind), "label": 3})
    assert row.label == 3
    assert row.input.shape == (3, 4, 4)
    assert row.input.dtype == np.float32
    if kind in ("PNG", "BMP"):
        assert np.array_equal(row.input, np.float32(PIXELS.transpose(2, 0, 1)) / 255)


def test_forms_of_bytes() -> None:
    raw = encode(PIXELS)
    text = base64.b64encode(raw).decode()
    forms = [
        raw,
        bytearray(raw),
        {"bytes": raw, "path": None},
        text,
        f"data:image/png;base64,{text}",
    ]
    rows = [images()({"image": form, "label": 0}).input for form in forms]
    assert all(np.array_equal(row, rows[0]) for row in rows)


def test_paths_are_taken_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.png").write_bytes(encode(PIXELS))
    row = images(folder=tmp_path)({"image": "deep/a.png", "label": 0})
    assert row.input.shape == (3, 4, 4)


def test_sizes_and_colours_are_made_identical() -> None:
    grey = np.zeros((9, 5), np.uint8)
    assert images(size=(6, 8))({"image": encode(grey), "label": 0}).input.shape == (3, 6, 8)
    assert images(colours="grey")({"image": encode(PIXELS), "label": 0}).input.shape == (1, 4, 4)
    with pytest.raises(ValueError, match="colours is one of grey, colour"):
        images(colours="pink")


def test_paths_that_lead_out_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(encode(PIXELS))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(folder / "pipe.png")
    paths = ["../secret.png", str(tmp_path / "secret.png"), "link.png", "pipe.png", "none.png", "."]
    for path in [*paths, "", "a" * 5000, "a\0b", "/dev/zero"]:
        with pytest.raises(BadRecordError) as caught:
            images(folder=folder)({"image": path, "label": 0})
        assert caught.value.reason in ("no such picture in the folder", "no picture")


def bomb(side: int) -> bytes:
    """A PNG whose header claims a huge picture."""

    def chunk(name: bytes, content: bytes) -> bytes:
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no picture",
        encode(PIXELS)[:40],
        encode(PIXELS).replace(b"IDAT", b"IDAX"),
        bomb(8_000),
        bomb(100_000),
        "not base64!",
        7,
        None,
        {},
    ],
)
def test_what_is_no_picture_is_refused(value: Any) -> None:
    with pytest.raises(BadRecordError):
        images()({"image": value, "label": 0})


def test_a_picture_too_large_is_refused_before_it_is_decoded() -> None:
    """Larger ones are refused by Pillow itself."""
    with pytest.raises(BadRecordError, match="picture too large"):
        images()({"image": bomb(8_000), "label": 0})
