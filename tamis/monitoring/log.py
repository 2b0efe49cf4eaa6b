"""A file of lines that takes each line completely or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path


class LineFile:
    """Writes lines to a file, which the first one opens; of what it held, `keep` bytes stay.

    `lost` counts the lines that could not be written, as on a full disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep = self.lost = 0
        self._file: FileIO | None = None

    def write(self, line: str) -> None:
        """Append a line; one that does not fit on the disk is counted as lost."""
        content = (line + "\n").encode()
        try:
            file = self._open()
            if file.write(content) == len(content):
                self.keep += len(content)
                return
        except OSError:
            pass
        self.lost += 1
        with suppress(OSError):
            if self._file:
                self._file.truncate(self.keep)
                self._file.seek(self.keep)

    def sync(self) -> int:
        """Return the size of the file, once the disk has all of it."""
        if self._file:
            os.fsync(self._file.fileno())
        return self.keep

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def _open(self) -> FileIO:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            self._file = FileIO(self.path, "r+")
            self.keep = min(self.keep, self.path.stat().st_size)
            self._file.truncate(self.keep)
            self._file.seek(self.keep)
        return self._file
