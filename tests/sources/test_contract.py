"""What every source must do. It walks the package: a new source is covered by being there."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tamis import sources
from tamis.sources import (
    Files,
    Items,
    Journal,
    KafkaTopic,
    NatsStream,
    ReadAhead,
    RedisStream,
    Source,
)

ROWS = 40
METHODS = ("read", "acknowledge", "behind", "close")
WITH_SERVERS = {RedisStream, NatsStream, KafkaTopic}
"""`test_brokers.py` holds these to the same, beside servers that it starts."""


def find_sources() -> set[type]:
    return {
        kind
        for module in pkgutil.walk_packages(sources.__path__, "tamis.sources.")
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if kind.__module__ == module.name
        and all(hasattr(kind, method) for method in METHODS)
        and not getattr(kind, "_is_protocol", False)
        and not inspect.isabstract(kind)
    }


def files(folder: Path) -> Source:
    path = folder / "rows.jsonl"
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(ROWS)))
    return Files(path, rows=7)


def items(folder: Path) -> Source:
    return Items([{"n": n} for n in range(ROWS)], rows=7)


def ahead(folder: Path) -> Source:
    return ReadAhead(files(folder))


def journal(folder: Path) -> Source:
    made = Journal(folder / "journal", rows=7, segment_bytes=500)
    for n in range(made.end, ROWS):
        made.append([{"n": n}])
    return made


MADE: dict[type, Callable[[Path], Source]] = {
    Files: files, Items: items, ReadAhead: ahead, Journal: journal,
}  # fmt: skip
each = pytest.mark.parametrize("make", MADE.values(), ids=[kind.__name__ for kind in MADE])


def numbers(source: Source, offset: Any = None) -> list[int]:
    return [record["n"] for batch in source.read(offset) for record in batch.records]


def test_every_source_is_public_and_tested() -> None:
    found = find_sources()
    assert found == set(MADE) | WITH_SERVERS
    assert {kind.__name__ for kind in found} <= set(sources.__all__)


@each
def test_any_offset_can_be_saved_and_read_from(
    make: Callable[[Path], Source], tmp_path: Path
) -> None:
    batches = list(make(tmp_path).read())
    seen = 0
    for batch in batches:
        assert len(batch.positions) == len(batch.records) > 0
        seen += len(batch)
        offset = json.loads(json.dumps(batch.offset))
        assert numbers(make(tmp_path), offset) == list(range(seen, ROWS))
    assert seen == ROWS


@each
def test_it_can_be_acknowledged_counted_and_closed_twice(
    make: Callable[[Path], Source], tmp_path: Path
) -> None:
    source = make(tmp_path)
    reading = source.read()
    source.acknowledge(next(reading).offset)
    behind = source.behind()
    assert behind is None or 0 <= behind < ROWS
    source.close()
    source.close()
    assert len(list(reading)) < ROWS
