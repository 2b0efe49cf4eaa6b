"""The limits of the house: rooms, sizes, layers, words, and what may import what."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = sorted((ROOT / "tamis").rglob("*.py"))
OUTSIDE_OF_TESTS = [
    path
    for room in ("tamis", "benchmarks", "examples")
    for path in sorted((ROOT / room).rglob("*.py"))
]
SHARED = 10
"""Lines that no two places may have in common."""
WRITTEN = (".py", ".html", ".js", ".css")
BEGINNINGS = ("Say ", "Tell ", "Let ", "Have ", "Give ")
NOT_WORDS = (
    "chance", "mend", "mended", "mending", "say", "says", "said", "tell", "tells", "told", "belief",
    "beliefs", "sure", "slack", "shyness", "caution", "curiosity", "spoil", "spoils", "spoilt",
    "keeper", "desk", "shelf", "spine", "lookout", "shown", "asked", "guard", "alike", "anew",
    "whole", "heed", "slopes",
)  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of the package that is of a kind, and where it is."""
    for path in PACKAGE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kinds):
                yield f"{name_of(path)}:{getattr(node, 'lineno', 1)}", node


def docstrings() -> Iterator[tuple[str, str]]:
    for place, node in nodes(ast.Module, ast.ClassDef, *Function.__args__):
        text = ast.get_docstring(node)  # type: ignore[arg-type]
        if text:
            yield place, text


def test_few_rooms() -> None:
    left_out = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
    rooms = {path.name for path in (ROOT / "tamis").iterdir()} - left_out
    assert len(rooms) <= 22, sorted(rooms)


def test_modules_are_short() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in PACKAGE}
    assert {name: length for name, length in lengths.items() if length > 350} == {}


def test_functions_are_short() -> None:
    """Their complexity is held by ruff's C90."""
    lengths = {
        f"{place} {node.name}": node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]
        for place, node in nodes(*Function.__args__)
    }
    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_few_layers_and_no_exceptions() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert settings["ruff"]["lint"]["mccabe"]["max-complexity"] <= 15
    assert "C90" in settings["ruff"]["lint"]["select"]
    for contract in settings["importlinter"]["contracts"]:
        assert len(contract["layers"]) <= 11
        assert "ignore_imports" not in contract


def code_lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a file that are neither empty, comments nor imports, numbered."""
    text = path.read_text(encoding="utf-8")
    imports = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(n, line) for n, line in lines if line and line[0] != "#" and n not in imports]


def test_no_two_places_share_ten_lines() -> None:
    found = defaultdict(list)
    for path in OUTSIDE_OF_TESTS:
        lines = code_lines(path)
        for at in range(len(lines) - SHARED + 1):
            window = tuple(line for _, line in lines[at : at + SHARED])
            found[window].append(f"{name_of(path)}:{lines[at][0]}")
    assert [places for places in found.values() if len(places) > 1] == []


def test_tests_import_nothing_from_benchmarks() -> None:
    wanted = re.compile(r"^\s*(from|import) benchmarks\b", re.MULTILINE)
    importing = [path for path in (ROOT / "tests").rglob("*.py") if wanted.search(path.read_text())]
    assert importing == []


def test_docstrings_begin_with_what_is_done() -> None:
    assert [place for place, text in docstrings() if text.startswith(BEGINNINGS)] == []


@pytest.mark.parametrize("room", ["tamis", "tests", "benchmarks", "examples"])
def test_code_is_in_the_words_of_the_field(room: str) -> None:
    """Names, comments, messages and pages; parts of a name in snake case count as words."""
    words = rf"(?<![a-z])(?!tell\(\))({'|'.join(NOT_WORDS)})(?![a-z])"  # but for file.tell()
    pattern = re.compile(words, re.IGNORECASE)
    texts = {path for path in (ROOT / room).rglob("*") if path.suffix in WRITTEN}
    found = [
        f"{name_of(path)}:{number} {match[0]}"
        for path in sorted(texts - {Path(__file__)})
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in pattern.finditer(line)
    ]
    assert found == []
