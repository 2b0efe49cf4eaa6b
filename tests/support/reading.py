"""Print how long sentences are on the first pages, and where words of the house's list are left.

python -m tests.support.reading

Sentences of prose, list items and cells of tables that hold a sentence count; code, headings and
formulas do not. Words that another word replaces are `NOT_WORDS` in tests/test_house.py.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import mean

from tests.test_house import NOT_WORDS

ROOT = Path(__file__).parents[2]
LIMIT = 20
FIRST_PAGES = ("README.md", "docs/start.md", *sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "how-to").glob("*.md")
))  # fmt: skip
BLOCKS = re.compile(r"^---\n.*?^---$|^ *(```+|:::+).*?^ *\1$|<!--.*?-->|^\$\$.*?^\$\$", re.M | re.S)
NEW_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+", re.MULTILINE)
ENDS = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[A-Z`*\[\"'(])")


def sentences(text: str) -> list[str]:
    """Return the sentences of a Markdown page, a list item being one or more."""
    text = BLOCKS.sub("\n\n", text)
    text = re.sub(r"^#.*$|^\|.*$|^!\[.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    paragraphs = re.split(r"\n\s*\n", NEW_ITEM.sub("\n\n", text))
    found = (each for part in paragraphs for each in ENDS.split(" ".join(part.split())))
    return [each for each in found if words(each)]


def words(sentence: str) -> list[str]:
    """Return the words of a sentence."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def mean_length(page: str) -> float:
    """Return the mean number of words of a page's sentences."""
    return mean(len(words(each)) for each in sentences((ROOT / page).read_text(encoding="utf-8")))


def not_words(page: Path) -> list[str]:
    """Return the words of a page's prose that the house has another word for."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(rf"\b({'|'.join(NOT_WORDS)})\b", prose, re.IGNORECASE)


def main() -> int:
    """Print a line for each page, and return 1 where one is over the limit."""
    bad = 0
    for page in FIRST_PAGES:
        length = mean_length(page)
        bad += length >= LIMIT
        print(f"{length:5.1f} words a sentence  {page}")
    prose = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    for path in sorted(path for path in prose if "_build" not in path.parts):
        for word in not_words(path):
            bad += 1
            print(f"{path.relative_to(ROOT)}: {word}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
