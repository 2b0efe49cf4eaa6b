"""Redis, NATS and Kafka's mock, as servers on loopback: every message once, come what may."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import pytest

from tamis.sources import (
    Batch,
    KafkaTopic,
    LostMessagesWarning,
    NatsStream,
    Pace,
    ReadAhead,
    RedisStream,
    ReplacedError,
    Source,
    SourceError,
    Unreadable,
    redis_stream,
)
from tests.support.brokers import BROKERS, GROUP, TOPIC, KafkaMock, Nats, Redis, Server, free_port
from tests.support.wait import END, wait_until

ROWS = 200
Begin = Callable[..., Server]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start a server with so many messages in it, or skip where there is none."""
    begun: list[Server] = []

    def start(kind: type, count: int = ROWS, **settings: Any) -> Server:
        if reason := kind.missing():  # type: ignore[attr-defined]
            pytest.skip(reason)
        begun.append(kind(tmp_path / "server", **settings))
        begun[-1].produce(0, threading.Event(), count)
        return begun[-1]

    (tmp_path / "server").mkdir()
    yield start
    for server in begun:
        server.close()


every_broker = pytest.mark.parametrize("kind", BROKERS, ids=lambda kind: kind.__name__)


def read(source: Source, offset: Any = None, count: int = ROWS) -> list[Batch]:
    """Read so many messages, and close."""
    batches, seen = [], 0
    for batch in source.read(offset):
        batches.append(batch)
        seen += len(batch)
        if seen >= count:
            break
    source.close()
    return batches


def numbers(batches: list[Batch]) -> list[int]:
    return [record["id"] for batch in batches for record in batch.records]


def saved(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def assert_one_sentence(error: BaseException) -> None:
    """It is one line, and its one full stop is at the end."""
    assert re.fullmatch(r"(?:[^.\n]|\.(?=\S))+(?<!\.)\.", str(error)), str(error)


def pace(**settings: Any) -> Pace:
    return Pace(**{"rows": 20, "patience": END, "linger": END} | settings)


# All three


@every_broker
def test_every_message_comes_once(begin: Begin, kind: type) -> None:
    started = time()
    server = begin(kind)
    source = server.source(pace())
    batches = read(source)
    assert sorted(numbers(batches)) == list(range(ROWS))
    assert {len(batch) for batch in batches} == {20}
    places = [json.dumps(place) for batch in batches for place in batch.positions]
    assert len(set(places)) == ROWS
    if kind is not KafkaMock:  # which has partitions
        assert numbers(batches) == list(range(ROWS))
    if kind is not Redis:  # whose ids were chosen by the producer
        assert started - 1 <= batches[0].time <= time() + 1  # brokers count integer milliseconds


@pytest.mark.parametrize(
    "kind", [Redis, Nats, pytest.param(KafkaMock, marks=pytest.mark.slow)]
)  # a member of a group that left is waited for
@pytest.mark.parametrize("acknowledged", [False, True])
def test_reading_on_from_any_offset(begin: Begin, kind: type, acknowledged: bool) -> None:
    """Even from one before what was acknowledged, as after a fall back to an older checkpoint."""
    server = begin(kind)
    source = server.source(pace())
    batches = []
    for batch in source.read():
        batches.append(batch)
        if acknowledged:
            source.acknowledge(batch.offset)
        if len(batches) == ROWS // 20:
            break
    source.close()
    for stop in (0, 4, 8):
        before = numbers(batches[: stop + 1])
        rest = read(server.source(pace()), saved(batches[stop].offset), ROWS - len(before))
        assert sorted(before + numbers(rest)) == list(range(ROWS))


@every_broker
def test_what_comes_later_is_read_too(begin: Begin, kind: type) -> None:
    server = begin(kind, 20)
    source = server.source(pace())
    reading = source.read()
    assert sorted(numbers([next(reading)])) == list(range(20))
    server.produce(20, threading.Event(), 40)
    assert sorted(numbers([next(reading)])) == list(range(20, 40))
    source.close()


@every_broker
def test_a_batch_is_what_there_was_when_it_had_lingered(begin: Begin, kind: type) -> None:
    server = begin(kind, 30)
    source = server.source(pace(linger=1.0))
    sizes = [len(batch) for batch in read(source, count=30)]
    assert sum(sizes) == 30  # and so one that was not full has come
    assert max(sizes) <= 20


@every_broker
def test_a_new_reader_may_begin_with_what_is_new(begin: Begin, kind: type) -> None:
    server = begin(kind, 20)
    source = server.source(pace(), start="new")
    ahead = ReadAhead(source)
    found: list[Batch] = []
    fetch, fetches = source.fetch, []  # type: ignore[attr-defined]

    def counted(count: int, seconds: float) -> list[Any]:
        messages = fetch(count, seconds)
        fetches.append(len(messages))
        return messages

    source.fetch = counted  # type: ignore[attr-defined]
    thread = threading.Thread(target=lambda: found.append(next(ahead.read())))
    thread.start()
    wait_until(lambda: len(fetches) >= 2, what="an answer that there is nothing new")
    server.produce(20, threading.Event(), 40)
    thread.join(END)
    assert sorted(numbers(found)) == list(range(20, 40))
    ahead.close()


@every_broker
def test_messages_waiting_are_counted(begin: Begin, kind: type) -> None:
    server = begin(kind)
    source = server.source(pace())
    reading = source.read()
    for _ in range(3):
        next(reading)
    assert source.behind() == ROWS - 60 or kind is KafkaMock
    for _ in range(ROWS // 20 - 3):
        next(reading)
    assert source.behind() == 0
    source.close()


@every_broker
@pytest.mark.parametrize("away", [False, True])
def test_closing_ends_the_reader(begin: Begin, kind: type, away: bool) -> None:
    server = begin(kind)
    ahead = ReadAhead(server.source(pace(patience=None)))
    reading = ahead.read()
    batch = [next(reading) for _ in range(ROWS // 20)][-1]
    if away:
        server.kill()
        sleep(0.5)
        ahead.acknowledge(batch.offset)
    ahead.close()
    assert ahead._thread is not None
    assert not ahead._thread.is_alive()
    ahead.close()
    if away:
        server.start()


@every_broker
def test_a_stream_that_was_lost_is_reported(begin: Begin, kind: type) -> None:
    server = begin(kind, 20)
    ahead: Any = {Redis: "1000-0", Nats: 1000, KafkaMock: {"ours": {"0": 1000}, "others": {}}}
    with pytest.raises(ReplacedError, match=r"was read up to 1000.* before: it was lost or"):
        read(server.source(pace()), ahead[kind])
    source = server.source(pace(rows=20), skip_lost=True)
    with pytest.warns(LostMessagesWarning, match="it is read from its beginning"):
        assert sorted(numbers(read(source, ahead[kind], 20))) == list(range(20))


@every_broker
def test_a_broker_that_stays_away_is_given_up(begin: Begin, kind: type) -> None:
    server = begin(kind, 20)
    settings = pace(outage=END)
    source = server.source(settings)
    reading = source.read()
    next(reading)
    server.kill()
    object.__setattr__(settings, "outage", 0.5)  # only now: joining may have taken longer
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        next(reading)
    assert_one_sentence(caught.value)
    source.close()
    server.start()


def forget(server: Server) -> None:
    """Take the reader's group or consumer away behind its back."""
    if isinstance(server, Redis):
        with redis_client(server) as client:
            client.xgroup_destroy(TOPIC, GROUP)
    else:
        ask_nats(server, lambda jetstream: jetstream.delete_consumer(TOPIC, GROUP))


@pytest.mark.parametrize("kind", [Redis, Nats])
def test_a_group_that_is_taken_away_is_made_again(begin: Begin, kind: type) -> None:
    server = begin(kind, 40)
    source = server.source(pace())
    reading = source.read()
    found = [next(reading), next(reading)]
    forget(server)
    server.produce(40, threading.Event(), 80)
    found += [next(reading), next(reading)]
    assert numbers(found) == list(range(80))
    source.close()


# Nobody there, and no secrets printed


SECRET = "hunter2-and-more"  # noqa: S105


@pytest.mark.parametrize(
    "build",
    [
        lambda port: RedisStream(f"redis://ann:{SECRET}@127.0.0.1:{port}/0", TOPIC, GROUP),
        lambda port: NatsStream(f"nats://ann:{SECRET}@127.0.0.1:{port}", TOPIC, GROUP),
        lambda port: KafkaTopic(
            f"127.0.0.1:{port}", TOPIC, GROUP, settings={"sasl.password": SECRET}
        ),
    ],
    ids=["Redis", "NATS", "Kafka"],
)
def test_a_broker_that_is_not_there_is_reported_at_once(
    build: Callable[[int], Source], caplog: pytest.LogCaptureFixture
) -> None:
    source = build(free_port())
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        next(source.read())
    source.close()
    assert_one_sentence(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__} {source!r} {caplog.text}"


def test_a_wrong_password_is_reported_without_it(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    server = begin(Redis, 1)
    source = RedisStream(server.url.replace("://", f"://ann:{SECRET}@"), TOPIC, GROUP)
    with pytest.raises(SourceError, match="cannot be read: invalid username-password") as caught:
        next(source.read())
    source.close()
    assert_one_sentence(caught.value)
    assert SECRET not in f"{caught.value} {source!r} {caplog.text}"
    assert "ann:***@" in str(caught.value)


# Redis


def redis_client(server: Server) -> Any:
    import redis

    assert isinstance(server, Redis)
    return redis.Redis(port=server.port)


def test_redis_acknowledges_up_to_the_offset(begin: Begin) -> None:
    server = begin(Redis)
    source = server.source(pace())
    batches = read(source)
    with redis_client(server) as client:
        assert client.xpending(TOPIC, GROUP)["pending"] == ROWS
        source.acknowledge(batches[3].offset)
        assert client.xpending(TOPIC, GROUP)["pending"] == ROWS - 80
        server.kill()
        source.acknowledge(batches[5].offset)  # noted, not raised
        server.start()
        source.acknowledge(batches[5].offset)
        assert client.xpending(TOPIC, GROUP)["pending"] == ROWS - 120
    source.close()


def test_redis_consumers_share_and_each_goes_on_with_its_own(begin: Begin) -> None:
    server = begin(Redis)

    def reader(name: str) -> Any:
        return server.source(pace(), consumer=name)

    ann, bob = reader("ann"), reader("bob")
    with redis_client(server) as client:
        client.xgroup_create(TOPIC, GROUP, "0")
        for name in ("ann", "bob"):
            client.xgroup_createconsumer(TOPIC, GROUP, name)
    from_ann, from_bob = ann.read(), bob.read()
    hers = [next(from_ann) for _ in range(4)]
    his = [next(from_bob) for _ in range(3)]
    ann.close()  # her state holds two batches
    assert not set(numbers(hers)) & set(numbers(his))
    ann = reader("ann")
    again = ann.read(hers[1].offset)
    assert numbers([next(again), next(again)]) == numbers(hers[2:])
    rest = [next(again) for _ in range(3)]
    assert sorted(numbers(hers + his + rest)) == list(range(ROWS))
    ann.acknowledge(rest[-1].offset)
    with redis_client(server) as client:
        left = client.xpending(TOPIC, GROUP)["consumers"]
        assert left == [{"name": b"bob", "pending": 60}]
    ann.close()
    bob.close()


def test_redis_acknowledges_nothing_of_a_consumer_that_joined_later(begin: Begin) -> None:
    server = begin(Redis)
    ann, bob = (server.source(pace(), consumer=name) for name in ("ann", "bob"))
    from_ann = ann.read()
    hers = [next(from_ann)]  # alone in the group
    from_bob = bob.read()
    his = [next(from_bob) for _ in range(3)]
    hers.append(next(from_ann))
    ann.acknowledge(hers[-1].offset)  # ids beyond all of bob's
    bob.close()  # his state holds nothing
    again = server.source(pace(), consumer="bob")
    reading = again.read()
    assert numbers([next(reading) for _ in range(3)]) == numbers(his)
    hers += [next(from_ann) for _ in range(5)]
    assert sorted(numbers(hers + his)) == list(range(ROWS))
    for source in (ann, again):
        source.close()


def test_redis_claims_what_is_pending_for_a_dead_consumer(begin: Begin) -> None:
    """Whatever it had not acknowledged, once, from any offset on."""
    server = begin(Redis)
    bob = server.source(pace(), consumer="bob")
    reading = bob.read()
    his = [next(reading) for _ in range(3)]
    bob.acknowledge(his[0].offset)
    bob.close()
    ann = server.source(pace(rows=15), consumer="ann", claim=0)
    hers = read(ann, count=ROWS - 20)
    assert sorted(numbers(hers)) == list(range(20, ROWS))
    for stop in (0, 1, 5):
        rest = server.source(pace(rows=15), consumer="ann", claim=0)
        kept = numbers(hers[: stop + 1])
        found = read(rest, saved(hers[stop].offset), ROWS - 20 - len(kept))
        assert sorted(kept + numbers(found)) == list(range(20, ROWS))
    ann.acknowledge(hers[-1].offset)
    with redis_client(server) as client:
        assert client.xpending(TOPIC, GROUP)["pending"] == 0
    rest = server.source(pace(patience=0.3), consumer="ann", claim=0)
    assert list(rest.read(saved(hers[-1].offset))) == []
    rest.close()


def test_redis_claims_nothing_of_a_consumer_that_lives(begin: Begin) -> None:
    """Though what it was sent is pending for longer than `claim`: its trainer is slow."""
    server = begin(Redis)
    bob = server.source(pace(), consumer="bob")
    his = next(bob.read())
    pending = [f"{number + 1}-0" for number in numbers([his])]
    with redis_client(server) as client:
        client.xclaim(TOPIC, GROUP, "bob", 0, pending, idle=10**9)  # milliseconds
    ann = server.source(pace(), consumer="ann", claim=END)
    hers = read(ann, count=ROWS - 20)
    assert sorted(numbers([his, *hers])) == list(range(ROWS))
    with redis_client(server) as client:
        found = {one["name"]: one["pending"] for one in client.xinfo_consumers(TOPIC, GROUP)}
    assert found == {b"ann": ROWS - 20, b"bob": 20}
    bob.close()


def test_redis_claims_nothing_where_that_is_off(begin: Begin) -> None:
    server = begin(Redis, 60)
    his = read(server.source(pace(), consumer="bob"), count=20)
    hers = read(server.source(pace(), consumer="ann", claim=None), count=40)
    assert (numbers(his), numbers(hers)) == (list(range(20)), list(range(20, 60)))
    with redis_client(server) as client:
        found = {one["name"]: one["pending"] for one in client.xinfo_consumers(TOPIC, GROUP)}
    assert found == {b"ann": 40, b"bob": 20}


def test_redis_claims_so_many_until_they_are_acknowledged(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every offset names them: it must stay short."""
    assert redis_stream.MOST_CLAIMED == 1_000  # as docs/sources.md has it
    monkeypatch.setattr(redis_stream, "MOST_CLAIMED", 30)
    server = begin(Redis, 120)
    read(server.source(pace(), consumer="bob"), count=80)
    ann = server.source(pace(rows=10), consumer="ann", claim=0)
    reading, hers = ann.read(), []
    for claimed in (10, 20, 30, 30, 30, 30, 30):  # then what is new
        hers.append(next(reading))
        assert len(hers[-1].offset["claimed"]) == claimed
    assert numbers(hers) == [*range(30), *range(80, 120)]
    ann.acknowledge(hers[-1].offset)
    hers += [next(reading) for _ in range(3)]
    assert numbers(hers[-3:]) == list(range(30, 60))
    ann.close()


def test_redis_consumers_that_acknowledge_are_alive(begin: Begin) -> None:
    """Or one whose trainer takes long over what was read ahead would be taken for dead."""
    server = begin(Redis)
    source = server.source(pace(), consumer="bob")
    reading = source.read()
    batches = [next(reading), next(reading)]
    began = monotonic()

    def idle() -> float:
        with redis_client(server) as client:
            (bob,) = client.xinfo_consumers(TOPIC, GROUP)
        return float(bob["idle"]) / 1000

    wait_until(lambda: idle() > 0.2)

    def shows() -> bool:
        source.acknowledge(batches[0].offset)
        return idle() < 0.9 * (monotonic() - began)

    wait_until(shows, 10, what="a sign of life")
    source.close()


@pytest.mark.parametrize("use", ["behind", "acknowledge"])
def test_redis_is_not_closed_while_the_trainer_uses_it(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """Ctrl-C closes a source from another thread: its connection may be waited on just then."""
    source = begin(Redis).source(pace())
    reading = source.read()
    offset = next(reading).offset
    within, go_on = threading.Event(), threading.Event()
    name = "info" if use == "behind" else "read_own"
    call = getattr(source._group, name)

    def slow(*given: Any) -> Any:
        within.set()
        go_on.wait(END)
        return call(*given)

    monkeypatch.setattr(source._group, name, slow)
    uses = {"behind": source.behind, "acknowledge": lambda: source.acknowledge(offset)}
    using, closing = threading.Thread(target=uses[use]), threading.Thread(target=source.close)
    using.start()
    assert within.wait(END)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    go_on.set()
    using.join(END)
    closing.join(END)
    assert not closing.is_alive()


def test_redis_reports_what_a_dead_consumer_was_sent_and_is_trimmed(begin: Begin) -> None:
    server = begin(Redis)
    bob = server.source(pace(), consumer="bob")
    read(bob, count=40)
    with redis_client(server) as client:
        client.xtrim(TOPIC, maxlen=ROWS - 30, approximate=False)
    ann = server.source(pace(rows=50), consumer="ann", claim=0)
    with pytest.warns(LostMessagesWarning, match="30 entries sent to bob"):
        hers = read(ann, count=ROWS - 50)
    assert sorted(numbers(hers)) == list(range(30, 30 + ROWS - 50))


def test_redis_goes_by_ids_where_the_group_forgot(begin: Begin) -> None:
    server = begin(Redis)
    batches = read(server.source(pace()))
    with redis_client(server) as client:
        client.xgroup_destroy(TOPIC, GROUP)
    rest = read(server.source(pace()), batches[4].offset, ROWS - 100)
    assert numbers(rest) == list(range(100, ROWS))
    with redis_client(server) as client:
        client.xgroup_setid(TOPIC, GROUP, "0")
    rest = read(server.source(pace()), batches[4].offset, ROWS - 100)
    assert numbers(rest) == list(range(100, ROWS))


def test_redis_replies_lost_on_the_way_are_requested_again(begin: Begin) -> None:
    import redis

    server = begin(Redis)
    source = server.source(pace())
    assert isinstance(source, RedisStream)
    ask, turns = source._read_new, iter(range(100))

    def lossy(count: int) -> Any:
        reply = ask(count)
        if next(turns) in (2, 3, 6):
            raise redis.ConnectionError("cut off after it was sent")
        return reply

    source._read_new = lossy  # type: ignore[method-assign]
    assert numbers(read(source)) == list(range(ROWS))
    retry = source._client.connection_pool.connection_kwargs["retry"]
    assert retry._retries == 0  # by itself the client would pass over what was lost


def test_redis_entries_are_mappings_without_a_payload(begin: Begin) -> None:
    server = begin(Redis, 0)
    assert isinstance(server, Redis)
    started = time()
    with redis_client(server) as client:
        client.xadd(TOPIC, {"a": 1, "picture": b"\xff\xd8"})
        client.xadd(TOPIC, {"data": "{"})
        client.xadd(TOPIC, {"other": "1"})
    plain = RedisStream(server.url, TOPIC, GROUP, pace=pace(patience=0.2))
    (batch,) = plain.read()
    plain.close()
    assert started - 1 <= batch.time <= time() + 1  # ids that the server chose are times
    assert batch.records[0] == {"a": "1", "picture": b"\xff\xd8"}
    payload = server.source(pace(patience=0.2))
    (batch,) = payload.read()
    payload.close()
    assert [isinstance(record, Unreadable) for record in batch.records] == [True] * 3


def test_redis_reports_what_was_trimmed_unread(begin: Begin) -> None:
    server = begin(Redis)
    batches = read(server.source(pace()), count=40)
    with redis_client(server) as client:
        client.xtrim(TOPIC, maxlen=50, approximate=False)
    with pytest.warns(
        LostMessagesWarning, match="has removed messages before they were read: 110 entries after"
    ):
        rest = read(server.source(pace(linger=1.0)), batches[-1].offset, 50)
    assert numbers(rest) == list(range(ROWS - 50, ROWS))


def test_redis_counts_what_is_trimmed_while_it_reads(begin: Begin) -> None:
    server = begin(Redis)
    source = server.source(pace())
    reading = source.read()
    batches = [next(reading) for _ in range(3)]
    with redis_client(server) as client:
        client.xtrim(TOPIC, maxlen=40, approximate=False)
        with pytest.warns(LostMessagesWarning, match=f"{ROWS - 100} entries after 60-0"):
            batches.append(next(reading))
        batches.append(next(reading))
        server.produce(ROWS, threading.Event(), ROWS + 30)
        batches.append(next(reading))  # nothing is counted twice
        client.xtrim(TOPIC, maxlen=0, approximate=False)
        server.produce(ROWS + 30, threading.Event(), ROWS + 60)
        with pytest.warns(LostMessagesWarning, match="10 entries after"):
            batches.append(next(reading))
    source.close()
    found = set(numbers(batches))
    assert found == {*range(60), *range(160, ROWS + 20), *range(ROWS + 30, ROWS + 50)}


def test_redis_counts_what_was_sent_and_is_trimmed_before_it_resumes(begin: Begin) -> None:
    server = begin(Redis)
    batches = read(server.source(pace()), count=100)
    with redis_client(server) as client:
        client.xtrim(TOPIC, maxlen=50, approximate=False)
    with pytest.warns(LostMessagesWarning) as caught:
        rest = read(server.source(pace(linger=1.0)), batches[1].offset, 50)
    lost = [str(one.message).split(": ")[1].split()[0] for one in caught]
    assert lost == ["60", "50"]  # sent and not in the state; never sent
    assert numbers(rest) == list(range(ROWS - 50, ROWS))


def trim(server: Server, left: int) -> None:
    with redis_client(server) as client:
        client.xtrim(TOPIC, maxlen=left, approximate=False)


def test_redis_counts_what_was_trimmed_once_for_each_state(begin: Begin) -> None:
    """Killed with -9 before it saved the count: the next of its name has it, from any offset on."""
    server = begin(Redis)
    source = server.source(pace(linger=1.0))
    reading = source.read()
    batches = [next(reading), next(reading)]
    trim(server, 100)
    with pytest.warns(LostMessagesWarning, match="60 entries after 40-0"):
        batches += [next(reading), next(reading)]
    assert [batch.lost for batch in batches] == [0, 0, 60, 0]
    source.close()
    for stop, lost in ((1, 60), (2, 0)):
        again = server.source(pace(linger=1.0))
        offset, left = saved(batches[stop].offset), 120 - 20 * stop
        if lost:
            with pytest.warns(LostMessagesWarning, match="60 entries before"):
                rest = read(again, offset, left)
        else:
            rest = read(again, offset, left)
        assert sum(batch.lost for batch in rest) == lost
        assert numbers(batches[: stop + 1] + rest)[-100:] == list(range(100, ROWS))


def test_redis_counts_what_is_trimmed_while_it_reads_again(begin: Begin) -> None:
    server = begin(Redis)
    batches = read(server.source(pace()))
    again = server.source(pace(linger=1.0))
    reading = again.read(saved(batches[0].offset))
    rest = [next(reading)]
    trim(server, 100)
    with pytest.warns(LostMessagesWarning, match="60 entries after 40-0"):
        rest += [next(reading) for _ in range(5)]
    again.close()
    assert numbers(rest) == [*range(20, 40), *range(100, ROWS)]
    assert [batch.lost for batch in rest] == [0, 60, 0, 0, 0, 0]


def test_redis_counts_what_was_claimed_and_is_trimmed(begin: Begin) -> None:
    server = begin(Redis)
    read(server.source(pace(), consumer="bob"), count=40)
    trim(server, 180)
    with pytest.warns(LostMessagesWarning, match="20 entries sent to bob"):
        hers = read(server.source(pace(), consumer="ann", claim=0), count=40)
    assert sorted(numbers(hers)) == list(range(20, 60))
    trim(server, 100)  # before she has saved the second batch
    with pytest.warns(LostMessagesWarning) as caught:
        rest = read(server.source(pace(), consumer="ann", claim=0), hers[0].offset, 100)
    assert numbers(rest) == list(range(100, ROWS))
    assert [batch.lost for batch in [*hers, *rest]] == [20, 0, 60, 0, 0, 0, 0]
    lost = [str(one.message).split(": ")[1] for one in caught]
    assert lost == ["20 entries that were claimed.", "40 entries after 60-0."]


def test_redis_reports_what_was_deleted_unread(begin: Begin) -> None:
    server = begin(Redis)
    batches = read(server.source(pace()), count=40)
    with redis_client(server) as client:
        client.xdel(TOPIC, "50-0", "60-0")
    with pytest.warns(LostMessagesWarning, match="entries between 40-0 and 60-0"):
        rest = read(server.source(pace(linger=1.0)), batches[-1].offset, 158)
    assert len(numbers(rest)) == 158


def test_redis_passes_over_deleted_entries_that_are_pending(begin: Begin) -> None:
    server = begin(Redis, 40)
    reader = server.source(pace(patience=0.3))
    with redis_client(server) as client:
        client.xgroup_create(TOPIC, GROUP, "0")
        client.xgroup_createconsumer(TOPIC, GROUP, "another")
        client.xreadgroup(GROUP, "tamis", {TOPIC: ">"}, 30)
        client.xdel(TOPIC, *[f"{number + 1}-0" for number in range(25)])
    with pytest.warns(LostMessagesWarning) as caught:
        assert numbers(list(reader.read())) == list(range(25, 40))
    lost = [str(one.message).split(": ")[1] for one in caught]
    assert lost == ["20 entries after 0-0.", "5 entries after 20-0."]  # a fetch has 20
    reader.close()


# NATS


def ask_nats(server: Server, question: Callable[[Any], Awaitable[Any]]) -> Any:
    import nats

    async def run() -> Any:
        assert isinstance(server, Nats)
        client = await nats.connect(server.url)
        try:
            return await question(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def make_again(server: Server, **settings: Any) -> None:
    """Make the stream again, of another kind."""

    async def make(jetstream: Any) -> None:
        await jetstream.delete_stream(TOPIC)
        await jetstream.add_stream(name=TOPIC, subjects=[TOPIC, f"{TOPIC}.*"], **settings)

    ask_nats(server, make)


def test_nats_acknowledges_up_to_the_offset(begin: Begin) -> None:
    server = begin(Nats)
    source = server.source(pace())
    reading = source.read()
    batches = [next(reading) for _ in range(5)]
    source.acknowledge(batches[2].offset)
    about = ask_nats(server, lambda jetstream: jetstream.consumer_info(TOPIC, GROUP))
    assert about.ack_floor.stream_seq == 60
    assert about.num_ack_pending == 40
    source.close()


def test_nats_work_queues_go_on_with_what_was_not_acknowledged(begin: Begin) -> None:
    server = begin(Nats, 0)
    make_again(server, retention="workqueue")
    server.produce(0, threading.Event(), ROWS)
    source = server.source(pace())
    reading = source.read()
    batches = [next(reading) for _ in range(6)]
    source.acknowledge(batches[2].offset)
    source.close()
    rest = server.source(pace())
    found = [batch for _, batch in zip(range(6), rest.read(batches[3].offset), strict=False)]
    assert numbers(found) == list(range(80, ROWS))
    rest.acknowledge(found[-1].offset)  # with it what came before, and was passed over
    wait_until(
        lambda: not ask_nats(server, lambda stream: stream.stream_info(TOPIC)).state.messages
    )
    rest.close()


def test_nats_streams_kept_by_interest_are_refused(begin: Begin) -> None:
    server = begin(Nats, 0)
    make_again(server, retention="interest")
    source = server.source(pace())
    with pytest.raises(SourceError, match="keeps messages by interest"):
        next(source.read())
    source.close()


def test_nats_streams_that_are_not_there_are_reported(begin: Begin) -> None:
    server = begin(Nats, 0)
    assert isinstance(server, Nats)
    source = NatsStream(server.url, "nothing", GROUP)
    with pytest.raises(SourceError, match=r"cannot be read: nats.*stream not found"):
        next(source.read())
    source.close()


def test_nats_subjects_leave_gaps_that_are_no_loss(begin: Begin) -> None:
    server = begin(Nats, 0)
    make_again(server)

    async def publish(jetstream: Any) -> None:
        for number in range(40):
            subject = f"{TOPIC}.{'odd' if number % 2 else 'even'}"
            await jetstream.publish(subject, json.dumps({"id": number}).encode())

    ask_nats(server, publish)
    source = server.source(pace(), subject=f"{TOPIC}.odd")
    assert numbers(read(source, count=20)) == list(range(1, 40, 2))


def test_nats_reports_what_was_removed_of_a_subject_before_it_joins(begin: Begin) -> None:
    server = begin(Nats)
    batches = read(server.source(pace(), subject=TOPIC), count=40)
    ask_nats(server, lambda jetstream: jetstream.purge_stream(TOPIC, seq=101))
    with pytest.warns(LostMessagesWarning, match="41 to 100, those of other subjects among them"):
        rest = read(server.source(pace(), subject=TOPIC), batches[-1].offset, 100)
    assert numbers(rest) == list(range(100, ROWS))
    assert not any(batch.lost for batch in rest)  # how many of them is not known


def test_nats_messages_lost_on_the_way_are_requested_again(begin: Begin) -> None:
    server = begin(Nats)
    source = server.source(pace())
    assert isinstance(source, NatsStream)
    fetch, turns = source._fetch, iter(range(100))

    async def lossy(count: int, seconds: float) -> list[Any]:
        found = await fetch(count, seconds)
        return found[5:] if next(turns) in (2, 3, 6) else found

    source._fetch = lossy  # type: ignore[method-assign]
    assert numbers(read(source)) == list(range(ROWS))


def test_nats_reports_what_was_removed_unread(begin: Begin) -> None:
    server = begin(Nats)
    batches = read(server.source(pace()), count=40)
    ask_nats(server, lambda jetstream: jetstream.purge_stream(TOPIC, seq=101))
    with pytest.warns(LostMessagesWarning, match="numbers 41 to 100"):
        rest = read(server.source(pace()), batches[-1].offset, 100)
    assert numbers(rest) == list(range(100, ROWS))
    assert [batch.lost for batch in rest] == [60, 0, 0, 0, 0]


def test_nats_counts_what_is_removed_while_it_reads(begin: Begin) -> None:
    server = begin(Nats)
    source = server.source(pace())
    reading = source.read()
    batches = [next(reading), next(reading)]
    ask_nats(server, lambda jetstream: jetstream.purge_stream(TOPIC, seq=101))
    with pytest.warns(LostMessagesWarning, match="numbers 41 to 100"):
        batches += [next(reading) for _ in range(5)]
    source.close()
    assert numbers(batches) == [*range(40), *range(100, ROWS)]
    assert [batch.lost for batch in batches] == [0, 0, 60, 0, 0, 0, 0]


def test_a_reader_of_nats_stops_where_another_takes_its_consumer(begin: Begin) -> None:
    """Even where both were sent as many messages, so that their numbers go on."""
    server = begin(Nats)
    first, second = server.source(pace()), server.source(pace())
    from_first, from_second = first.read(), second.read()
    his, hers = [next(from_first)], [next(from_second)]
    with pytest.raises(SourceError, match=r"is read by another reader now: give each a durable"):
        his.append(next(from_first))
    hers += [next(from_second) for _ in range(9)]
    assert numbers(hers) == list(range(ROWS))
    first.close()
    second.close()


# Kafka's mock


def committed(server: Server, partitions: int = 3) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    assert isinstance(server, KafkaMock)
    client = Consumer({"bootstrap.servers": server.servers, "group.id": GROUP})
    partitions_of = [TopicPartition(TOPIC, partition) for partition in range(partitions)]
    found = [part.offset for part in client.committed(partitions_of, timeout=END)]
    client.close()
    return found


def test_kafka_commits_up_to_the_offset(begin: Begin) -> None:
    server = begin(KafkaMock)
    source = server.source(pace())
    reading = source.read()
    batches = [next(reading) for _ in range(5)]
    source.acknowledge(batches[2].offset)
    source.close()
    ours = batches[2].offset["ours"]
    assert committed(server) == [ours[str(partition)] for partition in range(3)]


@pytest.mark.slow
def test_kafka_members_share_the_partitions(begin: Begin) -> None:
    """Each is checkpointed at every batch, so that a partition moves with all that was read."""
    server = begin(KafkaMock, 100)
    seen: list[int] = []
    first, second = (ReadAhead(server.source(pace(rows=1)), 1) for _ in range(2))
    left = threading.Event()

    def consume(ahead: ReadAhead, most: float) -> None:
        for count, batch in enumerate(ahead.read(), 1):
            seen.extend(record["id"] for record in batch.records)
            ahead.acknowledge(batch.offset)
            if count >= most:
                break

    def come_and_go() -> None:
        consume(second, 200)
        second.close()
        left.set()

    threads = [threading.Thread(target=consume, args=(first, float("inf")))]
    threads.append(threading.Thread(target=come_and_go))
    sent = 100
    threads[0].start()
    wait_until(lambda: seen)
    threads[1].start()
    after = 0
    while after < 3:  # some more are sent once the second has gone
        after += left.is_set()
        sent = server.produce(sent, threading.Event(), sent + 100)
        wait_until(lambda sent=sent: len(set(seen)) == sent, what="every message")
    first.close()
    for thread in threads:
        thread.join()
    assert set(seen) == set(range(sent))
    assert len(seen) < sent + 30  # what was in hand when a partition moved, at each of the moves


def test_kafka_tombstones_and_damaged_values_are_unreadable(begin: Begin) -> None:
    from confluent_kafka import Producer

    server = begin(KafkaMock, 0)
    assert isinstance(server, KafkaMock)
    producer = Producer({"bootstrap.servers": server.servers})
    producer.produce(TOPIC, None, key="gone", partition=0)
    producer.produce(TOPIC, b"{", partition=0)
    producer.produce(TOPIC, b'{"id": 1}', partition=0)
    producer.flush(END)
    source = server.source(pace(rows=3))
    (batch,) = read(source, count=3)
    assert [type(record) for record in batch.records] == [Unreadable, Unreadable, dict]


def remove(server: Server) -> None:
    """Send so much that the mock removes what came first: it keeps 5 MB of a partition."""
    from confluent_kafka import Producer

    assert isinstance(server, KafkaMock)
    producer = Producer({"bootstrap.servers": server.servers, "log_level": 0})
    for number in range(ROWS, ROWS + 8):
        record = json.dumps({"id": number, "padding": 900_000 * "x"})
        producer.produce(TOPIC, record.encode(), partition=0)
        assert producer.flush(END) == 0


@pytest.mark.slow
def test_kafka_reports_what_was_removed_unread(begin: Begin) -> None:
    server = begin(KafkaMock, partitions=1)
    (first,) = read(server.source(pace()), count=20)
    remove(server)
    with pytest.warns(LostMessagesWarning, match=f"{ROWS - 20 + 3} of partition 0"):
        (rest,) = read(server.source(pace(rows=5)), saved(first.offset), 5)
    assert numbers([rest]) == list(range(ROWS + 3, ROWS + 8))
    assert (first.lost, rest.lost) == (0, ROWS - 20 + 3)


@pytest.mark.slow
def test_kafka_counts_what_is_removed_while_it_reads(begin: Begin) -> None:
    server = begin(KafkaMock, 20, partitions=1)
    source = server.source(pace(rows=5))
    reading = source.read()
    batches = [next(reading) for _ in range(4)]
    remove(server)
    with pytest.warns(LostMessagesWarning, match="3 of partition 0"):
        batches.append(next(reading))
    source.close()
    assert numbers(batches) == [*range(20), *range(ROWS + 3, ROWS + 8)]
    assert [batch.lost for batch in batches] == [0, 0, 0, 0, 3]


class Breaking:
    """A client whose connection breaks during a fetch that returns messages all the same."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.client = source._client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def consume(self, count: int, timeout: float) -> list[Any]:
        found: list[Any] = self.client.consume(count, timeout=timeout)
        self.source._broken = bool(found)
        return found


def test_kafka_connects_again_after_a_fetch_during_which_it_broke(begin: Begin) -> None:
    server = begin(KafkaMock)
    source = server.source(pace())
    assert isinstance(source, KafkaTopic)
    reading = source.read()
    batches = [next(reading)]
    source._client = Breaking(source)
    batches += [next(reading) for _ in range(ROWS // 20 - 1)]
    assert sorted(numbers(batches)) == list(range(ROWS))
    source.close()


def test_kafka_settings_that_do_not_fit_are_refused() -> None:
    source = KafkaTopic("127.0.0.1:1", TOPIC, GROUP, settings={"no.such": "1"})
    with pytest.raises(SourceError, match=r"settings that do not fit.*no\.such"):
        next(source.read())
    source.close()


def test_kafka_secrets_that_its_client_names_are_hidden() -> None:
    source = KafkaTopic("127.0.0.1:1", TOPIC, GROUP, settings={"sasl.oauthbearer.method": SECRET})
    with pytest.raises(SourceError, match=r'Invalid value "\*\*\*" for .*oauthbearer') as caught:
        next(source.read())
    source.close()
    assert_one_sentence(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
