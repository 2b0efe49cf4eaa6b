"""The HTTP server of a run's page, by the standard library."""

from __future__ import annotations

import json
import socket
import sys
import threading
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
MOST_CONNECTIONS = 64
"""Connections at a time, at the most; a browser opens six."""
MOST_DIGITS = 18
"""Digits of a Content-Length, at the most: `int` refuses thousands of them."""
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
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, or refuse it where too many are open."""
        if not self._free.acquire(blocking=False):
            request.sendall(BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection until it is closed."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

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
    default_request_version = "HTTP/1.0"  # by default 0.9, whose answers have no headers
    server_version, sys_version = "tamis", ""
    timeout = PATIENCE
    body = b""

    def parse_request(self) -> bool:
        """Read a request: its head, the check of its Host, then its body, whatever the method.

        A body that was not read would be taken for the next request.
        """
        return super().parse_request() and self._is_addressed() and self._read_body()

    def handle_expect_100(self) -> bool:
        """Ask for the body, after the check of the Host."""
        return self._is_addressed() and super().handle_expect_100()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not HTTP, or an unknown method, as everything else is refused."""
        self._hang_up(HTTPStatus(code))

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
        elif address.path in (parts := {"/tiles": api.tiles, "/classes": api.classes}):
            self._answer(parts[address.path], PAGE)
        elif address.path == "/curves":
            self._answer(api.curves, PAGE)
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
        if not self._may_enter(address.path, {}):
            return
        if not self.server.access.may_write(dict(self.headers.items())):
            self._refuse(HTTPStatus.FORBIDDEN, "Decisions come from the page itself.")
        elif address.path != "/decisions":
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._answer_json(lambda: self.server.api.decide(self.body))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: addresses may hold ids, and the token."""

    def _is_addressed(self) -> bool:
        """Return whether the Host is ours; refuse the request otherwise."""
        hosts = self.headers.get_all("Host") or [""]
        if len(hosts) == 1 and self.server.access.answers_to(hosts[0]):
            return True
        self._hang_up(HTTPStatus.MISDIRECTED_REQUEST, "This is not the name of this server.")
        return False

    def _read_body(self) -> bool:
        """Read the body; refuse one that is too long, or of an unknown length."""
        lengths = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(lengths) > 1:
            self._hang_up(HTTPStatus.BAD_REQUEST)
        elif not lengths and self.command == "POST":
            self._hang_up(HTTPStatus.LENGTH_REQUIRED)
        elif not all(is_length(length) for length in lengths):
            self._hang_up(HTTPStatus.BAD_REQUEST)
        elif lengths and int(lengths[0]) > MOST_BYTES:
            self._hang_up(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self.body = self.rfile.read(int(lengths[0])) if lengths else b""
            return True
        return False

    def _may_enter(self, path: str, query: dict[str, str]) -> bool:
        access, token = self.server.access, query.get("token")
        if not access.knows(self.headers.get("Cookie"), token if path == "/" else None):
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address with the token.")
            return False
        if access.token and token and path == "/":  # out of the address, into a cookie
            self._send("", TEXT, HTTPStatus.SEE_OTHER, ("Location", "/"))
            return False
        return True

    def _answer(self, make: Callable[[], str], kind: str) -> None:
        self._send(make(), kind)

    def _answer_json(self, make: Callable[[], object]) -> None:
        try:
            self._send(json.dumps(make(), allow_nan=False), "application/json")
        except BadRequestError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except OSError as error:  # as of a disk that is full
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, error.strerror or str(error))

    def _hang_up(self, status: HTTPStatus, why: str = "") -> None:
        """Refuse a request, and read no other on this connection."""
        self.close_connection = True
        self._refuse(status, why)

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
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def is_length(text: str) -> bool:
    """Return whether a text is a number of bytes."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


def refusal(status: HTTPStatus) -> bytes:
    """Return a complete answer that refuses a connection."""
    headers = HEADERS | {"Server": "tamis", "Content-Length": 0, "Connection": "close"}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


BUSY = refusal(HTTPStatus.SERVICE_UNAVAILABLE)
