"""CSV, JSON-lines and Parquet files: one, a folder or a pattern, read once or followed."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from time import monotonic, time
from typing import Any, BinaryIO, cast

from tamis.sources.found import Found, found_of, relative
from tamis.sources.messages import LOG, warn_of_lost
from tamis.sources.parquet import IncompleteFileError, Parquet
from tamis.sources.part import COMPLETE, Part
from tamis.sources.pieces import is_split, pieces_of
from tamis.sources.protocol import Batch, Decode, ReplacedError, SourceError, from_json, in_parts
from tamis.sources.redaction import redact, scrub
from tamis.sources.rotation import (
    Held,
    find_again,
    find_unread,
    is_rotated,
    kind_of,
    open_any,
    still_named,
)
from tamis.sources.text import CSV, JSONLines

TEXT = (".csv", ".jsonl", ".ndjson")
ENDINGS = (*TEXT, ".parquet")


class Files:
    """Files in the order of their names, each read from where it was left.

    The offset holds for every file how far it was read, a checksum of what stood there and its
    inode, so a file may be added late under any name. One that was renamed, or copied or compressed
    under a name that begins the same, is read to its end; a removed one is forgotten.

    Parameters
    ----------
    path: a file, a folder (all files below it with a known ending) or a pattern, local or at any
        address of fsspec.
    rows: rows of a batch.
    follow: wait for more. Lines are read once their newline is written, Parquet files once they
        are complete.
    poll: seconds between two searches for new files.
    patience: end after so many seconds without a record.
    skip_lost: where a file was changed and what was read of it is nowhere, warn and read it from
        its beginning, instead of raising.
    decode: turns a line of JSON into a record.
    part: of several readers, each reads some of the files, by their names; of large files of JSON
        lines or Parquet that are not followed, pieces: 4 MB, or a group of rows.
    """

    idle = False  # whether all had been read when it was last looked for more

    def __init__(
        self,
        path: str | Path,
        *,
        rows: int = 100,
        follow: bool = False,
        poll: float = 1.0,
        patience: float | None = None,
        skip_lost: bool = False,
        decode: Decode = from_json,
        part: Part = COMPLETE,
    ) -> None:
        from fsspec.core import url_to_fs

        self.path = str(path)
        self.rows = rows
        self.follow = follow
        self.poll = poll
        self.patience = patience
        self.skip_lost = skip_lost
        self.decode = decode
        self.part = part
        self.waiting: set[str] = set()
        """Files that are not complete yet."""
        try:
            self._system, self._root = url_to_fs(self.path)
        except (ImportError, ValueError) as error:
            message = scrub(str(error), self.path)
            raise SourceError(f"{self} cannot be reached: {message}.") from None
        self._local = "file" in self._system.protocol
        self._held = Held()
        self._stopped = threading.Event()
        self._offset: dict[str, Any] = {}
        self._bytes_per_row = 0.0

    def __repr__(self) -> str:
        return f"Files({redact(self.path)})"

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield the rows of all files; without end where it follows."""
        try:
            yield from self._read(dict(offset or {}))
        finally:
            self._held.close()

    def _read(self, offset: dict[str, Any]) -> Iterator[Batch]:
        states: dict[str, Any] = {}  # as they were when each file was last read to its end
        last, self.idle = monotonic(), False
        while not self._stopped.wait(self.poll if self.idle else 0.0):
            files = self._list()
            if files:
                files, offset, rests = self._settle(files, offset, states)
                for name, rest in rests:
                    try:
                        with rest:
                            for batch in self._read_rest(name, rest, offset):
                                last = monotonic()
                                yield batch
                    except (SourceError, OSError) as error:
                        message = scrub(str(error), self.path)
                        raise SourceError(
                            f"{self}: the rest of {name} cannot be read: {message}."
                        ) from None
                    del offset[name]
            for file in files:
                if states.get(file.name) == file.state:
                    continue
                for batch in self._read_file(file, offset):
                    offset, last, self.idle = batch.offset, monotonic(), False
                    yield batch
                    if self._stopped.is_set():
                        return
                if file.name not in self.waiting:
                    states[file.name] = file.state
            impatient = self.patience is not None and monotonic() - last > self.patience
            if not self.follow or impatient:
                return
            self.idle = True

    def _settle(
        self, files: list[Found], offset: dict[str, Any], states: dict[str, Any]
    ) -> tuple[list[Found], dict[str, Any], list[tuple[str, BinaryIO]]]:
        """Return the files, the offset by their present names, and the rests of replaced ones."""
        listed = {file.name: file for file in files}
        base = files[0].path.removesuffix(files[0].name)
        settled: dict[str, Any] = {}
        rests = []
        moves = [] if states else [file.path for file in files]  # before a crash
        for name, (position, mark, inode) in offset.items():
            if name not in listed and self._local and Path(base + name).is_file():
                listed[name] = self._local_file(name, base + name)  # rotated before
            file = listed.get(name)
            if file is not None and states.get(name) == file.state:
                settled[name] = offset[name]
                continue
            intact = file is not None and self._intact(file, position, mark)
            same = file is not None and file.inode == inode
            again = None
            matches = partial(self._matches, name, position, mark)
            if self._local and not (intact and same):
                known = still_named(base, offset) - {inode}
                again = find_again(base + name, inode, known, matches)
            found = None if again is None else self._local_file(again.removeprefix(base), again)
            moved_here = found is not None and found.inode == inode
            if intact and not moved_here:  # also a copy that goes on, in its place
                settled[name] = offset[name]
                continue
            if found is not None:
                listed[found.name] = found
                settled[found.name] = [position, mark, found.inode]
                moves.append(base + name)
            elif not same and (rest := self._held.open(name, inode, matches)):
                rests.append((name, rest))
                settled[name] = offset[name]
            elif file is None:
                LOG.warning("%r: %s was removed; it was read up to %s", self, name, position)
            elif self.skip_lost:
                warn_of_lost(self, f"what followed {position} in {name}, which was changed")
            elif name not in states or kind_of(name) != ".parquet":
                settled[name] = offset[name]  # to be refused where it is read
            if name not in settled:
                states.pop(name, None)
            self._held.drop(name)
        rotated = [file for name, file in listed.items() if name in settled and file not in files]
        own = {file.path for file in files}  # which are read by their names
        for path in dict.fromkeys(moves) if self._local else ():
            unread = self._unread(path, base, rotated, settled)
            rotated += [file for file in unread if file.path not in own]
        return [*rotated, *files], settled, rests

    def _unread(
        self, path: str, base: str, rotated: list[Found], offset: dict[str, Any]
    ) -> list[Found]:
        """Return files that were begun and rotated under a name while nobody looked."""
        before = [Path(file.path) for file in rotated if is_rotated(file.path, path)]
        if not before:
            return []
        since = min(file.stat().st_mtime_ns for file in before)
        known = {inode for _, _, inode in offset.values()}
        return [
            self._local_file(unread.removeprefix(base), unread)
            for unread in find_unread(path, since, known)
        ]

    def _intact(self, file: Found, position: int, mark: int) -> bool:
        """Return whether a file still begins with what was read of it."""
        try:
            with self._open(file.path) as opened:
                return self._matches(file.name, position, mark, opened)
        except FileNotFoundError:
            return False

    def _matches(self, name: str, position: int, mark: int, opened: BinaryIO) -> bool:
        try:
            if kind_of(name) != ".parquet" and opened.seek(0, io.SEEK_END) < position:
                return False
            return self._content(name, opened, False).mark(position) == mark
        except IncompleteFileError:
            return True  # it is being written again
        except SourceError:
            return False

    def _read_rest(self, name: str, rest: BinaryIO, offset: dict[str, Any]) -> Iterator[Batch]:
        """Yield what was not read of a file that has no name any more, or another content."""
        position, _, inode = offset[name]
        content = self._content(name, rest, True)
        unit = "row" if kind_of(name) == ".parquet" else "byte"
        parts = in_parts(content.entries(position), self.rows)
        part = next(parts, [])
        while part:
            end, after = part[-1].end, next(parts, [])
            reached = {**offset, name: [end, content.mark(end), inode]}
            if not after:
                del reached[name]  # nothing is left to look for after a crash
            positions = [{"file": name, unit: entry.start} for entry in part]
            yield Batch([entry.record for entry in part], positions, reached, time())
            part = after

    def _local_file(self, name: str, path: str) -> Found:
        found = found_of(name, path, self._system.info(path))
        # How many bytes a compressed file has is known at its end.
        return found._replace(size=sys.maxsize) if name.endswith(".gz") else found

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
        return int(unread / self._bytes_per_row / (1 if self.follow else self.part.of))

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
                files.append(found_of(name, path, about))
        if not files and not self.follow:
            raise SourceError(
                f"{self} finds no file that ends in one of {', '.join(ENDINGS)} to read."
            )
        part, split = self.part, partial(is_split, part=self.part, follow=self.follow)
        return sorted(file for file in files if split(file.name) or part.has(file.name))

    def _read_file(self, file: Found, offset: Mapping[str, Any]) -> Iterator[Batch]:
        position, mark, _ = offset.get(file.name, (0, None, None))
        text = kind_of(file.name) != ".parquet"
        try:
            with self._open(file.path) as opened:
                plain = self._local and not file.name.endswith(".gz")
                if plain and os.fstat(opened.fileno()).st_ino != file.inode:
                    return  # replaced since it was listed
                if plain and self.follow:
                    self._held.add(file.name, opened)
                content = self._content(file.name, opened, not self.follow)
                if mark is not None and text and file.size < position:
                    raise ReplacedError(
                        f"it has {file.size} bytes, and {position} were read before: it shrank"
                    )
                if mark is not None and content.mark(position) != mark:
                    raise ReplacedError("it was changed since it was read")
                self.waiting.discard(file.name)
                before = content.mark(position)
                for part in in_parts(content.entries(position), self.rows):
                    end = part[-1].end
                    reached = content.mark(end)
                    cut = text and position == 0 and opened.seek(0, io.SEEK_END) < end
                    if cut or content.mark(position) != before:
                        return  # truncated meanwhile: what was read may be of two contents
                    position, before = end, reached
                    if text:
                        self._bytes_per_row = (end - part[0].start) / len(part)
                    self._offset = offset = {**offset, file.name: [end, reached, file.inode]}
                    unit = "byte" if text else "row"
                    positions = [{"file": file.name, unit: entry.start} for entry in part]
                    yield Batch([entry.record for entry in part], positions, offset, time())
                    if unit == "byte" and end >= file.size:
                        return  # what was written since waits for its turn
        except IncompleteFileError:
            self.waiting.add(file.name)
            if not self.follow:
                raise SourceError(f"{self}: {file.name} is not a complete Parquet file.") from None
        except FileNotFoundError:
            return  # removed since it was listed
        except (SourceError, OSError) as error:
            message = scrub(str(error), self.path)
            kind = ReplacedError if isinstance(error, ReplacedError) else SourceError
            raise kind(f"{self}: {file.name} cannot be read on: {message}.") from None

    def _open(self, path: str) -> BinaryIO:
        """Open a file such that it can be read in lines of bounded length."""
        if self._local:
            return open_any(path)
        return cast(BinaryIO, io.BufferedReader(self._system.open(path, "rb")))

    def _content(self, name: str, file: BinaryIO, final: bool) -> JSONLines | CSV | Parquet:
        kind, own = kind_of(name), pieces_of(name, self.part, self.follow)
        if kind == ".parquet":
            return Parquet(file, name, own)
        return CSV(file, final) if kind == ".csv" else JSONLines(file, final, self.decode, own)
