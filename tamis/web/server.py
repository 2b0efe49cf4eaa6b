"""The HTTP server of a run's page, by the standard library."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tamis.web.access import HEADERS, Access
from tamis.web.review_api import BadRequestError, ReviewAPI
from tamis.web.run_page import asset

MOST_BYTES = 2**16
"""Bytes of a request body, at the most."""
PATIENCE = 30.0
"""Seconds that a connection may be silent."""
TEXT, PAGE, CSV = "text/plain", "text/html", "text/csv"
ASSETS = {"/page.css": "text/css", "/review.css": "text/css", "/review.js": "text/javascript"}


class Server(ThreadingHTTPServer):
    """Serves one run. `port` 0 takes any free port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, api: ReviewAPI, host: str, port: int, token: str | None) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host.strip("[]"), port), Handler)
        self.api = api
        self.access = Access(host, self.server_port, token)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print errors, except for connections that the browser has closed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Return the address to open, with the token if there is one."""
        host = self.access.host
        name = f"[{host.strip('[]')}]" if ":" in host else host
        token = f"?token={self.access.token}" if self.access.token else ""
        return f"http://{name}:{self.server_port}/{token}"


class Handler(BaseHTTPRequestHandler):
    """Answers requests, after access control."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tamis", ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Send a page, a part of it, or data."""
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        if not self._may_enter(address.path, query):
            return
        api = self.server.api
        if address.path in ASSETS:
            self._send(asset(address.path[1:]), ASSETS[address.path])
        elif address.path == "/":
            self._answer(api.page, PAGE)
        elif address.path in ("/tiles", "/curves"):
            self._answer(api.tiles if address.path == "/tiles" else api.curves, PAGE)
        elif address.path == "/suspects.csv":
            self._answer(api.table, CSV)
        elif address.path.startswith("/numbers/") and address.path.endswith(".csv"):
            name = address.path.removeprefix("/numbers/").removesuffix(".csv")
            content = api.numbers(name)
            self._refuse(HTTPStatus.NOT_FOUND) if content is None else self._send(content, CSV)
        elif address.path == "/state":
            self._answer_json(api.state)
        elif address.path == "/suspects":
            self._answer_json(lambda: api.suspects(query))
        elif address.path == "/neighbours":
            self._answer_json(lambda: api.neighbours(query.get("id", "")))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Write a decision."""
        address = urlsplit(self.path)
        body = self._read()
        if body is None or not self._may_enter(address.path, {}):
            return
        if not self.server.access.may_write(dict(self.headers.items())):
            self._refuse(HTTPStatus.FORBIDDEN, "Decisions come from the page itself.")
        elif address.path != "/decisions":
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._answer_json(lambda: self.server.api.decide(body))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: addresses may hold ids, and the token."""

    def _may_enter(self, path: str, query: dict[str, str]) -> bool:
        access, token = self.server.access, query.get("token")
        if not access.answers_to(self.headers.get("Host")):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "This is not the name of this server.")
            return False
        if not access.knows(self.headers.get("Cookie"), token if path == "/" else None):
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address with the token.")
            return False
        if access.token and token and path == "/":  # out of the address, into a cookie
            self._send("", TEXT, HTTPStatus.SEE_OTHER, ("Location", "/"))
            return False
        return True

    def _read(self) -> bytes | None:
        """Return the body of a request; None if it is too long, or without a length."""
        length = self.headers.get("Content-Length") or ""
        if not length.isascii() or not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return None
        return self.rfile.read(int(length))

    def _answer(self, make: Callable[[], str], kind: str) -> None:
        self._send(make(), kind)

    def _answer_json(self, make: Callable[[], object]) -> None:
        try:
            self._send(json.dumps(make(), allow_nan=False), "application/json")
        except BadRequestError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except OSError as error:  # as of a disk that is full
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, error.strerror or str(error))

    def _refuse(self, status: HTTPStatus, why: str = "") -> None:
        content = json.dumps({"error": why or status.phrase})
        self._send(content, "application/json", status)

    def _send(
        self, content: str, kind: str, status: HTTPStatus = HTTPStatus.OK, *more: tuple[str, str]
    ) -> None:
        body = content.encode()
        self.send_response(status)
        headers = HEADERS | {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": len(body)}
        for name, value in [*headers.items(), *more]:
            self.send_header(name, str(value))
        if status == HTTPStatus.SEE_OTHER:
            self.send_header("Set-Cookie", self.server.access.set_cookie())
        self.end_headers()
        self.wfile.write(body)
