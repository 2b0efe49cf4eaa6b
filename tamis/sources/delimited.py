"""Tables of delimited text: encoding, delimiter and header found out, then read in blocks."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import ClassVar

from tamis.sources.table_blocks import Block, by_column, header_names, unreadable

DELIMITERS = ",;\t|"
LOOKED_AT = 65_536
"""Characters that the delimiter is found from."""
STEP = 2**20
LONGEST_CELL = 2**20
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the mark that a file begins with; those of 32 bits come before those of 16."""
VALID = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A character of several bytes in UTF-8; hardly ever text in another encoding."""


@dataclass(frozen=True)
class Encoding:
    """The name of an encoding, what to do where bytes do not fit it, and a digest of the file."""

    name: str
    errors: str
    digest: str


@dataclass(frozen=True)
class DelimitedFile:
    """A file of rows under a header; `expected` are column names that the header should have."""

    path: Path
    expected: tuple[str, ...] = ()
    label: ClassVar[str | None] = None
    id: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds that the file itself declares: none."""
        return {}

    @property
    def folder(self) -> Path | None:
        """Where relative paths begin: beside the file."""
        return self.path.parent

    @property
    def digest(self) -> str:
        """Checksum of the content."""
        return self.encoding.digest

    @property
    def notes(self) -> list[str]:
        """What was found out and is not what most files have."""
        encoding, delimiter = self.encoding, self.delimiter
        found = []
        if not encoding.name.startswith("utf-8"):
            found = [f"read as {encoding.name}"]
        elif encoding.errors != "strict":
            found = ["some bytes are not UTF-8, and became �"]
        usual = "\t" if self.path.suffix.lower() in (".tsv", ".tab") else ","
        return found + ([] if delimiter == usual else [f"cells are separated by {delimiter!r}"])

    @cached_property
    def encoding(self) -> Encoding:
        """The encoding, by the marks and the bytes of the complete file."""
        return find_encoding(self.path)

    @cached_property
    def delimiter(self) -> str:
        """The character between cells, by the first rows."""
        with self._open() as file:
            text = file.read(LOOKED_AT)
        lines = text.splitlines(keepends=True)
        if len(text) == LOOKED_AT and len(lines) > 1:
            lines.pop()  # cut in two
        first = "\t" if self.path.suffix.lower() in (".tsv", ".tab") else ","
        return find_delimiter(lines, first, set(self.expected))

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield rows in order, so many at a time; rows that do not fit the header are set apart."""
        csv.field_size_limit(LONGEST_CELL)
        with self._open() as file:
            rows = closed_rows(file, self.delimiter)
            try:
                header, first = header_names(next(rows, [])), 0
                while (lines := list(islice(rows, size))) or not first:
                    yield by_column(header, lines, first)
                    first += max(len(lines), 1)
            except (UnicodeError, csv.Error) as error:
                raise unreadable(self.path, error) from None

    def _open(self) -> io.TextIOWrapper:
        encoding = self.encoding
        return self.path.open(newline="", encoding=encoding.name, errors=encoding.errors)


def closed_rows(file: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of a text; one whose last quote is never closed is an error."""
    at_end = False

    def lines() -> Iterator[str]:
        nonlocal at_end
        yield from file
        at_end = True
        yield "\n"  # an empty row, or part of a cell that is still open

    for row in csv.reader(lines(), delimiter=delimiter):
        if at_end and row:
            raise csv.Error("a quote is opened and never closed")
        if not at_end:
            yield row


def find_encoding(path: Path) -> Encoding:
    """Return the encoding of a text: by its mark, else UTF-8, else that of Windows.

    A file of UTF-8 with a few damaged bytes stays one: most of its characters are right.
    """
    content = sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    strict, valid, odd, zeros, total, start = True, 0, 0, [0, 0], 0, b""
    with path.open("rb") as file:
        while part := file.read(STEP):
            content.update(part)
            start = start or part[:4]
            zeros = [zeros[at] + part[at::2].count(0) for at in (0, 1)]
            total += len(part)
            if strict:
                try:
                    decoder.decode(part)
                except UnicodeDecodeError:
                    strict = False
            if not part.isascii():
                found = VALID.findall(part)
                valid += len(found)
                odd += len(part.translate(None, bytes(range(128)))) - sum(map(len, found))
    digest = content.hexdigest()
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:  # a character is cut in two at the end
        strict = False
    for mark, name in MARKS.items():
        if start.startswith(mark) and (strict or not name.startswith("utf-8")):
            return Encoding(name, "strict" if name.startswith("utf-8") else "replace", digest)
    for at, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if zeros[at] > 0.2 * total:
            return Encoding(name, "replace", digest)
    if strict:
        return Encoding("utf-8-sig", "strict", digest)
    if start.startswith(codecs.BOM_UTF8) or valid > odd:
        return Encoding("utf-8-sig", "replace", digest)
    return Encoding("cp1252", "replace", digest)


def find_delimiter(lines: list[str], first: str, expected: set[str]) -> str:
    """Return the delimiter under which the header has the names expected, and rows fit it."""
    best, best_score = first, (-1, -1.0)
    for delimiter in first + DELIMITERS.replace(first, ""):
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not rows:
            continue
        header = header_names(rows[0])
        fitting = sum(len(row) == len(header) for row in rows) / len(rows)
        score = (len(expected & set(header)), fitting * (len(header) - 1))
        if score > best_score:
            best, best_score = delimiter, score
    return best
