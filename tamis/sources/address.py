"""Sources by address."""

from __future__ import annotations

import math
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from tamis.sources.files import Files
from tamis.sources.kafka_topic import KafkaTopic
from tamis.sources.messages import Pace, Start
from tamis.sources.nats_stream import NatsStream
from tamis.sources.part import COMPLETE, Part
from tamis.sources.protocol import Decode, Source, SourceError, from_json
from tamis.sources.redaction import redact
from tamis.sources.redis_stream import RedisStream


def open_source(
    address: str | Path,
    *,
    rows: int = 100,
    follow: bool = False,
    patience: float | None = None,
    linger: float = 0.1,
    start: Start = "first",
    skip_lost: bool = False,
    decode: Decode = from_json,
    part: Part = COMPLETE,
) -> Source:
    """Return the source at an address; secrets in it are never printed.

    A path, a pattern, or an address that fsspec knows: files, once or with `follow` as they grow.
    `redis://user:password@host:6379/0?stream=S&group=G`, and
    `&consumer=C&payload=FIELD&claim=SECONDS`;
    `nats://user:password@host:4222?stream=S&durable=D`, and `&subject=J`;
    `kafka://user:password@host:9092,host:9092/TOPIC?group=G`, and any setting of its client.
    `rediss`, `tls` and `kafkas` are the same over TLS. A broker's stream ends after `patience`
    seconds without a message, and never by itself; `linger` is that of `Pace`. `skip_lost` goes
    past what cannot be read again. One of several readers has a `part`: files by their names, a
    consumer of its own of Redis or NATS, partitions of Kafka by their numbers.
    """
    text = str(address)
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in BROKERS:
        return Files(
            text, rows=rows, follow=follow, patience=patience if follow else None,
            skip_lost=skip_lost, decode=decode, part=part,
        )  # fmt: skip
    parts, settings = split(text)
    pace = Pace(rows=rows, linger=linger, patience=patience)
    if scheme in ("redis", "rediss"):
        stream, group = (take(settings, name, text) for name in ("stream", "group"))
        payload = settings.pop("payload", None)
        consumer, claim = consumer_of(settings, text, part)
        return RedisStream(
            rest(parts, settings), stream, group, consumer=consumer, payload=payload,
            claim=claim, decode=decode, start=start, pace=pace, skip_lost=skip_lost,
        )  # fmt: skip
    if scheme in ("nats", "tls"):
        stream, durable = (take(settings, name, text) for name in ("stream", "durable"))
        subject = settings.pop("subject", None)
        refuse(settings, text)
        return NatsStream(
            rest(parts, {}), stream, durable if part.of == 1 else f"{durable}-{part.number}",
            subject=subject, decode=decode, start=start, pace=pace, skip_lost=skip_lost, part=part,
        )  # fmt: skip
    group = take(settings, "group", text)
    who, at, servers = parts.netloc.rpartition("@")
    topic = parts.path.strip("/")
    if not topic:
        raise SourceError(f"{redact(text)} must name a topic: kafka://host:9092/TOPIC?group=G.")
    secure = kafka_security(scheme, who if at else None)
    return KafkaTopic(
        servers, topic, group,
        settings=secure | settings, decode=decode, start=start, pace=pace, skip_lost=skip_lost,
        part=part,
    )  # fmt: skip


BROKERS = ("redis", "rediss", "nats", "tls", "kafka", "kafkas")


def consumer_of(settings: dict[str, str], address: str, part: Part) -> tuple[str, float | None]:
    """Return the name of a consumer of Redis, and after how long another one counts as dead.

    One of several parts claims nothing: what another was sent may be trained on already.
    """
    name = settings.pop("consumer", "tamis")
    claim = seconds(settings.pop("claim", "600"), address)
    return (name, claim) if part.of == 1 else (f"{name}-{part.number}", None)


def split(address: str) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts of an address, and its settings."""
    try:
        parts = urlsplit(address)
        several = "," in parts.netloc  # servers of Kafka, whose ports are its client's business
        if several or parts.port is None or parts.port:
            return parts, dict(parse_qsl(parts.query, True, True))
    except ValueError:
        pass
    raise SourceError(f"{redact(address)} is not a readable address.")


def kafka_security(scheme: str, who: str | None) -> dict[str, str]:
    """Return the settings of Kafka's client for a scheme, and for user and password if any."""
    layer = "SSL" if scheme == "kafkas" else "PLAINTEXT"
    if who is None:
        return {"security.protocol": layer}
    user, _, password = who.partition(":")
    return {
        "security.protocol": f"SASL_{layer}",
        "sasl.mechanism": "PLAIN",
        "sasl.username": unquote(user),
        "sasl.password": unquote(password),
    }


def take(settings: dict[str, str], name: str, address: str) -> str:
    """Remove and return a setting that an address must have."""
    value = settings.pop(name, "")
    if not value:
        raise SourceError(f"{redact(address)} must have {name}=...")
    return value


def seconds(value: str, address: str) -> float | None:
    """Return a time in seconds; None for "never"."""
    try:
        number = None if value == "never" else float(value)
    except ValueError:
        number = math.nan
    if number is not None and not 0 < number < math.inf:
        raise SourceError(f"{redact(address)} must have seconds or never in claim=...")
    return number


def refuse(settings: dict[str, str], address: str) -> None:
    """Raise on settings that are unknown."""
    if settings:
        raise SourceError(f"{redact(address)} has unknown settings: {', '.join(settings)}.")


def rest(parts: SplitResult, settings: dict[str, str]) -> str:
    """Return the address with the settings that its client reads itself."""
    return parts._replace(query=urlencode(settings)).geturl()
