"""CSV, JSON-lines and Parquet files: one, a folder or a pattern, read once or followed."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from time import monotonic, time
from typing import Any, BinaryIO, NamedTuple, cast

from tamis.sources.parquet import IncompleteFileError, Parquet
from tamis.sources.protocol import Batch, Decode, SourceError, from_json, in_parts
from tamis.sources.redaction import redact, scrub
from tamis.sources.text import CSV, JSONLines

TEXT = (".csv", ".jsonl", ".ndjson")
ENDINGS = (*TEXT, ".parquet")


class Found(NamedTuple):
    """A file: its name under the folder, its path and its size so far."""

    name: str
    path: str
    size: int


class Files:
    """Files in the order of their names, each read from where it was left.

    The offset holds for every file how far it was read, and a checksum of what stood there, so a
    file may be added late under any name. A removed file is forgotten; a renamed one is a new one.

    Parameters
    ----------
    path: a file, a folder (all files below it with a known ending) or a pattern, local or at any
        address of fsspec.
    rows: rows of a batch.
    follow: wait for more. Lines are read once their newline is written, Parquet files once they
        are complete.
    poll: seconds between two searches for new files.
    patience: end after so many seconds without a record.
    decode: turns a line of JSON into a record.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        rows: int = 100,
        follow: bool = False,
        poll: float = 1.0,
        patience: float | None = None,
        decode: Decode = from_json,
    ) -> None:
        from fsspec.core import url_to_fs

        self.path = str(path)
        self.rows = rows
        self.follow = follow
        self.poll = poll
        self.patience = patience
        self.decode = decode
        self.waiting: set[str] = set()
        """Files that are not complete yet."""
        try:
            self._system, self._root = url_to_fs(self.path)
        except (ImportError, ValueError) as error:
            message = scrub(str(error), self.path)
            raise SourceError(f"{self} cannot be reached: {message}.") from None
        self._stopped = threading.Event()
        self._offset: dict[str, Any] = {}
        self._bytes_per_row = 0.0

    def __repr__(self) -> str:
        return f"Files({redact(self.path)})"

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield the rows of all files; without end where it follows."""
        offset = dict(offset or {})
        sizes: dict[str, int] = {}  # as they were when each file was last read to its end
        last = monotonic()
        while not self._stopped.is_set():
            files = self._list()
            if files:
                offset = {file.name: offset[file.name] for file in files if file.name in offset}
            for file in files:
                if sizes.get(file.name) == file.size:
                    continue
                for batch in self._read_file(file, offset):
                    offset, last = batch.offset, monotonic()
                    yield batch
                    if self._stopped.is_set():
                        return
                if file.name not in self.waiting:
                    sizes[file.name] = file.size
            impatient = self.patience is not None and monotonic() - last > self.patience
            if not self.follow or impatient:
                return
            self._stopped.wait(self.poll)

    def acknowledge(self, offset: Any) -> None:
        """Do nothing: files stay."""

    def behind(self) -> int | None:
        """Estimate the rows of text files that were not read yet, from their bytes."""
        if not self._bytes_per_row:
            return None
        try:
            files = [file for file in self._list() if file.name.endswith(TEXT)]
        except (SourceError, OSError):
            return None
        unread = sum(max(0, file.size - self._offset.get(file.name, [0])[0]) for file in files)
        return int(unread / self._bytes_per_row)

    def close(self) -> None:
        """End reading."""
        self._stopped.set()

    def _list(self) -> list[Found]:
        """Return the files in order; a name that begins with a dot or an underscore is skipped."""
        self._system.invalidate_cache()
        try:
            if any(sign in self._root for sign in "*?["):
                found = self._system.glob(self._root, detail=True)
            elif self._system.isdir(self._root):
                found = self._system.find(self._root, detail=True)
            else:
                found = {self._root: self._system.info(self._root)}
        except FileNotFoundError:
            found = {}
        start = self._root if "*" not in self._root else self._root.split("*")[0]
        files = []
        for path, about in found.items():
            name = relative(path, start)
            noted = any(part.startswith((".", "_")) for part in PurePosixPath(name).parts)
            if about["type"] == "file" and not noted and name.endswith(ENDINGS):
                files.append(Found(name, path, about["size"] or 0))
        if not files and not self.follow:
            raise SourceError(
                f"{self} finds no file that ends in one of {', '.join(ENDINGS)} to read."
            )
        return sorted(files)

    def _read_file(self, file: Found, offset: Mapping[str, Any]) -> Iterator[Batch]:
        position, mark = offset.get(file.name, (0, None))
        try:
            with self._open(file.path) as opened:
                content = self._content(file.name, opened)
                if mark is not None and file.name.endswith(TEXT) and file.size < position:
                    raise SourceError(
                        f"it has {file.size} bytes, and {position} were read before: it shrank"
                    )
                if mark is not None and content.mark(position) != mark:
                    raise SourceError("it was changed since it was read")
                self.waiting.discard(file.name)
                for part in in_parts(content.entries(position), self.rows):
                    end = part[-1].end
                    if file.name.endswith(TEXT):
                        self._bytes_per_row = (end - part[0].start) / len(part)
                    self._offset = offset = {**offset, file.name: [end, content.mark(end)]}
                    unit = "byte" if file.name.endswith(TEXT) else "row"
                    positions = [{"file": file.name, unit: entry.start} for entry in part]
                    yield Batch([entry.record for entry in part], positions, offset, time())
                    if unit == "byte" and end >= file.size:
                        return  # what was written since waits for its turn
        except IncompleteFileError:
            self.waiting.add(file.name)
            if not self.follow:
                raise SourceError(f"{self}: {file.name} is no complete Parquet file.") from None
        except FileNotFoundError:
            return  # removed since it was listed
        except (SourceError, OSError) as error:
            message = scrub(str(error), self.path)
            raise SourceError(f"{self}: {file.name} cannot be read on: {message}.") from None

    def _open(self, path: str) -> BinaryIO:
        """Open a file such that it can be read in lines of bounded length."""
        if "file" in self._system.protocol:
            return Path(path).open("rb")
        return cast(BinaryIO, io.BufferedReader(self._system.open(path, "rb")))

    def _content(self, name: str, file: BinaryIO) -> JSONLines | CSV | Parquet:
        if name.endswith(".parquet"):
            return Parquet(file, name)
        if name.endswith(".csv"):
            return CSV(file, not self.follow)
        return JSONLines(file, not self.follow, self.decode)


def relative(path: str, start: str) -> str:
    """Return a file's name under the folder, so that offsets stay valid when the folder moves."""
    if path == start:
        return PurePosixPath(path).name
    folder = start if start.endswith("/") else start + "/"
    if path.startswith(folder):
        return path.removeprefix(folder)
    return path.removeprefix(str(PurePosixPath(start).parent) + "/")
