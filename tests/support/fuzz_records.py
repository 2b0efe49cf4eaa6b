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
    chance = random.Random(seed)  # noqa: S311 (no secret depends on it)
    for _ in range(count):
        line = chance.choice(WAYS)(chance).replace(b"\n", b" ")
        yield line if line.strip() else b"-"  # an empty line is no record


def good(chance: random.Random) -> bytes:
    return json.dumps({**GOOD, "a": chance.random(), "id": chance.getrandbits(62)}).encode()


def odd_value(chance: random.Random) -> bytes:
    return json.dumps({**GOOD, chance.choice(list(GOOD)): chance.choice(ODD)}).encode()


def missing(chance: random.Random) -> bytes:
    return json.dumps({name: GOOD[name] for name in chance.sample(list(GOOD), 3)}).encode()


def not_a_mapping(chance: random.Random) -> bytes:
    return json.dumps(chance.choice(ODD)).encode()


def cut(chance: random.Random) -> bytes:
    whole = good(chance)
    return whole[: chance.randrange(len(whole))]


def flipped(chance: random.Random) -> bytes:
    whole = bytearray(good(chance))
    for _ in range(chance.randint(1, 4)):
        whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
    return bytes(whole)


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(80))


def deep(chance: random.Random) -> bytes:
    return chance.choice([b"[", b'{"a":']) * chance.randrange(3_000)


def long(chance: random.Random) -> bytes:
    return b'{"a": "' + b"x" * chance.randrange(20_000) + b'"}'


WAYS = [good] * 6 + [odd_value, missing, not_a_mapping, cut, flipped, noise] * 2 + [deep, long]
