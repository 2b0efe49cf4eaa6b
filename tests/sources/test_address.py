"""Sources by address, and no secret of an address anywhere."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from tamis.sources import Files, KafkaTopic, NatsStream, RedisStream, SourceError, open_source
from tamis.sources.redaction import redact, scrub

SECRET = "p@ss/w?rd&x"  # noqa: S105
ESCAPED = "p%40ss%2Fw%3Frd%26x"


def test_paths_and_patterns_are_files(tmp_path: Path) -> None:
    for address in (tmp_path, f"{tmp_path}/*.csv", "rows.jsonl", "memory://there/*.parquet"):
        source = open_source(address, rows=7, follow=True)
        assert isinstance(source, Files)
        assert (source.rows, source.follow) == (7, True)


def test_redis() -> None:
    source = open_source(
        f"redis://ann:{ESCAPED}@there:6380/2?stream=rows&group=g&consumer=c&payload=data&claim=9&protocol=3",
        rows=7,
        patience=3,
        start="new",
    )
    assert isinstance(source, RedisStream)
    assert (source.stream, source.group, source.consumer) == ("rows", "g", "c")
    assert source.claim == 9
    assert (source.payload, source.start, source.rows, source.pace.patience) == (
        "data", "new", 7, 3,
    )  # fmt: skip
    settings = source._client.connection_pool.connection_kwargs
    assert (settings["host"], settings["port"], settings["db"]) == ("there", 6380, 2)
    assert (settings["username"], settings["password"]) == ("ann", SECRET)
    assert settings["protocol"] == 3
    source.close()


@pytest.mark.parametrize(("setting", "claim"), [("", 600), ("&claim=never", None)])
def test_when_redis_claims(setting: str, claim: float | None) -> None:
    source = open_source(f"redis://there?stream=rows&group=g{setting}")
    assert isinstance(source, RedisStream)
    assert source.claim == claim
    assert RedisStream("redis://there", "rows", "g").claim == 600


def test_nats() -> None:
    source = open_source(f"nats://ann:{ESCAPED}@there:4222?stream=rows&durable=d&subject=rows.a")
    assert isinstance(source, NatsStream)
    assert (source.stream, source.durable, source.subject) == ("rows", "d", "rows.a")
    assert source.url == f"nats://ann:{ESCAPED}@there:4222"


def test_kafka() -> None:
    source = open_source(
        f"kafkas://ann:{ESCAPED}@one:9092,two:9092/rows?group=g&session.timeout.ms=6000"
    )
    assert isinstance(source, KafkaTopic)
    assert (source.servers, source.topic, source.group) == ("one:9092,two:9092", "rows", "g")
    assert source.settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": SECRET,
        "session.timeout.ms": "6000",
    }
    plain = open_source("kafka://one:9092/rows?group=g")
    assert isinstance(plain, KafkaTopic)
    assert plain.settings == {"security.protocol": "PLAINTEXT"}


WHO = f"ann:{ESCAPED}@127.0.0.1"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (f"redis://{WHO}:6379/0?group=g", "must have stream="),
        (f"redis://{WHO}:6379/0?stream=s", "must have group="),
        (f"redis://{WHO}:port/0?stream=s&group=g", "is not a readable address"),
        (f"redis://{WHO}:6379/0?stream=s&group=g&odd", "is not a readable address"),
        (f"redis://{WHO}:6379/0?stream=s&group=g&claim=soon", "must have seconds or never"),
        (f"nats://{WHO}:4222?stream=s", "must have durable="),
        (f"nats://{WHO}:4222?stream=s&durable=d&odd=1", "unknown settings: odd"),
        (f"kafka://{WHO}:9092?group=g", "must name a topic"),
        (f"kafka://{WHO}:9092/rows", "must have group="),
        (f"nowhere://{WHO}/rows.csv", "cannot be reached"),
    ],
)
def test_what_is_missing_is_reported_without_secrets(address: str, words: str) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        open_source(address)
    assert_hidden("".join(traceback.format_exception(caught.value)))


def assert_hidden(text: str) -> None:
    assert SECRET not in text
    assert ESCAPED not in text
    assert "***@" in text


@pytest.mark.parametrize(
    "address",
    [
        f"redis://ann:{ESCAPED}@127.0.0.1:1/0?stream=s&group=g",
        f"redis://:{ESCAPED}@127.0.0.1:1/0?stream=s&group=g",
        f"nats://ann:{ESCAPED}@127.0.0.1:1?stream=s&durable=d",
        f"nats://{ESCAPED}@127.0.0.1:1?stream=s&durable=d",
    ],
)
def test_no_secret_is_printed_or_logged(
    address: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    source = open_source(address)
    with pytest.raises(SourceError) as caught:
        next(source.read())
    source.acknowledge("1-0" if address.startswith("redis") else 1)
    source.close()
    printed = [repr(source), str(source), caplog.text, *capfd.readouterr()]
    assert_hidden("".join(traceback.format_exception(caught.value)) + " ".join(printed))


def test_no_secret_of_kafka_is_printed_or_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    source = open_source(f"kafka://ann:{ESCAPED}@127.0.0.1:1/rows?group=g")
    with pytest.raises(SourceError) as caught:
        next(source.read())
    source.close()
    printed = "".join(traceback.format_exception(caught.value)) + repr(source) + caplog.text
    printed += " ".join(capfd.readouterr())
    assert SECRET not in printed
    assert ESCAPED not in printed


@pytest.mark.parametrize(
    ("address", "redacted"),
    [
        ("redis://ann:w0rd@h:1/0?stream=s", "redis://ann:***@h:1/0?stream=s"),
        ("redis://:w0rd@h", "redis://***@h"),
        ("nats://w0rd@h", "nats://***@h"),
        ("redis://ann:w0/rd?x@y@h/0", "redis://ann:***@h/0"),
        ("s3://h/rows?secret_key=w0rd&x=1", "s3://h/rows?secret_key=***&x=1"),
        ("abfs://h/rows?sig=w0rd", "abfs://h/rows?sig=***"),
        ("kafka://h/rows?sasl.password=w0rd", "kafka://h/rows?sasl.password=***"),
        ("/home/ann@here/rows.csv", "/home/ann@here/rows.csv"),
        ("redis://h:1/0?stream=s&group=g", "redis://h:1/0?stream=s&group=g"),
    ],
)
def test_hiding(address: str, redacted: str) -> None:
    assert redact(address) == redacted
    printed = scrub(f"{address} failed, w0rd is wrong", address)
    assert printed.startswith(f"{redacted} failed")
    assert ("w0rd" in printed) is ("w0rd" not in address)


def test_words_of_others_are_scrubbed() -> None:
    address: Any = f"redis://ann:{ESCAPED}@h"
    assert scrub(f"no {SECRET} nor {ESCAPED}", address) == "no *** nor ***"
