"""Records as strangers send them: a few good ones, and everything else that bytes can be."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

GOOD = {"a": 1.5, "b": -2, "kind": "bee", "id": 7}
ODD = [
    None, True, [], {}, "", " ", "NaN", "-Infinity", "1e999", 10**400, -(2**70), 1e308, "\ud800",
    "\x00", "bee", "ant", ["ant"], [[1], [2, 3]], [[]], {"a": {"a": {}}}, "9" * 5000, -0.0, "٣",
]  # fmt: skip


def records(count: int, seed: int = 0) -> Iterator[bytes]:
    """Make up lines without a newline in them, the same ones for a seed."""
    rng = random.Random(seed)  # noqa: S311 (no secret depends on it)
    for _ in range(count):
        line = rng.choice(WAYS)(rng).replace(b"\n", b" ")
        yield line if line.strip() else b"-"  # an empty line is no record


def good(rng: random.Random) -> bytes:
    return json.dumps({**GOOD, "a": rng.random(), "id": rng.getrandbits(62)}).encode()


def odd_value(rng: random.Random) -> bytes:
    return json.dumps({**GOOD, rng.choice(list(GOOD)): rng.choice(ODD)}).encode()


def missing(rng: random.Random) -> bytes:
    return json.dumps({name: GOOD[name] for name in rng.sample(list(GOOD), 3)}).encode()


def not_a_mapping(rng: random.Random) -> bytes:
    return json.dumps(rng.choice(ODD)).encode()


def cut(rng: random.Random) -> bytes:
    line = good(rng)
    return line[: rng.randrange(len(line))]


def flipped(rng: random.Random) -> bytes:
    line = bytearray(good(rng))
    for _ in range(rng.randint(1, 4)):
        line[rng.randrange(len(line))] ^= 1 << rng.randrange(8)
    return bytes(line)


def noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(80))


def deep(rng: random.Random) -> bytes:
    return rng.choice([b"[", b'{"a":']) * rng.randrange(3_000)


def long(rng: random.Random) -> bytes:
    return b'{"a": "' + b"x" * rng.randrange(20_000) + b'"}'


WAYS = [good] * 6 + [odd_value, missing, not_a_mapping, cut, flipped, noise] * 2 + [deep, long]
