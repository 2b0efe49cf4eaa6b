"""Iterables as sources: by their own state, by counting, or never again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from torch.utils.data import DataLoader, IterableDataset

from tamis.sources import Batch, Feed, Items, ReadAhead, SourceError

ROWS = 100


def numbers(batches: list[Batch]) -> list[int]:
    return [record["n"] for batch in batches for record in batch.records]


def saved(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


class Counted(IterableDataset[dict[str, int]]):
    """As users write them: no state, the same items every time."""

    def __iter__(self) -> Iterator[dict[str, int]]:
        yield from ({"n": n} for n in range(ROWS))


class Stateful:
    """As torchdata's loaders: its state is its position."""

    def __init__(self) -> None:
        self.at = 0
        self.skipped = 0

    def __iter__(self) -> Iterator[dict[str, int]]:
        self.skipped = self.at
        while self.at < ROWS:
            self.at += 1
            yield {"n": self.at - 1}

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # It sleeps for seconds at the end of every shuffled stream.
    monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0, raising=False)
    for part in range(4):
        rows = [{"n": part * 25 + n} for n in range(25)]
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / f"{part}.parquet")
    return tmp_path


def hugging_face(folder: Path, shuffle: bool = False) -> Any:
    from datasets import load_dataset

    files = [str(folder / f"{part}.parquet") for part in range(4)]
    rows = load_dataset(
        "parquet", data_files=files, split="train", streaming=True, cache_dir=str(folder / "cache")
    )
    return rows.shuffle(seed=1, buffer_size=30) if shuffle else rows


@pytest.mark.parametrize("make", [Counted, Stateful, lambda: [{"n": n} for n in range(ROWS)]])
def test_reading_on_from_any_offset(make: Any) -> None:
    complete = list(Items(make(), rows=16).read())
    assert numbers(complete) == list(range(ROWS))
    for stop, batch in enumerate(complete):
        rest = list(Items(make(), rows=16).read(saved(batch.offset)))
        assert numbers(rest) == numbers(complete[stop + 1 :])
        assert [batch.positions for batch in rest] == [
            batch.positions for batch in complete[stop + 1 :]
        ]


def test_a_state_is_used_where_there_is_one() -> None:
    *_, last = Items(Stateful(), rows=16).read()
    items = Stateful()
    list(Items(items, rows=16).read({**last.offset, "state": {"at": 90}}))
    assert items.skipped == 90


@pytest.mark.parametrize("shuffle", [False, True])
def test_hugging_face_streams(folder: Path, shuffle: bool) -> None:
    complete = list(Items(hugging_face(folder, shuffle), rows=16).read())
    assert sorted(numbers(complete)) == list(range(ROWS))
    assert (numbers(complete) == list(range(ROWS))) is not shuffle
    assert ("state" in complete[0].offset) is not shuffle  # which holds no shuffle buffer
    for stop in (0, 2, 5):
        source = Items(hugging_face(folder, shuffle), rows=16)
        assert numbers(list(source.read(saved(complete[stop].offset)))) == numbers(
            complete[stop + 1 :]
        )


def test_hugging_face_streams_read_ahead(folder: Path) -> None:
    """The state belongs to the batch, not to how far the reader has come."""
    ahead = ReadAhead(Items(hugging_face(folder), rows=10), most=50)
    reading = ahead.read()
    first = [next(reading), next(reading)]
    rest = list(Items(hugging_face(folder), rows=10).read(saved(first[-1].offset)))
    assert numbers(first + rest) == list(range(ROWS))
    list(reading)
    ahead.close()


def test_a_loader_of_single_rows_feeds_samples() -> None:
    class Pairs(IterableDataset[tuple[torch.Tensor, int]]):
        def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
            yield from ((torch.full((3,), float(n)), n % 2) for n in range(50))

    feed = Feed(Items(DataLoader(Pairs(), batch_size=None), rows=20), lambda pair: pair)
    chunks = list(feed)
    assert [len(samples) for samples in chunks] == [20, 20, 10]
    assert torch.cat([samples.inputs for samples in chunks])[:, 0].tolist() == list(range(50))


def test_what_cannot_be_read_again_goes_on_with_what_comes() -> None:
    wire = iter([{"n": n} for n in range(ROWS)])
    source = Items(wire, rows=10, resume="never")
    reading = source.read()
    first = [next(reading) for _ in range(3)]
    rest = Items(wire, rows=10, resume="never").read(saved(first[1].offset))
    assert next(rest).records[0] == {"n": 30}


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="list has no state_dict: resume by count"):
        Items([], resume="state")
    with pytest.raises(SourceError, match="the offset holds no state"):
        list(Items(Stateful(), resume="state").read({"count": 3}))


def test_states_that_are_no_json_are_not_trusted() -> None:
    class Odd(Stateful):
        def state_dict(self) -> dict[str, Any]:
            return {"at": torch.tensor(self.at)}

    batch = next(Items(Odd(), rows=10).read())
    assert batch.offset == {"count": 10}
    rest = list(Items(Odd(), rows=10).read(batch.offset))
    assert numbers(rest) == list(range(10, ROWS))


def test_closing_ends_reading() -> None:
    source = Items(Counted(), rows=10)
    reading = source.read()
    next(reading)
    source.close()
    assert list(reading) == []
    assert source.behind() is None
