"""Pictures that come within a record, as text."""

from __future__ import annotations

import io
from base64 import b64decode
from binascii import Error
from typing import Any

from tamis.sources.pictures import NO_PICTURE, File, PictureFiles
from tamis.sources.protocol import BadRecordError


class UploadedPictures(PictureFiles):
    """Reads pictures from data URLs, or from their bytes in base 64, and never from a path.

    Whoever may send rows must not choose files of this machine.
    """

    def open(self, cell: Any) -> File:
        """Return the bytes of a picture; raise where a cell holds none."""
        if not isinstance(cell, str):
            raise BadRecordError(NO_PICTURE, "" if cell is None else type(cell).__name__)
        text = cell.partition(";base64,")[2] if cell.startswith("data:") else cell
        try:
            return io.BytesIO(b64decode(text, validate=True))
        except (Error, ValueError):
            raise BadRecordError(NO_PICTURE, "neither a data URL nor base 64") from None
