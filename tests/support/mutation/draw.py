"""Mutants drawn by a seed: as many of each room, each operator in its turn."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice, zip_longest
from pathlib import Path

from tests.support.mutation.operators import OPERATORS, Mutant, mutants_of, parses

ROOMS = (
    "selectors", "noise", "buffers", "checkpoint", "sources", "training", "distributed", "review",
)  # fmt: skip
LEFT_OUT = ("tamis/selectors/ogrs/kernels.py",)
"""What `make test` does not import: Triton's language, which takes a GPU."""


def draw(root: Path, seed: int, each: int, rooms: Iterable[str] = ROOMS) -> list[Mutant]:
    """Return the mutants of a seed.

    They are ordered by a digest of seed and mutant, so that a change of one line of the library
    changes the draw by that line's mutants and no others.
    """

    def order(name: str) -> str:
        return sha256(f"{seed}:{name}".encode()).hexdigest()

    drawn: list[Mutant] = []
    for room in rooms:
        names = [str(path.relative_to(root)) for path in (root / "tamis" / room).rglob("*.py")]
        found = [
            mutant
            for name in names
            if name not in LEFT_OUT
            for mutant in mutants_of(root / name, name)
        ]
        found.sort(key=lambda mutant: order(mutant.key))
        turns = sorted(OPERATORS, key=lambda operator: order(f"{room}:{operator}"))
        queues = [[mutant for mutant in found if mutant.operator == name] for name in turns]
        in_turn = (mutant for turn in zip_longest(*queues) for mutant in turn if mutant)
        drawn += islice((one for one in in_turn if parses(one, root / one.file)), each)
    return drawn
