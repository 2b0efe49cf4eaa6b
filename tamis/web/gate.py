"""What every request passes before the service sees it: Host, token, size and time limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from http import HTTPStatus
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

from tamis.web.access import Access
from tamis.web.routes import Reply, check_entry, refusal_of
from tamis.web.service_metrics import Latencies

MOST_BYTES = 2**21
"""Bytes of a request body, at the most."""
MOST_HELD = 2**25
"""Bytes of the bodies of all requests in progress, at the most."""
ANSWER_SECONDS = 60.0
"""Seconds within which an answer must have gone."""
OPEN_PATHS = ("/health/live", "/health/ready")
"""Paths that need no token: they give nothing away."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class DisconnectedError(Exception):
    """A client that has gone away."""


class RefusedError(Exception):
    """A request that is refused, with the reply."""

    def __init__(self, status: HTTPStatus, why: str, *headers: tuple[str, str]) -> None:
        super().__init__(why)
        self.reply = refusal_of(status, why)._replace(headers=headers)


class Gate:
    """Lets requests through to an app that are for this server, allowed, small and in time.

    Bodies are read before the app is called, so that no client holds it up, and all bodies
    together are bounded. `paths` are those of the API, for which latencies are counted.
    """

    def __init__(
        self, app: App, access: Access, latencies: Latencies, paths: frozenset[str]
    ) -> None:
        self.app, self.access = app, access
        self.latencies, self.paths = latencies, paths
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = perf_counter(), 0

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._answer(scope, receive, note)
        except TimeoutError:
            if not status:
                await send_reply(note, refusal_of(HTTPStatus.SERVICE_UNAVAILABLE))
        finally:
            path = first_part(scope["path"])
            path = path if path in self.paths else "page"
            self.latencies.update(path, status, perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0
        try:
            reply = self._check(scope)
            if reply is not None:
                return await send_reply(send, reply)
            body = bytearray()
            async for piece in pieces(receive):
                body += piece
                held += len(piece)
                self._held += len(piece)
                self._check_size(len(body))
            await self.app(scope, replay(bytes(body), receive), send)
        except RefusedError as error:
            await send_reply(send, error.reply)
        except DisconnectedError:
            pass
        finally:
            self._held -= held

    def _check(self, scope: Scope) -> Reply | None:
        """Return why a request is not answered, by its head alone; None where it is."""
        given = [
            (name.decode("latin-1"), text.decode("latin-1")) for name, text in scope["headers"]
        ]
        headers = {name.title(): value for name, value in given}
        hosts = [value for name, value in given if name == "host"]
        if len(hosts) != 1 or not self.access.answers_to(hosts[0]):
            why = "This is not the name of this server."
            return refusal_of(HTTPStatus.MISDIRECTED_REQUEST, why)
        path: str = scope["path"]
        if path in OPEN_PATHS:
            return None
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        refused = check_entry(self.access, path, query, headers)
        if refused is not None:
            if refused.status != HTTPStatus.FORBIDDEN or first_part(path) not in self.paths:
                return refused
            why = "The token is missing or wrong: send it as Authorization: Bearer TOKEN."
            reply = refusal_of(HTTPStatus.UNAUTHORIZED, why)
            return reply._replace(headers=(("WWW-Authenticate", "Bearer"),))
        return self._check_writing(scope["method"], headers)

    def _check_writing(self, method: str, headers: dict[str, str]) -> Reply | None:
        if method in ("GET", "HEAD"):
            return None
        if not self.access.is_ours(headers):
            why = "Pages of other sites may not write here."
            return refusal_of(HTTPStatus.FORBIDDEN, why)
        kind = headers.get("Content-Type", "").split(";")[0].strip().lower()
        length = headers.get("Content-Length", "")
        if kind != "application/json" and method != "DELETE":
            why = "Send JSON, with Content-Type: application/json."
            return refusal_of(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
        if length.isdecimal() and len(length) < 20 and int(length) > MOST_BYTES:
            return too_large()
        return None

    def _check_size(self, size: int) -> None:
        if size > MOST_BYTES:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        if self._held > MOST_HELD:
            why = "Too many requests are in progress; try again later."
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why, ("Retry-After", "1"))


TOO_LARGE = f"A request has at most {MOST_BYTES:,} bytes; send fewer rows at a time."


def too_large() -> Reply:
    """Return the refusal of a body that is too long."""
    return refusal_of(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)


def first_part(path: str) -> str:
    """Return the first part of a path.

    >>> first_part("/labels/a/b"), first_part("/")
    ('/labels', '/')
    """
    return "/" + path.split("/")[1]


async def pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the body of a request as it comes."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        more = message.get("more_body", False)
        yield message.get("body", b"")


def replay(body: bytes, receive: Receive) -> Receive:
    """Return how an app receives a body that was read already."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a reply."""
    body = reply.content.encode()
    headers = [("content-type", f"{reply.kind}; charset=utf-8"), ("content-length", str(len(body)))]
    headers += [(name.lower(), value) for name, value in reply.headers]
    coded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": reply.status.value, "headers": coded})
    await send({"type": "http.response.body", "body": body})
