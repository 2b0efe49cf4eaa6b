"""A client that sends predictions and labels over many connections, and measures the answers.

python -m benchmarks.service_client URL --seconds 60 --connections 16
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

LABELS = 0.5
"""Share of predicted rows that get a label."""
COLUMNS = 10


class Connection:
    """One connection, which is kept; a request at a time."""

    def __init__(self, url: str, measured: dict[str, list[float]], statuses: Counter[int]) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname, address.port
        self.measured, self.statuses = measured, statuses

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def post(self, path: str, body: Any) -> Any:
        """Send a request, and return the answer; note how long it took."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        started = perf_counter()
        self.writer.write(head.encode() + content)
        answered = await self.reader.readuntil(b"\r\n\r\n")
        fields = answered.lower().split(b"content-length:")[1]
        answer = await self.reader.readexactly(int(fields.split(b"\r\n")[0]))
        self.measured[path].append(perf_counter() - started)
        self.statuses[int(answered[9:12])] += 1
        return json.loads(answer)


async def load(connection: Connection, until: float, pause: float, seed: int) -> None:
    """Predict rows, and label some of them later, as truth would come."""
    rng = random.Random(seed)  # noqa: S311
    await connection.open()
    if pause:
        await asyncio.sleep(rng.random() * pause)
    while perf_counter() < until:
        began = perf_counter()
        row = {f"x{at}": rng.gauss(0, 1) for at in range(COLUMNS)}
        found = await connection.post("/predict", {"rows": [row]})
        if rng.random() < LABELS and "predictions" in found:
            label = "high" if row["x0"] + row["x1"] > 0 else "low"
            await connection.post("/labels", {"id": found["predictions"][0]["id"], "label": label})
        if pause:
            await asyncio.sleep(max(0.0, pause - (perf_counter() - began)))


async def run(url: str, seconds: float, connections: int, rate: float) -> dict[str, Any]:
    """Return throughput and latencies of some seconds of load."""
    measured: dict[str, list[float]] = {"/predict": [], "/labels": []}
    statuses: Counter[int] = Counter()
    started = perf_counter()
    pause = connections / rate if rate else 0.0
    await asyncio.gather(
        *(
            load(Connection(url, measured, statuses), started + seconds, pause, seed)
            for seed in range(connections)
        )
    )
    took = perf_counter() - started
    both = sorted(measured["/predict"] + measured["/labels"])
    return {
        "rate": len(both) / took,
        "p50": 1000 * both[len(both) // 2],
        "p99": 1000 * both[int(0.99 * len(both))],
        "statuses": dict(statuses),
        "predictions": len(measured["/predict"]),
        "labels": len(measured["/labels"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0, help="rows a second; 0 is all that go")
    options = parser.parse_args()
    found = run(options.url, options.seconds, options.connections, options.rate)
    print(json.dumps(asyncio.run(found)))


if __name__ == "__main__":
    main()
