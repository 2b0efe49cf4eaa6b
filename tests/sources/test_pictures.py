"""Files of pictures: turned, reduced, of any mode; what is damaged is named."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tamis.sources import BadRecordError
from tamis.sources.pictures import PictureFiles, decode, header_of

COLOURS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5


def save(picture: Any, kind: str = "PNG", **settings: Any) -> io.BytesIO:
    file = io.BytesIO()
    picture.save(file, kind, **settings)
    file.seek(0)
    return file


def test_the_orientation_of_a_photo_is_applied() -> None:
    """A camera held upright writes the same pixels and a field that asks for a turn."""
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, :8] = 250
    exif = Image.Exif()
    exif[0x0112] = 6
    file = save(Image.fromarray(pixels), exif=exif)
    assert header_of(file)[:2] == (16, 8)
    found = decode(file, (16, 8), "grey")[0]
    assert found[:8].min() == 250
    assert found[8:].max() == 0


def test_what_is_transparent_is_white() -> None:
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[2:, :, 3] = 255  # the lower half is black, the upper half is not there
    found = decode(save(Image.fromarray(pixels)), (4, 4), "colour")
    assert found[:, :2].min() == 255
    assert found[:, 2:].max() == 0


def test_pictures_of_16_bits_keep_their_greys() -> None:
    pixels = np.linspace(0, 65535, 16).reshape(4, 4).astype(np.uint16)
    found = decode(save(Image.fromarray(pixels)), (4, 4), "grey")
    assert np.abs(found[0] - pixels / 257).max() <= 1


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "LA", "F", "I"])
def test_every_mode_is_decoded(mode: str) -> None:
    picture = Image.fromarray(COLOURS).convert("L").convert(mode)
    kind = "TIFF" if mode in ("CMYK", "F", "I") else "PNG"
    for colours, channels in (("grey", 1), ("colour", 3)):
        found = decode(save(picture, kind), (6, 5), colours)
        assert found.shape == (channels, 6, 5)
        assert found.dtype == np.uint8
        assert found.flags.writeable


def test_a_large_photo_is_reduced_while_it_is_decoded() -> None:
    """Whose pixels would be too many otherwise; a PNG of that size is refused."""
    picture = Image.new("RGB", (4000, 3000), (200, 100, 50))
    jpeg = decode(save(picture, "JPEG"), (32, 32), "colour", most_pixels=1_000_000)
    assert np.abs(jpeg.reshape(3, -1).mean(axis=1) - (200, 100, 50)).max() < 3
    with pytest.raises(BadRecordError, match="too large: 4000x3000"):
        decode(save(picture), (32, 32), "colour", most_pixels=1_000_000)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "null", "folder", "absent", "number"])
def test_what_is_no_picture_is_named(tmp_path: Path, damage: str) -> None:
    cell: Any = "a.jpg"
    stored = save(Image.fromarray(COLOURS.repeat(20, 0).repeat(20, 1)), "JPEG").getvalue()
    contents = {"empty": b"", "text": b"hello", "cut": stored[: len(stored) // 2]}
    if damage in contents:
        (tmp_path / "a.jpg").write_bytes(contents[damage])
    elif damage == "null":
        cell = "a\0b.jpg"
    elif damage == "folder":
        (tmp_path / "a.jpg").mkdir()
    elif damage == "number":
        cell = 7
    with pytest.raises(BadRecordError, match=r"picture not decoded|no file of a picture|int"):
        PictureFiles(tmp_path).pixels(cell, (4, 4), "colour")


def test_pixels_are_kept_within_a_bound_until_the_file_changes(tmp_path: Path) -> None:
    for name in "ab":
        Image.fromarray(COLOURS).save(tmp_path / f"{name}.png")
    files = PictureFiles(tmp_path, most_bytes=48)
    first = files.pixels("a.png", (4, 4), "colour")
    assert files.pixels("a.png", (4, 4), "colour") is first
    assert files.pixels("b.png", (4, 4), "colour") is not files.pixels("b.png", (4, 4), "colour")
    Image.fromarray(255 - COLOURS).save(tmp_path / "a.png", compress_level=0)
    assert not np.array_equal(files.pixels("a.png", (4, 4), "colour"), first)
