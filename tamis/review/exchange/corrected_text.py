"""Delimited text and JSON lines with decisions applied; all that was not decided stays as it is."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tamis.review.exchange.changes import DECISION, ORIGINAL, Change, Changes, added_names
from tamis.sources.delimited import DelimitedFile
from tamis.sources.encoded_block import written
from tamis.sources.schema.cells import text_of
from tamis.sources.table_blocks import header_names, unreadable

MARKED = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
WIDE = {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"}
DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\r\n]*")


class RawLines:
    """Lines of a text file, with the text of those that were read since the last look.

    The mark that a file may begin with is in the text only.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._mark = "\ufeff"
        self._taken: list[str] = []

    def __iter__(self) -> RawLines:
        return self

    def __next__(self) -> str:
        line = next(self._file)
        self._taken.append(line)
        mark, self._mark = self._mark, ""
        return line.removeprefix(mark)

    def take(self) -> str:
        """Return the text that was read since the last call."""
        text = "".join(self._taken)
        self._taken.clear()
        return text


def correct_delimited(
    file: DelimitedFile, label: str, id_column: str | None, changes: Changes
) -> Iterator[bytes]:
    """Yield a table of delimited text with two columns more; other cells keep their bytes.

    Lines that do not fit the header stay as they are.
    """
    delimiter, (encoding, errors) = file.delimiter, exact_encoding(file)
    with file.path.open(newline="", encoding=encoding, errors=errors) as source:
        lines = RawLines(source)
        reader = csv.reader(lines, delimiter=delimiter)
        try:
            names = header_names(next(reader, []))
            at = names.index(label)
            id_at = None if id_column is None else names.index(id_column)
            added = added_names(names)
            yield with_cells(lines.take(), delimiter, *added).encode(encoding, errors)
            for row, cells in enumerate(reader):
                raw = lines.take()
                if len(cells) != len(names):
                    yield raw.encode(encoding, errors)
                    continue
                name = str(row) if id_at is None else replaced(cells[id_at])
                change = changes.of(row, name, replaced(cells[at]).strip())
                if change is None:
                    raw = with_cells(raw, delimiter, "", "")
                elif change.removed:
                    continue
                else:
                    if change.relabelled:
                        raw = with_field(raw, delimiter, at, change.label, cells)
                    raw = with_cells(raw, delimiter, change.word, change.original)
                yield raw.encode(encoding, errors)
        except (UnicodeError, csv.Error) as error:
            raise unreadable(file.path, error) from None


def exact_encoding(file: DelimitedFile) -> tuple[str, str]:
    """Return an encoding in which every byte of a file comes back, its mark included."""
    name = file.encoding.name
    if name.startswith(("utf-16", "utf-32")):
        with file.path.open("rb") as source:
            start = source.read(4)
        for mark, found in (WIDE if name.startswith("utf-32") else MARKED).items():
            if start.startswith(mark):
                return found, "surrogatepass"
        return name, "surrogatepass"
    return name.removesuffix("-sig"), "surrogateescape"


def replaced(text: str) -> str:
    """Return a text as the training has read it: bytes that do not fit the encoding as �."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def with_cells(raw: str, delimiter: str, *cells: str) -> str:
    """Return a line with cells at its end."""
    body = raw.rstrip("\r\n")
    return delimiter.join([body, *(quoted(cell, delimiter) for cell in cells)]) + raw[len(body) :]


def with_field(raw: str, delimiter: str, at: int, value: str, cells: list[str]) -> str:
    """Return a line with another value in one field, the other fields as they were written."""
    body = raw.rstrip("\r\n")
    start, end = field_spans(body, delimiter)[at]
    text = quoted(value, delimiter, always=body[start : start + 1] == '"')
    changed = body[:start] + text + body[end:]
    wanted = [value if place == at else cell for place, cell in enumerate(cells)]
    if next(csv.reader(io.StringIO(changed, newline=""), delimiter=delimiter)) != wanted:
        changed = delimiter.join(quoted(cell, delimiter) for cell in wanted)
    return changed + raw[len(body) :]


def field_spans(body: str, delimiter: str) -> list[tuple[int, int]]:
    """Return where each field of a line begins and ends, its quotes included.

    >>> field_spans('a,"b, c",', ",")
    [(0, 1), (2, 8), (9, 9)]
    """
    other = f"[^{re.escape(delimiter)}]*"
    field = re.compile(rf'"(?:[^"]|"")*"{other}|{other}')
    spans, start = [], 0
    while found := field.match(body, start):
        spans.append(found.span())
        start = found.end() + 1
        if start > len(body):
            break
    return spans


def quoted(cell: str, delimiter: str, *, always: bool = False) -> str:
    """Return a cell as delimited text, in quotes where it needs them."""
    if always or any(sign in cell for sign in (delimiter, '"', "\r", "\n")):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def correct_json_lines(
    path: Path, label: str, id_column: str | None, changes: Changes
) -> Iterator[bytes]:
    """Yield JSON lines, those decided with one or two keys more; all else keeps its bytes."""
    with path.open("rb") as file:
        for row, line in enumerate(file):
            try:
                record = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                yield line
                continue
            name = str(row) if id_column is None else written(record.get(id_column))
            change = changes.of(row, name, text_of(record.get(label)))
            if change is None:
                yield line
            elif not change.removed:
                yield changed_object(line.decode(), label, record.get(label), change).encode()


def changed_object(text: str, label: str, before: Any, change: Change) -> str:
    """Return the text of a JSON object with another label, and keys for what was decided."""
    if change.relabelled:
        start, end = value_span(text, label)
        text = text[:start] + json.dumps(typed(change.label, before)) + text[end:]
    more = {DECISION: change.word} | ({ORIGINAL: before} if change.relabelled else {})
    end = text.rindex("}")
    return f"{text[:end]}, {json.dumps(more, ensure_ascii=False)[1:-1]}{text[end:]}"


def value_span(text: str, key: str) -> tuple[int, int]:
    """Return where the value of a key of a JSON object begins and ends; the last of its name.

    >>> value_span('{"a": 1.50, "y": "cat"}', "y")
    (17, 22)
    """
    found, at = (0, 0), text.index("{") + 1
    while True:
        at = skip(text, at)
        if text[at] == "}":
            return found
        name, at = DECODER.raw_decode(text, at)
        start = skip(text, skip(text, at) + 1)
        _, end = DECODER.raw_decode(text, start)
        found = (start, end) if name == key else found
        at = skip(text, end)
        at += text[at] == ","


def skip(text: str, at: int) -> int:
    """Return the place after white space."""
    found = SPACE.match(text, at)
    return found.end() if found else at


def typed(label: str, before: Any) -> Any:
    """Return a label as the type that the one before had, where it can be.

    >>> typed("2", 1), typed("2", "1"), typed("True", False), typed("2.5", 1.5)
    (2, '2', True, 2.5)
    """
    if isinstance(before, bool):
        return {"True": True, "False": False}.get(label, label)
    try:
        return type(before)(label) if isinstance(before, int | float) else label
    except ValueError:
        return label
