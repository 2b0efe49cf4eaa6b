"""What all pages have in common: templates that escape, files beside them, the content policy."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from tamis.web.row_columns import cells_of
from tamis.web.tiles import tiles_of
from tamis.web.words import as_percent, as_time, count_of


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates, all of which escape what they are given."""
    templates = Environment(
        loader=PackageLoader("tamis.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"time": as_time, "percent": as_percent, "count_of": count_of}
    templates.globals |= {"tiles_of": tiles_of, "cells_of": cells_of, "icon": icon}
    return templates


@lru_cache(maxsize=16)
def asset(name: str) -> str:
    """Read a file that stands beside the templates."""
    loader = environment().loader
    if loader is None:
        raise FileNotFoundError(name)
    return loader.get_source(environment(), name)[0]


def icon() -> str:
    """Return the icon as an address."""
    return "data:image/svg+xml," + quote(asset("icon.svg"))


def render_file(template: str, **parts: Any) -> str:
    """Return a page in one file: styles and the script of charts inside, and nothing else runs.

    The policy in its head names both by their checksums.
    """
    css, script = asset("page.css"), asset("charts.js")
    policy = (
        f"default-src 'none'; script-src {checksum(script)}; style-src {checksum(css)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    files = {"css": Markup(css), "script": Markup(script)}  # noqa: S704
    return environment().get_template(template).render(**files, policy=policy, **parts)


def checksum(content: str) -> str:
    """Return the source expression of a content policy that allows this content alone."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
