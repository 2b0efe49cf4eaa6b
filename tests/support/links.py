"""Find dead links in a site on disk and in Markdown pages of the project, without a network.

python -m tests.support.links docs/_build

A link inside must lead to a file, and its anchor to an id there. Of a link outside only the form is
checked.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SCHEMES = {"http", "https", "mailto", "data"}
INLINE = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
FENCES = re.compile(r"^ *(```|:::).*?^ *\1", re.MULTILINE | re.DOTALL)


class Page(HTMLParser):
    """The ids and the links of a page of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value or "")
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


@cache
def read(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


def dead_links(site: Path) -> list[str]:
    """Return every link of a site's pages that leads nowhere, after the page that it is on."""
    site = site.resolve()
    return [
        f"{page.relative_to(site)}: {link}: {why}"
        for page in sorted(site.rglob("*.html"))
        for link in dict.fromkeys(read(page).links)
        if (why := fault(page, link))
    ]


def fault(page: Path, link: str) -> str:
    """Return what is wrong with a link of a page of HTML, or nothing."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return outside(link)
    if not link:
        return "empty"
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not file.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and file.suffix == ".html" and anchor not in read(file).ids:
        return "no such anchor"
    return ""


def outside(link: str) -> str:
    """Return what is wrong with the form of a link to somewhere else, or nothing."""
    parts = urlsplit(link)
    if parts.scheme not in SCHEMES:
        return "unknown scheme"
    if parts.scheme.startswith("http") and not re.fullmatch(
        r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc
    ):
        return "no host"
    return ""


def dead_links_of_markdown(page: Path) -> list[str]:
    """Return every link of a Markdown page that leads nowhere, read as a code host does."""
    found = []
    for link in INLINE.findall(FENCES.sub("", page.read_text(encoding="utf-8"))):
        parts = urlsplit(link)
        if parts.scheme:
            why = outside(link)
        else:
            file = page.parent / unquote(parts.path) if parts.path else page
            why = "" if file.exists() else "no such file"
            if not why and parts.fragment and parts.fragment not in anchors(file):
                why = "no such heading"
        if why:
            found.append(f"{page.name}: {link}: {why}")
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors that a code host makes of the headings of a Markdown page."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    texts = (re.sub(r"[^\w\- ]", "", head.lower()).strip() for head in heads)
    return {text.replace(" ", "-") for text in texts}


if __name__ == "__main__":
    dead = [line for site in sys.argv[1:] for line in dead_links(Path(site))]
    dead += dead_links_of_markdown(Path("README.md"))
    print("\n".join(dead) or "no dead link")
    sys.exit(bool(dead))
