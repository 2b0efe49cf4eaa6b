"""Markdown: escaped text, short numbers, links to methods, parts of a page between marks."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from tamis.lab.methods import METHODS, VARIANTS

PAGES = {method.name: method.page for method in (*METHODS, *VARIANTS)}


def share(value: float) -> str:
    """Write a share with three places, as short as it goes."""
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def as_bytes(count: int) -> str:
    """Write a number of bytes so that it can be read."""
    if count < 1000:
        return str(count) if not count else f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def linked(method: str, page: Path, name: str | None = None) -> str:
    """Link a method to its page, where the folder that the board's page lies in has one."""
    here = page.resolve()
    for folder in here.parents:
        target = folder / "docs" / "methods" / f"{name or PAGES.get(method, '')}.md"
        if target.exists():
            way = Path(os.path.relpath(target, here.parent)).as_posix()
            return f"[{escape(method)}]({way})"
    return escape(method)


def escape(text: str) -> str:
    """Keep Markdown from reading text as anything but text."""
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", " ".join(text.split()))


def read_page(page: Path, part: str = "board") -> str:
    """Return the page as it is, or one with nothing but the two marks of a part."""
    new = f"# The {part}\n\n<!-- {part} -->\n<!-- /{part} -->\n"
    return page.read_bytes().decode() if page.exists() else new


def put_between(page: str, text: str, part: str = "board") -> str:
    """Return a page with a part between its two marks; the rest is unchanged.

    >>> put_between("a <!-- board -->old<!-- /board --> b", "new")
    'a <!-- board -->\\nnew\\n<!-- /board --> b'
    """
    first, last = f"<!-- {part} -->", f"<!-- /{part} -->"
    before, _, rest = page.partition(first)
    _, closed, after = rest.partition(last)
    if not closed or page.count(first) != 1:
        raise ValueError(f"a {part} goes between {first} and, below it, {last}: each once")
    return f"{before}{first}\n{text}\n{last}{after}"
