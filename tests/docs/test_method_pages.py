"""The tables that map a paper's equations to lines name things that are in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
TABLE = re.compile(r"^\|[^\n]*\| here \|\n(?:\|.*\n)+", re.MULTILINE)


def code_beside(text: str) -> str:
    """Return the code of the folders of all files that a page names."""
    named = {ROOT / name for name in re.findall(r"`(tamis/[\w./]+)`", text)}
    folders = {path if path.is_dir() else path.parent for path in named}
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return "\n".join([*(file.stem + ".py" for file in files), *(f.read_text() for f in files)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_beside_equations_are_in_the_code(page: Path) -> None:
    text = page.read_text()
    words = set(re.findall(r"\w+", code_beside(text)))
    for table in TABLE.findall(text):
        for row in table.splitlines()[2:]:
            for code in re.findall(r"`([^`]+)`", re.split(r"(?<!\\) \| ", row.strip("| "))[-1]):
                missing = set(re.findall(r"[A-Za-z_]\w+", code)) - words
                assert not missing, f"{code}: {missing}"
