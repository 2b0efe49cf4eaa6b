"""The HTTP server of a run's page, by the standard library."""

from __future__ import annotations

import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tamis.web.access import HEADERS, Access
from tamis.web.review_api import ReviewAPI
from tamis.web.routes import Reply, check_entry, read_page, refusal_of, write_decision

MOST_BYTES = 2**16
"""Bytes of a request body, at the most."""
PATIENCE = 30.0
"""Seconds that a connection may be silent."""
MOST_CONNECTIONS = 64
"""Connections at a time, at the most; a browser opens six."""
MOST_DIGITS = 18
"""Digits of a Content-Length, at the most: `int` refuses thousands of them."""


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
        return self.access.url


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
        refused = check_entry(self.server.access, address.path, query, self._named_headers())
        self._send(refused or read_page(self.server.api, address.path, query))

    def do_POST(self) -> None:
        """Write a decision."""
        path, server, headers = urlsplit(self.path).path, self.server, self._named_headers()
        refused = check_entry(server.access, path, {}, headers)
        self._send(refused or write_decision(server.api, server.access, path, headers, self.body))

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

    def _named_headers(self) -> dict[str, str]:
        return {name.title(): text for name, text in self.headers.items()}

    def _hang_up(self, status: HTTPStatus, why: str = "") -> None:
        """Refuse a request, and read no other on this connection."""
        self.close_connection = True
        self._send(refusal_of(status, why))

    def _send(self, reply: Reply) -> None:
        body = reply.content.encode()
        self.send_response(reply.status)
        kind = {"Content-Type": f"{reply.kind}; charset=utf-8", "Content-Length": len(body)}
        for name, value in [*(HEADERS | kind).items(), *reply.headers]:
            self.send_header(name, str(value))
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
