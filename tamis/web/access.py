"""Who may look at a run and decide: this machine, or who holds the token."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OURS = "X-Tamis"
"""A header that no form of another site can send, and no script without being asked for leave."""


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine, as only this machine sees it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Decides about requests by their headers.

    A name that another site has made to point at this machine (DNS rebinding) is refused, since
    none but our own names and plain addresses are answered. Writing takes a header of ours and the
    same origin. With a `token` nothing is answered without it, in the address once, then in a
    cookie; comparing takes as long whatever is wrong.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self.host = host
        self.port = port
        self.token = token
        self.cookie = f"tamis-{port}"
        self._names = {"localhost", host.strip("[]").lower()}
        if not is_loopback(host):
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def answers_to(self, host: str | None) -> bool:
        """Say whether the Host header is one of ours."""
        try:
            parts = urlsplit(f"//{host or ''}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None:
            return False
        return name in self._names or self._is_address(name)

    def _is_address(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not is_loopback(self.host)

    def knows(self, cookies: str | None, asked: str | None = None) -> bool:
        """Say whether the token was given, in a cookie or in the address."""
        if self.token is None:
            return True
        return self._same(asked) or self._same(read_cookie(cookies, self.cookie))

    def may_write(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request to write comes from our own page."""
        origin = headers.get("Origin") or ""
        site = headers.get("Sec-Fetch-Site")
        return (
            headers.get(OURS) is not None
            and urlsplit(origin).netloc == headers.get("Host")
            and urlsplit(origin).scheme in ("http", "https")
            and site in (None, "same-origin")
            and (headers.get("Content-Type") or "").split(";")[0] == "application/json"
        )

    def set_cookie(self) -> str:
        """Return the cookie that holds the token."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def _same(self, given: str | None) -> bool:
        return hmac.compare_digest((given or "").encode(), (self.token or "").encode())


def read_cookie(cookies: str | None, name: str) -> str | None:
    """Find a cookie in its header."""
    try:
        found = SimpleCookie(cookies or "").get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def make_token() -> str:
    """Make a token that nobody guesses."""
    return secrets.token_urlsafe(32)
