"""A feed: samples for a trainer, offsets that go with them, and what becomes of bad records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tamis import Naive, Samples, Sliding, Trainer
from tamis.sources import (
    BadRecordError,
    Batch,
    Columns,
    Feed,
    Files,
    ReadAhead,
    Rejects,
    TooManyBadError,
    Unreadable,
)
from tests.support import fuzz_records
from tests.support.faults.sources import fuzz
from tests.support.wait import wait_until

COLUMNS = Columns(["a", "b"], label="kind", classes=["ant", "bee"])


class Given:
    """Records that a test has at hand."""

    def __init__(self, records: Sequence[Any], rows: int = 10, made: float | None = None) -> None:
        self.records = list(records)
        self.rows = rows
        self.made = made
        self.acknowledged: list[Any] = []
        self.closed = False

    def read(self, offset: Any = None) -> Iterator[Batch]:
        for first in range(offset or 0, len(self.records), self.rows):
            part = self.records[first : first + self.rows]
            places = list(range(first, first + len(part)))
            yield Batch(part, places, first + len(part), self.made)

    def acknowledge(self, offset: Any) -> None:
        self.acknowledged.append(offset)

    def behind(self) -> int | None:
        return 3

    def close(self) -> None:
        self.closed = True


def make(count: int, first: int = 0) -> list[Any]:
    return [
        {"a": n, "b": 1, "kind": "bee" if n % 2 else "ant"} for n in range(first, first + count)
    ]


def together(feed: Feed) -> Samples:
    chunks = [samples.columns().values() for samples in feed]
    return Samples(*(torch.cat(column) for column in zip(*chunks, strict=True)))


# Samples


def test_samples_are_what_the_columns_hold() -> None:
    samples = together(Feed(Given(make(25)), COLUMNS))
    assert samples.inputs.tolist() == [[n, 1] for n in range(25)]
    assert samples.labels.tolist() == [n % 2 for n in range(25)]
    assert samples.ids.tolist() == list(range(25))
    assert not samples.uses.any()
    assert (samples.inputs.dtype, samples.labels.dtype) == (torch.float32, torch.int64)


@pytest.mark.parametrize(
    "to_row",
    [
        lambda n: (torch.tensor([float(n)]), 1),
        lambda n: (np.array([n], np.float32), np.int64(1), n),
        lambda n: [[float(n)], torch.tensor(1)],
    ],
    ids=["tensor", "array", "list"],
)
def test_a_function_of_ones_own(to_row: Any) -> None:
    samples = together(Feed(Given(range(25)), to_row))
    assert samples.inputs[:, 0].tolist() == list(range(25))
    assert samples.ids.tolist() == list(range(25))


def test_a_trainer_takes_a_feed_as_its_stream() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    trainer = Trainer(model, optimizer, Naive(), Sliding(50), k=4)
    slots = list(trainer.run(Feed(Given(make(100)), COLUMNS)))
    assert [slot.seen for slot in slots] == list(range(10, 101, 10))
    assert all(slot.skipped == 0 for slot in slots)


# Offsets


def test_the_offset_is_that_of_the_samples_in_hand() -> None:
    source = Given(make(30))
    ahead = ReadAhead(source, most=30)
    feed = Feed(ahead, COLUMNS)
    for turn, _ in enumerate(feed, 1):
        assert feed.offset["source"] == 10 * turn
        feed.acknowledge()
    assert source.acknowledged == [10, 20, 30]
    feed.close()
    assert source.closed


def test_the_checkpoint_before_may_be_acknowledged_instead() -> None:
    source = Given(make(30))
    feed = Feed(source, COLUMNS)
    offsets = [feed.offset for _ in feed]
    for before in offsets[:-1]:
        feed.acknowledge(before)
    assert source.acknowledged == [10, 20]


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_new_feed_goes_on_with_rows_and_ids(stop: int) -> None:
    records = make(20) + [None, None] + make(30, 22)
    complete = together(Feed(Given(records), COLUMNS))
    first = Feed(Given(records), COLUMNS)
    for _, _ in zip(range(stop), first, strict=False):
        offset = json.loads(json.dumps(first.offset))
    rest = Feed(Given(records), COLUMNS, offset=offset)
    samples = together(rest)
    for name, column in samples.columns().items():
        assert torch.equal(column, getattr(complete, name)[-len(samples) :])
    assert rest.stats().seen == 52
    assert rest.stats().bad == 2


def test_iterating_again_goes_on() -> None:
    feed = Feed(Given(make(30)), COLUMNS)
    next(iter(feed))
    assert together(feed).ids.tolist() == list(range(10, 30))


def test_the_shape_is_remembered_across_runs() -> None:
    first = Feed(Given(make(10)), COLUMNS)
    list(first)
    odd = [{"a": [1, 2, 3], "b": 1, "kind": "ant"}] + make(9)
    second = Feed(Given([*make(10), *odd]), COLUMNS, offset=first.offset)
    assert len(together(second)) == 9
    assert second.rejects.counts == {"inputs of another shape or type": 1}


def test_nothing_is_acknowledged_before_anything_was_read() -> None:
    source = Given([])
    Feed(source, COLUMNS).acknowledge()
    assert not source.acknowledged


# Bad records


BAD: list[tuple[Any, str]] = [
    ({"a": 1, "kind": "ant"}, "column missing"),
    ({"a": "x", "b": 1, "kind": "ant"}, "inputs are not numbers"),
    ({"a": None, "b": 1, "kind": "ant"}, "inputs not finite"),
    ({"a": 1e300, "b": 1, "kind": "ant"}, "inputs not finite"),
    ({"a": "inf", "b": 1, "kind": "ant"}, "inputs not finite"),
    ({"a": [1, 2], "b": 1, "kind": "ant"}, "inputs of another shape or type"),
    ({"a": 1, "b": 1, "kind": "cow"}, "label is not a class"),
    (Unreadable(b"{", "not decoded", "why"), "not decoded"),
]


def test_bad_records_are_counted_by_reason_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    records = make(10) + [record for record, _ in BAD] + make(10)
    feed = Feed(Given(records), COLUMNS, rejects=Rejects(path))
    samples = together(feed)
    feed.close()
    assert len(samples) == 20
    assert samples.ids.tolist() == [*range(10), *range(10 + len(BAD), 20 + len(BAD))]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["position"] for line in lines] == list(range(10, 10 + len(BAD)))
    for line, (_, reason) in zip(lines, BAD, strict=True):
        assert line["reason"] == reason
    assert feed.rejects.counts.total() == len(BAD)
    assert lines[-1]["record"] == "b'{'"


@pytest.mark.parametrize(
    "made",
    [
        (1.0, 0),
        ([], 0),
        (["x"], 0),
        ([1.0], 0.5),
        ([1.0], -1),
        ([1.0], "ant"),
        ([1.0], None),
        ([1.0], float("nan")),
        ([1.0], 0, 2**63),
        ([1.0], 0, -1),
        ([1.0],),
        None,
        7,
        (np.array([1], ">f4"), 0),
        (np.array([1j]), 0),
        (np.array(["2020-01-01"], "M8[D]"), 0),
        (torch.tensor([1.0], dtype=torch.bfloat16), 0),
    ],
    ids=str,
)
def test_what_a_function_makes_is_checked(made: Any) -> None:
    feed = Feed(Given(range(10)), lambda n: made if n == 5 else ([float(n)], 0))
    assert len(together(feed)) == 9
    assert feed.stats().bad == 1


def test_a_function_that_fails_is_reported_with_its_own_words() -> None:
    def fail(record: Any) -> Any:
        raise ZeroDivisionError("a slip in the program.")

    with pytest.raises(TooManyBadError, match=r"10 of the last 10 .*ZeroDivisionError: .*[^.]\.$"):
        list(Feed(Given(range(10)), fail))


def test_too_many_bad_stop_between_samples_with_an_offset_to_save() -> None:
    records = make(100) + [None if n % 3 else make(1)[0] for n in range(200)]
    feed = Feed(Given(records), COLUMNS, judged=60)
    taken = 0
    with pytest.raises(TooManyBadError, match="of the last 60 records were bad"):  # noqa: PT012
        for samples in feed:
            taken += len(samples)
    figures = feed.stats()
    assert (figures.good, figures.seen) == (taken, feed.offset["source"])
    assert 100 < figures.seen < 160

    feed = Feed(Given(records), COLUMNS, offset=feed.offset, judged=60, most_bad=0.9)
    assert taken + len(together(feed)) == 100 + 67


def test_who_goes_on_after_too_many_bad_gets_what_comes_next() -> None:
    feed = Feed(Given([*[None] * 40, *make(20)], rows=10), COLUMNS, judged=10)
    raised, taken = 0, 0
    while taken < 20:
        try:
            taken += sum(len(samples) for samples in feed)
        except TooManyBadError:
            raised += 1
    assert (raised, feed.offset["seen"]) == (4, 60)


def test_a_stream_that_is_cut_off_is_not_judged() -> None:
    feed = Feed(Given([None] * 50), COLUMNS)
    original = feed.source.read
    feed.source.read = lambda offset: (feed.close() or batch for batch in original(offset))  # type: ignore[method-assign, func-returns-value]
    assert list(feed) == []


def test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.sources.feed.time", lambda: 1_000.0)
    source = ReadAhead(Given(make(30), made=990.5), most=10)
    feed = Feed(source, COLUMNS)
    assert feed.stats().late is None
    next(iter(feed))
    wait_until(lambda: source.held == 10)  # and the last ten wait for room
    figures = feed.stats()
    assert (figures.seen, figures.good, figures.bad, figures.dropped) == (10, 10, 0, 0)
    assert (figures.queued, figures.behind) == (10, 13)
    assert figures.late == 9.5
    feed.close()


def test_a_bad_record_may_be_reported_by_the_function() -> None:
    def judge(record: Any) -> Any:
        raise BadRecordError("too old", str(record))

    feed = Feed(Given(range(10)), judge, most_bad=1.0)
    assert list(feed) == []
    assert feed.rejects.counts == {"too old": 10}


# Fuzz; benchmarks/faults_sources.py does ten times as many


def test_fuzzed_records_are_good_or_bad_and_never_more(tmp_path: Path) -> None:
    count = 10_000
    feed = fuzz(tmp_path, count)
    figures = feed.stats()
    assert figures.seen == count
    assert figures.good + feed.rejects.counts.total() == count
    assert figures.good > count // 5
    assert len(feed.rejects.counts) > 5
    assert sum(file.stat().st_size for file in tmp_path.glob("rejects*")) < 4_000_000


def test_fuzzed_tables_are_read_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = [line.replace(b'": ', b",") for line in fuzz_records.records(10_000, seed=1)]
    path.write_bytes(b"a,b,kind\n" + b"\n".join(lines) + b"\n1,2,bee\n")
    feed = Feed(Files(path, rows=500), COLUMNS, most_bad=1.0)
    good = sum(len(samples) for samples in feed)
    figures = feed.stats()
    assert feed.offset["source"]["rows.csv"][0] == path.stat().st_size
    assert (good, figures.seen - figures.bad) == (figures.good, figures.good)
    assert good >= 1
    complete = list(Files(path, rows=500).read())
    for stop in (0, len(complete) // 2):
        rest = list(Files(path, rows=500).read(complete[stop].offset))
        assert [batch.records for batch in rest] == [
            batch.records for batch in complete[stop + 1 :]
        ]


def test_what_is_peeked_at_comes_later_and_is_not_in_the_offset() -> None:
    feed = Feed(Given(make(30)), COLUMNS)
    first = feed.peek(12)
    assert sum(map(len, first)) >= 12
    assert feed.offset["seen"] == 0
    samples = next(feed.named())[0]
    assert torch.equal(samples.ids, first[0].ids)
    assert feed.offset["seen"] == len(samples)
    rest = Feed(Given(make(30)), COLUMNS, offset=feed.offset)
    assert torch.equal(
        torch.cat([part.ids for part in rest]), torch.cat([part.ids for part in feed])
    )


def test_peeking_leaves_no_trace(tmp_path: Path) -> None:
    """Records rejected while peeking are counted and written when they are taken."""
    records = [*make(5), "garbage", *make(14, 5), {"a": 1}, *make(10, 19)]
    one, other = (Rejects(tmp_path / name) for name in ("one.jsonl", "other.jsonl"))
    feed, plain = (Feed(Given(records), COLUMNS, rejects=rejects) for rejects in (one, other))
    before = feed.offset
    assert sum(map(len, feed.peek(25))) >= 25
    assert (feed.offset, feed.stats().seen, one.total) == (before, 0, 0)
    for found, expected in zip(feed.named(), plain.named(), strict=True):
        assert torch.equal(found[0].ids, expected[0].ids)
        assert feed.offset == plain.offset
        assert (tmp_path / "one.jsonl").read_text() == (tmp_path / "other.jsonl").read_text()
    assert one.total == 2


@pytest.mark.parametrize("peeked", [0, 12, 40])
def test_rows_that_are_not_finite_after_scaling_are_rejected(tmp_path: Path, peeked: int) -> None:
    """Wherever the feed is resumed, they are counted and written once."""
    records = make(40)
    for row in (3, 17, 33):
        records[row]["a"] = 1e30

    def open_feed(name: str, offset: Any = None) -> Feed:
        feed = Feed(Given(records), COLUMNS, rejects=Rejects(tmp_path / name), offset=offset)
        feed.peek(peeked)
        feed.scale = lambda inputs: inputs * 1e10
        return feed

    unbroken = open_feed("unbroken.jsonl")
    ids = torch.cat([samples.ids for samples in unbroken])
    assert ids.tolist() == [row for row in range(40) if row not in (3, 17, 33)]
    written = [json.loads(line) for line in (tmp_path / "unbroken.jsonl").read_text().splitlines()]
    assert [line["position"] for line in written] == [3, 17, 33]
    assert {line["reason"] for line in written} == {"inputs not finite after scaling"}
    for stop in range(1, 4):
        first = open_feed(f"{stop}.jsonl")
        taken = [samples.ids for _, samples in zip(range(stop), first, strict=False)]
        second = open_feed(f"{stop}.jsonl", json.loads(json.dumps(first.offset)))
        taken += [samples.ids for samples in second]
        assert torch.equal(torch.cat(taken), ids)
        assert second.offset == unbroken.offset
        assert (tmp_path / f"{stop}.jsonl").read_text() == (tmp_path / "unbroken.jsonl").read_text()


def test_ids_that_are_text_are_known_by_it() -> None:
    columns = Columns(["x"], label="y", classes=2, id="name")
    records = [{"x": 1.0, "y": 0, "name": name} for name in ("a-1", "b-2", 3)]
    ((samples, names),) = Feed(Given(records), columns).named()
    assert names == ["a-1", "b-2", "3"]
    assert len(samples.ids.unique()) == 3
    ((_, none),) = Feed(Given(records), Columns(["x"], label="y", classes=2)).named()
    assert none is None
