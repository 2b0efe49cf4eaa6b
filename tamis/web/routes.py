"""Where the parts of a run's page are, for any server: from a request to what is sent back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from tamis.web.access import Access
from tamis.web.pages import asset
from tamis.web.review_api import BadRequestError, ReviewAPI

TEXT, PAGE, CSV, JSON = "text/plain", "text/html", "text/csv", "application/json"
ASSETS = {
    "/page.css": "text/css",
    "/review.css": "text/css",
    "/charts.js": "text/javascript",
    "/review.js": "text/javascript",
}
NUMBERS = "/numbers/"
DECISIONS = "/decisions"


class Reply(NamedTuple):
    """What is sent back: text of a kind, a status, further headers."""

    content: str
    kind: str
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


def refusal_of(status: HTTPStatus, why: str = "") -> Reply:
    """Return a refusal, with its reason in one sentence."""
    return Reply(json.dumps({"error": why or status.phrase}), JSON, status)


def check_entry(
    access: Access, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> Reply | None:
    """Return why a request may not be answered, or None.

    A token in the address is moved to a cookie, by sending the browser there again.
    """
    token = query.get("token") if path == "/" else None
    if not access.knows(headers.get("Cookie"), token, headers.get("Authorization")):
        return refusal_of(HTTPStatus.FORBIDDEN, "Open the address with the token.")
    if access.token and token:
        cookie = ("Set-Cookie", access.set_cookie())
        return Reply("", TEXT, HTTPStatus.SEE_OTHER, (("Location", "/"), cookie))
    return None


def read_page(api: ReviewAPI, path: str, query: Mapping[str, str]) -> Reply:
    """Return the page, a part of it, or data."""
    pages = {"/": api.page, "/tiles": api.tiles, "/classes": api.classes, "/curves": api.curves}
    data: dict[str, Callable[[], object]] = {
        "/state": api.state,
        "/suspects": lambda: api.suspects(query),
        "/audit": lambda: api.audit(query),
        "/neighbours": lambda: api.neighbours(query.get("id", "")),
    }
    if path in ASSETS:
        return Reply(asset(path[1:]), ASSETS[path])
    if path in pages:
        return Reply(pages[path](), PAGE)
    if path == "/suspects.csv":
        return Reply(api.table(), CSV)
    if path.startswith(NUMBERS) and path.endswith(".csv"):
        content = api.numbers(path.removeprefix(NUMBERS).removesuffix(".csv"))
        return refusal_of(HTTPStatus.NOT_FOUND) if content is None else Reply(content, CSV)
    if path in data:
        return as_json(data[path])
    return refusal_of(HTTPStatus.NOT_FOUND)


def write_decision(
    api: ReviewAPI, access: Access, path: str, headers: Mapping[str, str], body: bytes
) -> Reply:
    """Write a decision that comes from the page."""
    if not access.may_write(headers):
        return refusal_of(HTTPStatus.FORBIDDEN, "Decisions come from the page itself.")
    if path != DECISIONS:
        return refusal_of(HTTPStatus.NOT_FOUND)
    return as_json(lambda: api.decide(body))


def as_json(make: Callable[[], object]) -> Reply:
    """Return data as JSON, or why there is none."""
    try:
        return Reply(json.dumps(make(), allow_nan=False), JSON)
    except BadRequestError as error:
        return refusal_of(HTTPStatus.BAD_REQUEST, str(error))
    except OSError as error:  # as of a disk that is full
        return refusal_of(HTTPStatus.INSUFFICIENT_STORAGE, error.strerror or str(error))
