"""The matrix of faults, in short: `python -m benchmarks.faults_sources` is the long form."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import get_args

import pytest

from tamis.sources import Policy
from tests.support.brokers import BROKERS, Nats, Redis, record
from tests.support.faults.consumers import SHARED, SharedNats, SharedRedis, share
from tests.support.faults.sources import Through, flood, kill_the_consumer, restart_under_load
from tests.support.faults.stream_kills import SOURCES, kill_stream

every_broker = pytest.mark.parametrize("kind", BROKERS, ids=lambda kind: kind.__name__)


@pytest.mark.slow
@every_broker
def test_a_broker_restarted_under_load_loses_and_doubles_nothing(
    tmp_path: Path, kind: type
) -> None:
    if reason := kind.missing():  # type: ignore[attr-defined]
        pytest.skip(reason)
    server = kind(tmp_path)
    try:
        through = restart_under_load(server, 2)
    finally:
        server.close()
    assert (through.faults, through.lost, through.duplicates) == (2, 0, 0)
    assert through.sent >= 600


@pytest.mark.slow
@every_broker
def test_a_consumer_killed_loses_and_doubles_nothing(tmp_path: Path, kind: type) -> None:
    if reason := kind.missing():  # type: ignore[attr-defined]
        pytest.skip(reason)
    server = kind(tmp_path)
    try:
        server.produce(0, threading.Event(), 400)
        through = kill_the_consumer(server.address, tmp_path, 400, 1)
    finally:
        server.close()
    assert through == Through(faults=1, sent=400, lost=0, duplicates=0)


@pytest.mark.slow
def test_a_consumer_of_a_file_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(record(number) + b"\n" for number in range(400)))
    through = kill_the_consumer(str(path), tmp_path, 400, 1)
    assert through == Through(faults=1, sent=400, lost=0, duplicates=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED, ids=lambda kind: kind.__name__)
def test_two_consumers_lose_and_double_nothing_unreported(tmp_path: Path, kind: type) -> None:
    """Joining, leaving and killed with -9, among trimming and rotation."""
    server = {SharedRedis: Redis, SharedNats: Nats}.get(kind)
    if server and (reason := server.missing()):
        pytest.skip(reason)
    row = share(kind, tmp_path, 5, seed=1)
    assert row.met, row
    assert row.passed == 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_tamis_stream_killed_goes_on_as_if_it_was_not(tmp_path: Path, kind: str) -> None:
    server = {"Redis": Redis, "NATS": Nats}.get(kind)
    if server and (reason := server.missing()):
        pytest.skip(reason)
    row = kill_stream(kind, tmp_path, 1)
    assert row.met, row


@pytest.mark.parametrize("policy", get_args(Policy))
def test_a_producer_ten_times_too_fast_fills_no_more_than_the_queue(
    tmp_path: Path, policy: Policy
) -> None:
    flooded = flood(tmp_path, policy, taking=2_000, cap=2_000)
    assert 500 < flooded.highest <= flooded.cap
    assert flooded.taken >= 2_000
    if policy == "block":
        assert flooded.dropped == 0
        assert flooded.behind is not None
        assert flooded.behind > 10_000
    else:
        assert flooded.dropped > 5_000
