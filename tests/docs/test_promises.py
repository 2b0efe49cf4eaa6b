"""Every promise on the pages names the tests that hold it, and those tests exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES = {
    "reliability.md": "Promised",
    "sources.md": "What is promised",
    "review.md": "What is promised",
    "scale.md": "What is promised",
    "service.md": "What is promised",
    "how-to/labels.md": "What is promised",
}
"""The heading of each page whose bullets are promises."""
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def promises(page: str) -> list[str]:
    """Return the bullets under the heading, each with its further lines."""
    section = re.split(r"^## ", read(page), flags=re.MULTILINE)
    (found,) = (part for part in section if part.startswith(f"{PROMISES[page]}\n"))
    bullets = re.split(r"^- ", found, flags=re.MULTILINE)[1:]
    return [re.split(r"\n\n(?! )", bullet)[0] for bullet in bullets]


@cache
def names_in(path: str) -> set[str]:
    """Return the names of the tests that a file defines, methods among them."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("page", PROMISES)
def test_every_promise_names_a_test(page: str) -> None:
    bullets = promises(page)
    assert len(bullets) >= 6
    for bullet in bullets:
        assert NAMED.search(bullet), bullet


PAGES = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    for path, name in NAMED.findall(read(page)):
        assert (ROOT / path).is_file(), path
        assert name in names_in(path), f"{path}::{name}"


@pytest.mark.parametrize("page", PROMISES)
def test_a_name_is_written_so_that_it_is_checked(page: str) -> None:
    """Neither without its test, nor broken over two lines, nor with the id of a parameter."""
    for name in re.findall(r"`(tests/[^`]*)`", read(page)):
        assert NAMED.fullmatch(f"`{name}`"), name
