"""Access control: requests of this machine, or with the token."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from base64 import b64decode
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
"""A header that no form of another site can send, and no script without a CORS preflight."""


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Accepts or refuses requests by their headers.

    A name that another site has made to point at this machine (DNS rebinding) is refused, since
    only our own names and plain addresses are answered. Writing needs our header and the same
    origin. With a `token`, every request needs it: of a browser first in the address, then in a
    cookie, of a program as `Authorization: Bearer`. Tokens are compared in constant time.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self.host = host
        self.port = port
        self.token = token
        self.cookie = f"tamis-{port}"
        self._names = {"localhost", host.strip("[]").lower()}
        if not is_loopback(host):
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    @property
    def url(self) -> str:
        """Address to open, with the token if there is one."""
        name = f"[{self.host.strip('[]')}]" if ":" in self.host else self.host
        token = f"?token={self.token}" if self.token else ""
        return f"http://{name}:{self.port}/{token}"

    def answers_to(self, host: str | None) -> bool:
        """Return whether the Host header names this server."""
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

    def knows(
        self, cookies: str | None, given: str | None = None, authorization: str | None = None
    ) -> bool:
        """Return whether the token is in a cookie, in the address or in the Authorization."""
        if self.token is None:
            return True
        if self._same(given) or self._same(read_cookie(cookies, self.cookie)):
            return True
        return self._same(read_authorization(authorization))

    def may_write(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request to write comes from our own page."""
        origin = headers.get("Origin") or ""
        site = headers.get("Sec-Fetch-Site")
        return (
            headers.get(OURS) is not None
            and urlsplit(origin).netloc == headers.get("Host")
            and urlsplit(origin).scheme in ("http", "https")
            and site in (None, "same-origin")
            and (headers.get("Content-Type") or "").split(";")[0] == "application/json"
        )

    def is_ours(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request comes from a program, or from our own page."""
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        own = origin is None or urlsplit(origin).netloc == headers.get("Host")
        return own and site in (None, "none", "same-origin")

    def set_cookie(self) -> str:
        """Return the cookie that holds the token."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def _same(self, given: str | None) -> bool:
        return hmac.compare_digest((given or "").encode(), (self.token or "").encode())


def read_cookie(cookies: str | None, name: str) -> str | None:
    """Return the value of a cookie, if it is in the header."""
    try:
        found = SimpleCookie(cookies or "").get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def read_authorization(header: str | None) -> str | None:
    """Return the token of a header: as such, or as the password of basic authentication.

    >>> read_authorization("Bearer abc"), read_authorization("Basic dXNlcjphYmM=")
    ('abc', 'abc')
    """
    kind, _, given = (header or "").partition(" ")
    if kind.lower() == "bearer":
        return given.strip()
    if kind.lower() != "basic":
        return None
    try:
        _, separator, password = b64decode(given, validate=True).decode().partition(":")
    except ValueError:  # of base64 and of UTF-8 both
        return None
    return password if separator else None


def make_token() -> str:
    """Return a random token of 256 bits."""
    return secrets.token_urlsafe(32)
