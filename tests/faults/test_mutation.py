"""Mutants are small changes of code, drawn by a seed; what became of them is on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mutation.draw import ROOMS, draw
from tests.support.mutation.nearest import nearest
from tests.support.mutation.operators import OPERATORS, mutants_of
from tests.support.mutation.results import PAGE, read, reasons, section

ROOT = Path(__file__).parents[2]


def changes(folder: Path, text: str) -> set[str]:
    """Return the lines that mutants of a text have in place of others."""
    path = folder / "module.py"
    path.write_text(text, encoding="utf-8")
    before = set(text.splitlines())
    mutated = [mutant.apply(path.read_bytes()).decode() for mutant in mutants_of(path, "module.py")]
    return {line.strip() for one in mutated for line in one.splitlines() if line not in before}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a = b < c", {"a = b <= c"}),
        ("a = 'é' < b <= c", {"a = 'é' <= b <= c", "a = 'é' < b < c"}),
        ("a = b not in c", {"a = b in c"}),
        ("a = (b) is not (c)", {"a = (b) is (c)"}),
        ("a = f(7)", {"a = f(8)", }),
        ("a = f(.5, True)", {"a = f(1.0, True)", "a = f(.5, False)"}),
        ("a = f(b // c)", {"a = f(b * c)"}),
        ("if a and not b: c", {"if a or not b: c", "if a and  b: c", "if (not (a and not b)): c"}),
        ("a()", {"pass"}),
        ("def f(x):\n    x = g(x)\n    y = x\n    return y", {"pass"}),
        ("class A:\n    def f(self):\n        self.a = b\n        return", {"pass"}),
    ],
)  # fmt: skip
def test_each_operator(text: str, wanted: set[str], tmp_path: Path) -> None:
    assert changes(tmp_path, text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring."""',
        "def f(x: Literal[1] = y) -> A[2]:\n    'Only words.'",
        "x: Literal[3] = y",
        "Alias = A | B",
        "a = b + 'text'",
        "a = f'{b + 1}'",
        "assert a < 1",
        "@dataclass(frozen=True)\nclass A:\n    def __repr__(self):\n        return f(1)",
        "a = isinstance(b, C | D)",
        "a = zip(b, c, strict=True)",
        "LOG.warning(a, 1)",
        "class A:\n    def __init__(self):\n        self.a = b",
    ],
)
def test_left_alone(text: str, tmp_path: Path) -> None:
    assert changes(tmp_path, text) == set()


def test_messages_are_left_alone(tmp_path: Path) -> None:
    assert changes(tmp_path, "raise E(1)") == {"pass"}
    assert changes(tmp_path, "warn(a, stacklevel=2)") == {"pass"}


def test_a_draw_takes_every_room_and_operator() -> None:
    rooms = ("buffers", "checkpoint")
    drawn, again, other = (draw(ROOT, seed, 9, rooms) for seed in (0, 0, 1))
    assert drawn == again != other
    for room in rooms:
        of_room = {mutant for mutant in drawn if mutant.file.startswith(f"tamis/{room}/")}
        assert len(of_room) == 9
        assert {mutant.operator for mutant in of_room} == set(OPERATORS)


def test_the_nearest_tests() -> None:
    first, then = nearest(ROOT, "tamis/noise/alarm.py")
    assert (first[0], then[-1]) == ("tests/noise/test_alarm.py", "tamis/noise/alarm.py")
    assert {"tests/noise/test_tracker.py", "tests/training/test_recorder.py"} <= set(first + then)
    assert not set(first) & set(then)


def test_nine_of_ten_are_killed_and_survivors_have_a_reason() -> None:
    results, why = read().values(), reasons()
    survivors = [result for result in results if not result.killed_by]
    assert len(results) >= 60
    assert {result.room for result in results} == set(ROOMS)
    assert len(survivors) <= 0.1 * len(results)
    assert [str(result) for result in survivors if not why.get(result.key)] == []
    assert section() in PAGE.read_text(encoding="utf-8")
